package schedule

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/model"
)

// The times of tokens, and the figures that follow from them, if each pass takes a second.
func TestTimesOfTokens(t *testing.T) {
	t.Parallel()
	for _, inFlight := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			m := newSimulated(t, model.Config{}, model.Limits{Rows: 8}, Options{MaxInFlight: inFlight}, nil)
			m.loop.model.(*simulated).took = time.Second
			began := time.Now()
			<-time.After(time.Second) // it waits before it is admitted
			req := generation.Request{Tokens: ascending(12), N: 2, MaxTokens: 9, IgnoreEOS: true, Timed: true, Sampling: generation.Sampling{Temperature: 1}}
			r, err := newRequest(t.Context(), m.tokenizer, m.context, began, req.Tokens, &req, nil)
			require.NoError(t, err)
			require.NoError(t, m.inbox.put(r))
			turns := 0
			for ; r.open > 0; turns++ {
				require.True(t, m.loop.turn())
			}
			<-r.done
			// Two steps for the 12 tokens of the prompt, of which the second choice adopts none.
			// The first choice has its first token after the second step.
			c := r.completion(m.tokenizer)
			first := c.Choices[0].Times[0].Sub(began)
			require.Equal(t, 3*time.Second, first)
			for _, choice := range c.Choices {
				require.Len(t, choice.Times, 9)
				for i, at := range choice.Times[1:] {
					require.Equal(t, time.Second, at.Sub(choice.Times[i]), "token %d", i+1)
				}
			}
			st, now := c.Stats, m.Snapshot()
			last := c.Choices[1].Times[8]
			require.Equal(t, []time.Duration{3 * time.Second, 2 * time.Second, last.Sub(began) - first}, []time.Duration{st.TTFT, st.Prefill, st.Decode})
			require.Equal(t, st.Steps, int(now.Steps))
			require.EqualValues(t, 24, now.PromptTokens)
			require.EqualValues(t, 18, now.GeneratedTokens)
			require.Equal(t, []time.Duration{time.Duration(now.Steps) * time.Second, time.Second}, []time.Duration{now.StepTime, now.LastStep})
			if inFlight == 1 {
				require.Equal(t, int(now.Steps)+1, turns)
			}
		})
	}
}

// A request that runs reports its tokens at intervals that begin when it was made.
func TestReportsOfARequest(t *testing.T) {
	t.Parallel()
	for rows, want := range map[int][]int{9: {3, 6}, 2: {1, 4, 7}} { // the second prompt takes 5 steps
		reportsOfARequest(t, model.Limits{Rows: rows}, want)
	}
}

func reportsOfARequest(t *testing.T, limits model.Limits, want []int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := newSimulated(t, model.Config{}, limits, Options{}, nil)
		m.loop.model.(*simulated).took = time.Second
		var lengths []int
		req := batchRequest(300, 9, 9)
		req.Progress = generation.Reporting{Every: 3 * time.Second, To: func(p generation.Progress) {
			require.Equal(t, generation.HashPrompt(req.Tokens), p.Prompt)
			lengths = append(lengths, len(p.Choices[0]))
		}}
		r, err := newRequest(t.Context(), m.tokenizer, m.context, time.Now(), req.Tokens, &req, nil)
		require.NoError(t, err)
		require.NoError(t, m.inbox.put(r))
		for r.open > 0 {
			require.True(t, m.loop.turn())
		}
		require.Equal(t, want, lengths)
		m.inbox.close(generation.ErrClosed)
		late, err := newRequest(t.Context(), m.tokenizer, m.context, time.Now(), req.Tokens, &req, nil)
		require.NoError(t, err)
		require.ErrorIs(t, m.inbox.put(late), generation.ErrClosed)
		require.False(t, m.loop.turn())
	})
}

// The durations of steps correct the estimates, those of steps that depend on drafts do not.
func TestStepsCorrectTheEstimates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newSimulated(t, model.Config{}, model.Limits{}, Options{}, nil)
		sim := m.loop.model.(*simulated)
		sim.took, sim.blind = 10*time.Millisecond, true
		steps, err := cost.Measure(sim, m.loop.planner.limits)
		sim.blind = false
		require.NoError(t, err)
		require.InDelta(t, 0.01, steps.Seconds(cost.Rows(0, 4, 1)), 1e-9)
		m.loop.costs = steps
		m.finish(m.begin(batchRequest(300, 8, 10)))
		require.InDelta(t, 0.01, steps.Seconds(cost.Rows(0, 4, 1)), 1e-9)
		sim.took *= 2
		m.finish(m.begin(batchRequest(350, 8, 10)))
		require.Greater(t, steps.Seconds(cost.Rows(0, 4, 1)), 0.012)
	})
}

// A step is interrupted only while it takes longer than an interactive request waits at most.
func TestWhenAStepIsInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &inbox{wake: make(chan struct{}, 1)}
		i := newInterrupter(b)
		require.Nil(t, i.interrupt(false, 1, time.Now().Add(maxWait-1)))
		ask := i.interrupt(false, 1, time.Now().Add(maxWait))
		require.NotNil(t, ask)
		require.NoError(t, b.put(&request{interactive: true}))
		require.False(t, ask(), "it ends soon enough")
		ask = i.interrupt(false, 1, time.Now().Add(maxWait+1))
		require.True(t, ask())
		<-time.After(time.Hour)
		require.True(t, ask())
		i.interrupt(false, 1, time.Now().Add(time.Hour))
		require.False(t, i.interrupted)
	})
}

// However many requests arrive, the loop wakes once for them.
func TestTheInboxWakesTheLoopOnce(t *testing.T) {
	t.Parallel()
	m := newSimulated(t, model.Config{}, model.Limits{}, Options{}, nil)
	b := m.inbox
	for i := range 3 {
		require.NoError(t, b.put(&request{seqs: make([]*sequence, i+1), interactive: i == 1}))
	}
	require.Len(t, b.wake, 1)
	require.Equal(t, 6, b.sequences())
	require.Equal(t, 6, m.Snapshot().Waiting)
	require.True(t, b.interactive.Load())
	var got []int
	require.True(t, b.take(func(seqs []*sequence) { got = append(got, len(seqs)) }))
	require.Equal(t, []int{1, 2, 3}, got)
	require.False(t, b.interactive.Load())
	require.Zero(t, b.sequences())
	<-b.wake
	b.close(generation.ErrClosed)
	b.close(generation.ErrEngineFailed)
	require.Len(t, b.wake, 1)
	require.Equal(t, generation.ErrClosed, b.put(&request{}))
	require.False(t, b.take(func([]*sequence) { require.Fail(t, "nothing is left") }))
}
