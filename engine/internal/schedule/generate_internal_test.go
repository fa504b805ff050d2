package schedule

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// started starts a scheduler's loop and stops it when the test ends.
func started(t *testing.T, s setup) *Scheduler {
	t.Helper()
	s.path = microLlama
	m := newManual(t, s)
	go m.Run()
	t.Cleanup(m.Close)
	return m.Scheduler
}

func (s *Scheduler) generate(t *testing.T, req generation.Request) generation.Completion {
	t.Helper()
	c, err := s.Generate(t.Context(), time.Now(), req.Tokens, &req, nil)
	require.NoError(t, err)
	return c
}

// plain returns the log-probabilities of all tokens after each token of a text, by a plain forward
// pass of the whole text.
func plain(t *testing.T, tokens []int32) [][]float64 {
	t.Helper()
	be, err := cpu.New(1)
	require.NoError(t, err)
	defer be.Close()
	logits, err := modeltest.Load(t, be, microLlama).Forward(modeltest.Batch(tokens, 0))
	require.NoError(t, err)
	all := make([][]float64, len(logits))
	for i, row := range logits {
		sum := modeltest.LogSumExp(row)
		for _, v := range row {
			all[i] = append(all[i], float64(v)-sum)
		}
	}
	return all
}

// A completion has the tokens that a plain forward pass gives, with their log-probabilities and
// those of the prompt, the likeliest alternatives, times and statistics.
func TestACompletionIsThatOfTheModel(t *testing.T) {
	t.Parallel()
	s := started(t, setup{options: Options{PrefillChunk: 5}})
	prompt := ascending(13)
	c := s.generate(t, generation.Request{Tokens: prompt, N: 2, MaxTokens: 7, IgnoreEOS: true, Logprobs: true, TopLogprobs: 3, PromptLogprobs: true, Timed: true})
	require.Equal(t, prompt, c.PromptTokens)
	require.Len(t, c.Choices, 2)
	whole := append(slices.Clone(prompt), c.Choices[0].Tokens...)
	want := plain(t, whole)
	check := func(got generation.TokenLogprob, id int32, of []float64, top int) {
		t.Helper()
		require.Equal(t, id, got.ID)
		require.InDelta(t, of[id], got.Logprob, 1e-4)
		require.Equal(t, string(s.tokenizer.Bytes(id)), string(got.Bytes))
		require.Equal(t, strings.ToValidUTF8(string(got.Bytes), "\uFFFD"), got.Text)
		require.Len(t, got.Top, top)
		for i, other := range got.Top {
			require.InDelta(t, of[other.ID], other.Logprob, 1e-4)
			better := 0
			for _, p := range of {
				if p > of[other.ID]+1e-4 {
					better++
				}
			}
			require.LessOrEqual(t, better, i, "alternative %d", i)
			require.Nil(t, other.Top)
		}
	}
	require.Len(t, c.PromptLogprobs, len(prompt))
	require.Zero(t, c.PromptLogprobs[0].Logprob)
	require.Nil(t, c.PromptLogprobs[0].Top)
	require.Equal(t, prompt[0], c.PromptLogprobs[0].ID)
	for i := 1; i < len(prompt); i++ {
		check(c.PromptLogprobs[i], prompt[i], want[i-1], 3)
	}
	for _, choice := range c.Choices {
		require.Equal(t, whole[len(prompt):], choice.Tokens, "both choices are greedy")
		require.Equal(t, generation.FinishLength, choice.FinishReason)
		require.Empty(t, choice.StopReason)
		require.Len(t, choice.Logprobs, 7)
		require.Len(t, choice.Times, 7)
		for i, id := range choice.Tokens {
			of := want[len(prompt)-1+i]
			check(choice.Logprobs[i], id, of, 3)
			require.InDelta(t, slices.Max(of), of[id], 1e-4, "the likeliest token")
			require.True(t, i == 0 || !choice.Times[i].Before(choice.Times[i-1]))
		}
	}
	st := c.Stats
	require.Equal(t, []int{13, 14, 0, 0}, []int{st.PromptTokens, st.CompletionTokens, st.CachedTokens, st.ResumedTokens})
	require.GreaterOrEqual(t, st.Steps, 3+6, "three steps for the prompt, and one for each further token")
	require.GreaterOrEqual(t, st.BatchMean, 1.0)
	require.LessOrEqual(t, st.BatchMean, 2.0)
	require.Positive(t, st.Prefill)
	require.GreaterOrEqual(t, st.TTFT, st.Prefill)
	require.Positive(t, st.Decode)
	require.GreaterOrEqual(t, st.Total, st.TTFT+st.Decode)

	after := s.generate(t, generation.Request{Tokens: prompt, MaxTokens: 1})
	require.Nil(t, after.Choices[0].Logprobs)
	require.Nil(t, after.Choices[0].Times)
	require.Nil(t, after.PromptLogprobs)
	require.Equal(t, c.Choices[0].Tokens[:1], after.Choices[0].Tokens)
	now := s.Snapshot()
	require.Equal(t, []int{0, 0}, []int{now.Running, now.Waiting})
	require.EqualValues(t, 15, now.GeneratedTokens)
	require.Positive(t, now.StepTime)
	require.Positive(t, now.LastStep)
	require.Equal(t, s.loop.planner.limits.Pages, now.PagesTotal)
}

// Only the prompt is computed, in one answer per choice.
func TestAPromptWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	s := started(t, setup{})
	c := s.generate(t, generation.Request{Tokens: ascending(9), N: 2, PromptOnly: true, PromptLogprobs: true, TopLogprobs: 1})
	require.Len(t, c.PromptLogprobs, 9)
	require.Equal(t, []generation.Choice{{FinishReason: generation.FinishLength}, {FinishReason: generation.FinishLength}}, c.Choices)
	want := plain(t, ascending(9))
	for i, got := range c.PromptLogprobs[1:] {
		require.InDelta(t, want[i][got.ID], got.Logprob, 1e-4)
		require.Len(t, got.Top, 1)
	}
	steps := s.Snapshot().Steps
	for _, req := range []generation.Request{{Tokens: ascending(9), PromptOnly: true}, {Tokens: ascending(1), PromptOnly: true, PromptLogprobs: true}} {
		c := s.generate(t, req)
		require.Equal(t, []generation.Choice{{FinishReason: generation.FinishLength}}, c.Choices)
		require.Zero(t, c.Stats.CompletionTokens)
	}
	require.Equal(t, steps, s.Snapshot().Steps, "nothing has to be computed")
}

// Stop tokens and stop strings end an answer, but not before its minimum length. The text does not
// have them, and the tokens do.
func TestWhereAnswersStop(t *testing.T) {
	t.Parallel()
	s := started(t, setup{})
	ask := func(change func(*generation.Request)) generation.Choice {
		req := generation.Request{Tokens: ascending(6), MaxTokens: 24, IgnoreEOS: true}
		change(&req)
		c := s.generate(t, req)
		require.Equal(t, len(c.Choices[0].Tokens), c.Stats.CompletionTokens)
		return c.Choices[0]
	}
	whole := ask(func(*generation.Request) {})
	require.Len(t, whole.Tokens, 24)
	at := 5
	for slices.Contains(whole.Tokens[:at], whole.Tokens[at]) {
		at++
	}
	id := whole.Tokens[at]

	stopped := ask(func(r *generation.Request) { r.StopIDs = []int32{id} })
	require.Equal(t, whole.Tokens[:at+1], stopped.Tokens)
	require.Equal(t, []any{generation.FinishStop, ""}, []any{stopped.FinishReason, stopped.StopReason})
	require.True(t, strings.HasPrefix(whole.Text, stopped.Text))
	before := ask(func(r *generation.Request) { r.MaxTokens = at })
	require.Equal(t, before.Text, stopped.Text, "the text does not have the stop token")

	later := ask(func(r *generation.Request) { r.StopIDs, r.MinTokens = []int32{id}, at+3 })
	require.Equal(t, whole.Tokens[:at], later.Tokens[:at])
	require.NotContains(t, later.Tokens[:at+3], id, "a stop token is not sampled before the minimum")
	inTime := ask(func(r *generation.Request) { r.StopIDs, r.MinTokens = []int32{id}, at })
	require.Equal(t, stopped.Tokens, inTime.Tokens)

	// Stop strings: the middle of the text, in two lengths and with one that never comes.
	half := len(before.Text) / 2
	long := whole.Text[half : half+4]
	cut := strings.Index(whole.Text, long)
	text := ask(func(r *generation.Request) { r.Stop = []string{"never", long} })
	require.Equal(t, whole.Text[:cut], text.Text)
	require.Equal(t, []any{generation.FinishStop, long}, []any{text.FinishReason, text.StopReason})
	require.Equal(t, whole.Tokens[:len(text.Tokens)], text.Tokens)
	require.Less(t, len(text.Tokens), 24)
	n := len(text.Tokens)
	kept := ask(func(r *generation.Request) { r.Stop, r.MinTokens = []string{long}, n })
	require.Greater(t, len(kept.Tokens), n)
	require.Contains(t, kept.Text, long, "a stop string before the minimum is text")
	same := ask(func(r *generation.Request) { r.Stop, r.MinTokens = []string{long}, n-1 })
	require.Equal(t, text.Tokens, same.Tokens)
}

// The pieces of a stream add up to the completion, whatever ends the choices.
func TestPiecesOfAStreamAddUp(t *testing.T) {
	t.Parallel()
	for name, parallel := range map[string]bool{"text is written between steps": false, "text is written during steps": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			be, err := cpu.New(1)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, be.Close()) })
			s := setup{backend: be}
			if parallel {
				s.backend = several{be}
			}
			sched := started(t, s)
			req := generation.Request{Tokens: ascending(6), N: 4, MaxTokens: 20, IgnoreEOS: true, Logprobs: true, TopLogprobs: 2, Sampling: generation.Sampling{Temperature: 1, Seed: 5}}
			first := sched.generate(t, req)
			text := first.Choices[2].Text
			req.Stop = []string{text[len(text)/2 : len(text)/2+3]}
			want := sched.generate(t, req)
			require.Equal(t, generation.FinishStop, want.Choices[2].FinishReason)

			got := make([]generation.Choice, 4)
			pieces := 0
			streamed := req
			streamed.Stream = func(p generation.Piece) error {
				pieces++
				c := &got[p.Choice]
				require.Empty(t, c.FinishReason, "nothing follows the last piece of a choice")
				require.NotEmpty(t, p.Tokens)
				require.Len(t, p.Logprobs, len(p.Tokens))
				c.Text += p.Text
				c.Tokens, c.Logprobs = append(c.Tokens, p.Tokens...), append(c.Logprobs, p.Logprobs...)
				c.FinishReason, c.StopReason = p.FinishReason, p.StopReason
				return nil
			}
			again := sched.generate(t, streamed)
			require.Equal(t, want.Choices, again.Choices)
			require.Equal(t, want.Choices, got)
			require.GreaterOrEqual(t, pieces, 4)
		})
	}
}

func TestRequestsThatCannotBeAnswered(t *testing.T) {
	t.Parallel()
	s := started(t, setup{limits: model.Limits{Context: 32}, options: Options{MaxResult: 20 * scoreBytes}})
	for name, c := range map[string]struct {
		prompt int
		req    generation.Request
		says   string // empty if it is answered
		tokens int
	}{
		"fits":                              {31, generation.Request{MaxTokens: 9}, "", 1},
		"as many tokens as fit":             {20, generation.Request{}, "", 12},
		"exactly as many as fit":            {20, generation.Request{MaxTokens: 12}, "", 12},
		"more than fit":                     {20, generation.Request{MaxTokens: 13}, "", 12},
		"fills the context":                 {32, generation.Request{MaxTokens: 1}, "the prompt has 32 tokens and fills the context, so that nothing can be generated", 0},
		"fills the context, without answer": {32, generation.Request{PromptOnly: true}, "", 0},
		"too long":                          {33, generation.Request{PromptOnly: true}, "the prompt has 33 tokens; the context holds 32", 0},
		"as many log-probabilities":         {4, generation.Request{MaxTokens: 5, Logprobs: true, TopLogprobs: 3}, "", 5},
		"one log-probability more":          {4, generation.Request{MaxTokens: 21, Logprobs: true}, "the result has more than 20 log-probabilities", 0},
		"too many alternatives":             {4, generation.Request{MaxTokens: 6, Logprobs: true, TopLogprobs: 3}, "the result has more than 20 log-probabilities", 0},
		"too many of the prompt":            {22, generation.Request{MaxTokens: 1, PromptLogprobs: true}, "the result has more than 20 log-probabilities", 0},
		"as many of the prompt":             {21, generation.Request{MaxTokens: 1, PromptLogprobs: true}, "", 1},
		"of no choices too many":            {4, generation.Request{MaxTokens: 20}, "", 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := c.req
			req.IgnoreEOS = true
			got, err := s.Generate(t.Context(), time.Now(), ascending(c.prompt), &req, nil)
			if c.says != "" {
				require.ErrorIs(t, err, generation.ErrBadRequest)
				require.ErrorContains(t, err, c.says)
			} else {
				require.NoError(t, err)
				require.Equal(t, c.tokens, got.Stats.CompletionTokens)
			}
			if !strings.Contains(c.says, "log-prob") {
				require.Equal(t, err, s.Check(c.prompt, &req))
			}
		})
	}
}

func TestErrorsOfTheCaller(t *testing.T) {
	t.Parallel()
	s := started(t, setup{})
	broken := errors.New("broken")
	req := generation.Request{Tokens: ascending(6), MaxTokens: 10_000, IgnoreEOS: true}
	req.Stream = func(generation.Piece) error { return broken }
	_, err := s.Generate(t.Context(), time.Now(), req.Tokens, &req, nil)
	require.Equal(t, broken, err)

	ctx, cancel := context.WithCancel(t.Context())
	req.Stream = func(generation.Piece) error { cancel(); return nil }
	_, err = s.Generate(ctx, time.Now(), req.Tokens, &req, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool { return s.Snapshot().Running == 0 }, time.Minute, time.Millisecond, "requests without a caller end")

	var reserved []int64
	req = generation.Request{Tokens: ascending(6), N: 2, MaxTokens: 3, IgnoreEOS: true, Logprobs: true, TopLogprobs: 4, PromptLogprobs: true}
	req.Reserve = func(_ context.Context, bytes int64) error { reserved = append(reserved, bytes); return nil }
	s.generate(t, req)
	require.Equal(t, []int64{(5*(1+4) + 2*3*(1+4)) * scoreBytes}, reserved, "five tokens of the prompt and three of each choice")
	req.Reserve = func(context.Context, int64) error { return broken }
	_, err = s.Generate(t.Context(), time.Now(), req.Tokens, &req, nil)
	require.Equal(t, broken, err)
	req.Logprobs, req.PromptLogprobs = false, false
	s.generate(t, req) // reserves nothing

	held := make(chan struct{})
	req = generation.Request{Tokens: ascending(6), MaxTokens: 10_000, IgnoreEOS: true}
	req.Stream = func(generation.Piece) error {
		select {
		case held <- struct{}{}:
		default:
		}
		return nil
	}
	var waiting sync.WaitGroup
	waiting.Go(func() { _, err = s.Generate(t.Context(), time.Now(), req.Tokens, &req, nil) })
	<-held
	require.Eventually(t, func() bool { now := s.Snapshot(); return now.Running == 1 && now.PagesUsed > 0 }, time.Minute, time.Millisecond)
	s.Close()
	waiting.Wait()
	require.ErrorIs(t, err, generation.ErrClosed)
	_, err = s.Generate(t.Context(), time.Now(), req.Tokens, &req, nil)
	require.ErrorIs(t, err, generation.ErrClosed)
}

// faultyModel fails the next steps: with a panic, an error, or logits that are not finite.
type faultyModel struct {
	model.Model
	mu     sync.Mutex
	faults []string
}

func (m *faultyModel) next(kinds ...string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.faults) > 0 && slices.Contains(kinds, m.faults[0]) {
		m.faults = m.faults[1:]
		return true
	}
	return false
}

func (m *faultyModel) Decode(b *compute.Batch, n int) error {
	if m.next("panic") {
		panic("oops")
	}
	if m.next("error") {
		return errors.New("device lost")
	}
	return m.Model.Decode(b, n)
}

func (m *faultyModel) Drawn(i int) [][]float32 {
	drawn := m.Model.Drawn(i)
	if m.next("nan") {
		for _, row := range drawn {
			for i := range row {
				row[i] = float32(math.NaN())
			}
		}
	}
	return drawn
}

// One step that fails ends only the requests that were in it. After two panics in a row, the
// scheduler has failed.
func TestStepsThatFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		faults []string
		errs   []string // of successive requests; empty for an answer
		failed bool
	}{
		"an error":             {[]string{"error"}, []string{"device lost", ""}, false},
		"errors":               {[]string{"error", "error", "error"}, []string{"device lost", "device lost", "device lost", ""}, false},
		"a panic":              {[]string{"panic"}, []string{"internal error: panic in a step: oops", ""}, false},
		"a panic, later again": {[]string{"panic", "", "panic"}, []string{"oops", "", "oops", ""}, false},
		"two panics in a row":  {[]string{"panic", "panic"}, []string{"oops", "the second panic in a row", "engine has failed"}, true},
		"logits not finite":    {[]string{"nan"}, []string{generation.ErrNotFinite.Error(), ""}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newManual(t, setup{path: microLlama})
			faulty := &faultyModel{Model: m.loop.model}
			m.loop.model, m.loop.drawer.model = faulty, faulty
			go m.Run()
			t.Cleanup(m.Close)
			req := generation.Request{Tokens: ascending(40), MaxTokens: 2, IgnoreEOS: true}
			faults := slices.Clone(c.faults)
			var want generation.Completion
			for i, says := range c.errs {
				faulty.mu.Lock()
				if len(faulty.faults) == 0 && len(faults) > 0 {
					if faults[0] != "" {
						faulty.faults = faults[:1]
					}
					faults = faults[1:]
				}
				faulty.mu.Unlock()
				got, err := m.Generate(t.Context(), time.Now(), req.Tokens, &req, nil)
				if says != "" {
					require.ErrorContains(t, err, says, "request %d", i)
					continue
				}
				require.NoError(t, err, "request %d", i)
				if want.Choices == nil {
					want = started(t, setup{}).generate(t, req)
				}
				require.Equal(t, want.Choices, got.Choices, "pages of a failed step are not used")
			}
			if c.failed {
				_, err := m.Generate(t.Context(), time.Now(), req.Tokens, &req, nil)
				require.ErrorIs(t, err, generation.ErrEngineFailed)
				now := m.Snapshot()
				require.Zero(t, now.Running+now.Waiting)
			}
		})
	}
}

// A request that continues an earlier attempt gives the tokens that the attempt would have given.
func TestAnAttemptIsContinued(t *testing.T) {
	t.Parallel()
	s := started(t, setup{})
	var reports []generation.Progress
	req := generation.Request{Tokens: ascending(6), N: 2, MaxTokens: 12, IgnoreEOS: true, Sampling: generation.Sampling{Temperature: 1, Seed: 3}}
	req.Progress = generation.Reporting{To: func(p generation.Progress) { reports = append(reports, p) }}
	want := s.generate(t, req)
	require.Greater(t, len(reports), 5)
	req.Progress = generation.Reporting{}
	for i, p := range reports {
		require.Equal(t, generation.HashPrompt(req.Tokens), p.Prompt)
		for choice, ids := range p.Choices {
			require.Equal(t, want.Choices[choice].Tokens[:len(ids)], ids)
		}
		if i%3 != 0 {
			continue
		}
		req.Resume = &p
		got := s.generate(t, req)
		require.Equal(t, want.Choices, got.Choices)
		require.Equal(t, p.Tokens(), got.Stats.ResumedTokens)
	}
	whole := reports[0]
	for i := range whole.Choices {
		whole.Choices[i] = want.Choices[i].Tokens
	}
	req.Resume = &whole
	require.Equal(t, want.Choices, s.generate(t, req).Choices, "nothing was left to generate")
	long := generation.Progress{Prompt: whole.Prompt, Choices: [][]int32{slices.Concat(want.Choices[0].Tokens, []int32{1}), want.Choices[1].Tokens}}
	req.Resume = &long
	got := s.generate(t, req)
	require.Equal(t, want.Choices, got.Choices, "tokens beyond the answer's end are not used")
	require.Zero(t, got.Stats.ResumedTokens)
	req.Resume, req.Logprobs = &whole, true
	require.Zero(t, s.generate(t, req).Stats.ResumedTokens, "log-probabilities are not part of the progress")
}

func TestStopRates(t *testing.T) {
	t.Parallel()
	var s stopRate
	require.Equal(t, []int{128, 9}, []int{s.length(), s.maxInFlight()})
	s = stopRate{tokens: 1000, stopped: 9}
	require.Equal(t, []int{112, 8}, []int{s.length(), s.maxInFlight()})
	s.add(true)
	s.add(false)
	require.Equal(t, stopRate{1002, 10}, s)
	s = stopRate{tokens: stopMemory - 2, stopped: 9}
	s.add(true)
	require.Equal(t, stopRate{stopMemory - 1, 10}, s)
	s.add(false)
	require.Equal(t, stopRate{stopMemory / 2, 5}, s, "older answers count half")
}

func TestArrivals(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var a arrivals
	require.False(t, a.expected(now))
	a.last = now
	require.True(t, a.expected(now.Add(arrivalWindow-1)))
	require.False(t, a.expected(now.Add(arrivalWindow)))
	a.add(2)
	require.InDelta(t, 2, a.prompt, 1e-12)
	a.add(3)
	require.InDelta(t, 2.1, a.prompt, 1e-12)
}

// A request takes part in a step once, however many of its sequences do.
func TestFiguresOfARequest(t *testing.T) {
	t.Parallel()
	var f figures
	for _, step := range []uint64{1, 1, 2, 4, 4} {
		f.step(step, int(step)+2)
	}
	require.Equal(t, []int{3, 3 + 4 + 6}, []int{f.steps, f.batchSizes})
	now := time.Now()
	f.token(now)
	f.token(now.Add(time.Second))
	f.token(now.Add(3 * time.Second))
	require.Equal(t, []time.Time{now, now.Add(3 * time.Second)}, []time.Time{f.first, f.last})
}

func TestTheInboxOfTheLoop(t *testing.T) {
	t.Parallel()
	b := &inbox{wake: make(chan struct{}, 1)}
	first, second := &request{seqs: make([]*sequence, 2)}, &request{seqs: make([]*sequence, 3), interactive: true}
	require.NoError(t, b.put(first))
	require.False(t, b.interactive.Load())
	require.NoError(t, b.put(second))
	require.True(t, b.interactive.Load())
	require.Equal(t, 5, b.sequences())
	require.Len(t, b.wake, 1)
	var taken []int
	take := func() bool { return b.take(func(seqs []*sequence) { taken = append(taken, len(seqs)) }) }
	require.True(t, take())
	require.True(t, take())
	require.Equal(t, []int{2, 3}, taken)
	require.Zero(t, b.sequences())
	require.False(t, b.interactive.Load())
	<-b.wake
	b.close(generation.ErrClosed)
	b.close(generation.ErrEngineFailed)
	require.Len(t, b.wake, 1)
	require.ErrorIs(t, b.put(first), generation.ErrClosed)
	require.Zero(t, b.sequences())
	require.False(t, take())
}

// Drafts are counted in the request and in the snapshot, and do not change the answer.
func TestDraftsAreCounted(t *testing.T) {
	t.Parallel()
	req := generation.Request{Tokens: []int32{1, 2, 3, 1, 2, 3}, N: 2, MaxTokens: 30, IgnoreEOS: true}
	plain := newManual(t, setup{path: microGLM})
	want := plain.begin(req)
	plain.finish(want)
	require.Zero(t, want.stats().DraftTokens)
	m := newManual(t, setup{path: microGLM, speculate: func(be compute.Backend, o *draft.Options) { o.NGram, o.Fixed = true, 2; byMTP(be, o) }})
	got := m.begin(req)
	m.finish(got)
	for i := range got.seqs {
		require.Equal(t, want.seqs[i].answer(), got.seqs[i].answer())
	}
	st, now := got.stats(), m.Snapshot()
	require.Positive(t, st.AcceptedTokens)
	require.Greater(t, st.DraftTokens, st.AcceptedTokens)
	require.Equal(t, []uint64{now.DraftTokens, now.AcceptedTokens}, []uint64{uint64(st.DraftTokens), uint64(st.AcceptedTokens)})
	require.EqualValues(t, 60, now.GeneratedTokens)
	require.GreaterOrEqual(t, now.PromptTokens, uint64(6))
	require.Less(t, now.Steps, uint64(31))
}

// If content of pages may be wrong, the sequences that hold them are computed again, and no later
// sequence uses them. Sequences with other pages go on.
func TestSequencesWithDiscardedPagesBeginAgain(t *testing.T) {
	t.Parallel()
	m := newPreempted(t)
	ask := func(first int32) *request {
		tokens := ascending(10)
		tokens[0] = first
		return m.begin(generation.Request{Tokens: tokens, MaxTokens: 9, IgnoreEOS: true})
	}
	first := ask(1)
	m.step()
	m.step()
	second, other := ask(1), ask(2)
	for range 4 {
		m.step()
	}
	p := &m.loop.planner
	require.Len(t, p.running, 3)
	require.Positive(t, second.seqs[0].table.Adopted(), "it uses pages of the first one")
	computed := other.seqs[0].computed
	p.discard(first.seqs[0])
	require.Equal(t, []bool{true, true, false}, []bool{first.seqs[0].stale, second.seqs[0].stale, other.seqs[0].stale})
	p.sweep()
	requireOrder(t, p.running, other.seqs[0])
	requireOrder(t, p.waiting, first.seqs[0], second.seqs[0])
	require.Equal(t, []int{0, 0, computed}, []int{first.seqs[0].computed, second.seqs[0].computed, other.seqs[0].computed})
	require.False(t, p.pool.HasPrefix(p.pool.Prefix(ascending(1))))
	for _, r := range []*request{first, second, other} {
		m.finish(r)
	}
	require.Equal(t, first.seqs[0].answer(), second.seqs[0].answer())
	again := started(t, setup{}).generate(t, generation.Request{Tokens: first.prompt, MaxTokens: 9, IgnoreEOS: true})
	require.Equal(t, again.Choices[0].Tokens, first.seqs[0].answer())
}

func TestStepsAreTraced(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	points := 0
	s := started(t, setup{options: Options{Trace: func(compute.Checkpoint) {
		mu.Lock()
		defer mu.Unlock()
		points++
	}}})
	s.generate(t, generation.Request{Tokens: ascending(3), MaxTokens: 1, IgnoreEOS: true})
	mu.Lock()
	defer mu.Unlock()
	require.Positive(t, points)
}
