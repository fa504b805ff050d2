package schedule

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
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
