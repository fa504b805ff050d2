package schedule

import (
	"math/rand/v2"
	"testing"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/model"

	"github.com/stretchr/testify/require"
)

// cramped returns a scheduler whose memory holds the given number of sequences of full length.
func cramped(t *testing.T, context, contexts, sequences int) manual {
	t.Helper()
	return newManual(t, setup{
		path: microLlama, limits: model.Limits{Context: context, Pages: contexts * context / 16}, options: Options{MaxSequences: sequences},
	})
}

// rowsUntil runs the loop until a request has ended. It returns the numbers of rows and steps.
func (m manual) rowsUntil(r *request) (rows, steps int) {
	for ; r.open > 0; steps++ {
		rows += m.rows()
	}
	return rows, steps
}

// If memory holds only a few sequences of mixed lengths, each is computed once, and as many run at
// a time as memory holds.
func TestAdmissionLeavesPagesForWhatRuns(t *testing.T) {
	t.Parallel()
	const context, sequences = 256, 32
	for _, contexts := range []int{1, 2, 4, 8} {
		m := cramped(t, context, contexts, sequences)
		r := rand.New(rand.NewPCG(1, 2))
		var all []*request
		want, positions := 0, 0
		for i := range 3 * sequences {
			prompt, answer := 1+r.IntN(60), 1+r.IntN(120)
			tokens := make([]int32, prompt)
			for j := range tokens {
				tokens[j] = int32(100 + i + j*7)
			}
			want += prompt + answer - 1
			positions += (prompt + answer) * answer
			all = append(all, m.begin(generation.Request{Tokens: tokens, MaxTokens: answer, IgnoreEOS: true}))
		}
		rows, steps := 0, 0
		for _, c := range all {
			given, taken := m.rowsUntil(c)
			rows, steps = rows+given, steps+taken
		}
		require.Zero(t, m.loop.planner.preemptions, "memory for %d", contexts)
		require.Equal(t, want, rows, "memory for %d", contexts)
		// Each sequence holds its positions for as many steps as its answer has tokens.
		require.Less(t, steps, 2*positions/(contexts*context), "memory for %d: more steps than sequences that use all pages take", contexts)
	}
}

// Sequences whose answers stop at random, long before their maximum length, are seldom preempted:
// few rows are computed twice.
func TestAdmissionComputesLittleTwice(t *testing.T) {
	t.Parallel()
	const context, sequences = 256, 32
	for _, contexts := range []int{1, 2, 4, 8} {
		m := cramped(t, context, contexts, sequences)
		r := rand.New(rand.NewPCG(3, 4))
		stops := make([]int32, m.loop.model.Config().Vocab/40)
		for i := range stops {
			stops[i] = int32(40 * i)
		}
		var all []*request
		for i := range 5 * sequences {
			req := batchRequest(int32(100+i), 1+r.IntN(60), 1+r.IntN(120))
			if i%2 == 0 {
				req.MaxTokens, req.StopIDs, req.Sampling = context-len(req.Tokens), stops, generation.Sampling{Temperature: 50, Seed: uint64(i)}
			}
			all = append(all, m.begin(req))
		}
		rows, needed := 0, 0
		for _, c := range all {
			n, _ := m.rowsUntil(c)
			rows += n
			needed += c.seqs[0].length() - 1
		}
		t.Logf("memory for %d: %d preemptions, %d rows computed, %d needed (%.3f)", contexts, m.loop.planner.preemptions, rows, needed, float64(rows)/float64(needed))
		require.LessOrEqual(t, float64(rows), 1.1*float64(needed), "memory for %d", contexts)
	}
}

// If memory holds MaxSequences whole contexts, all sequences run at once.
func TestAdmissionFillsTheMemory(t *testing.T) {
	t.Parallel()
	const context, sequences = 48, 4
	m := cramped(t, context, sequences, sequences)
	for i := range sequences {
		m.begin(generation.Request{Tokens: ascending(20 + i), MaxTokens: context - 20 - i, IgnoreEOS: true})
	}
	m.step()
	require.Len(t, m.loop.planner.running, sequences)
	for len(m.loop.planner.running) > 0 {
		m.step()
	}
	require.Zero(t, m.loop.planner.preemptions)
}

// The expected length of an answer is that of recent answers.
func TestAdmissionLearnsTheLengthOfAnswers(t *testing.T) {
	t.Parallel()
	m := cramped(t, 512, 2, 32)
	answer := func(n int) {
		for range n {
			m.begin(generation.Request{
				Tokens: []int32{1, 2, 3}, MinTokens: 6, StopIDs: []int32{7}, Sampling: generation.Sampling{LogitBias: map[int32]float64{7: 100}},
			})
		}
		m.step()
	}
	answer(20)
	require.LessOrEqual(t, len(m.loop.planner.running), 8, "each may take 512 positions and is expected to take 128; memory holds 1024")
	for len(m.loop.planner.running)+len(m.loop.planner.waiting) > 0 {
		m.step()
	}
	answer(20)
	require.Len(t, m.loop.planner.running, 20)
}

// A waiting prompt is hashed once, however many steps it waits for.
func TestWaitingPromptsAreHashedOnce(t *testing.T) {
	t.Parallel()
	m := cramped(t, 256, 1, 32)
	m.begin(generation.Request{Tokens: ascending(100), MaxTokens: 150, IgnoreEOS: true})
	m.step()
	waits := m.begin(generation.Request{Tokens: ascending(90), MaxTokens: 150, IgnoreEOS: true})
	m.step()
	s := waits.seqs[0]
	require.Nil(t, s.table, "the sequence waits for pages")
	require.Equal(t, 5, m.loop.planner.held(s))
	s.tokens = make([]int32, 90) // if the tokens were hashed again, no page would be found
	require.Equal(t, 5, m.loop.planner.held(s))
	require.True(t, m.loop.planner.pool.HasPrefix(s.head))
	m.step()
	require.Equal(t, 5, m.loop.planner.held(s))
	require.True(t, m.loop.planner.pool.HasPrefix(s.head))
}

// A prompt is answered at once next to a stream that fills every step with its drafts.
func TestDraftsLeaveRoomForPrompts(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string]*cost.Steps{"by rows": nil, "by time": affine()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newManual(t, setup{
				path: microLlama, limits: model.Limits{Rows: 9}, options: Options{MaxSequences: 2, Steps: steps},
				speculate: func(_ compute.Backend, o *draft.Options) { o.NGram, o.Fixed = true, 8 },
			})
			m.begin(generation.Request{Tokens: []int32{1, 2, 3, 1, 2, 3}, IgnoreEOS: true, Sampling: generation.Sampling{LogitBias: map[int32]float64{7: 100}}})
			for range 20 {
				m.step()
			}
			require.Len(t, m.loop.planner.running[0].draft.Drafts, 8)
			c := m.begin(generation.Request{Tokens: ascending(20), MaxTokens: 1, IgnoreEOS: true})
			for range 3 {
				require.False(t, c.answered())
				require.LessOrEqual(t, m.rows(), 9)
			}
			require.True(t, c.answered(), "20 rows in steps that have room for 8")
			for range 3 {
				m.step()
			}
			require.Equal(t, 9, m.rows(), "the stream drafts again after the prompt")
		})
	}
}
