package schedule

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/model"
)

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

// A cancelled request ends before the next step, whether it runs or waits, and frees its pages. The
// others go on.
func TestCancelledRequestsEnd(t *testing.T) {
	t.Parallel()
	m := newManual(t, setup{path: microLlama, options: Options{MaxSequences: 2}})
	ask := func(ctx context.Context, first int32) *request {
		req := generation.Request{Tokens: []int32{first, 2, 3}, MaxTokens: 20, IgnoreEOS: true}
		r, err := newRequest(ctx, m.tokenizer, m.context, time.Now(), req.Tokens, &req, nil)
		require.NoError(t, err)
		m.loop.planner.enqueue(r.seqs)
		return r
	}
	ctx, cancel := context.WithCancel(t.Context())
	other, running, waiting, last := ask(t.Context(), 1), ask(ctx, 2), ask(ctx, 3), ask(t.Context(), 4)
	m.step()
	m.step()
	require.Equal(t, []*sequence{other.seqs[0], running.seqs[0]}, m.loop.planner.running)
	cancel()
	m.step()
	require.Equal(t, []*sequence{other.seqs[0], last.seqs[0]}, m.loop.planner.running)
	require.Empty(t, m.loop.planner.waiting)
	for _, r := range []*request{running, waiting} {
		require.ErrorIs(t, r.err, context.Canceled)
		require.Zero(t, r.open)
		<-r.done // its caller is notified
	}
	m.finish(other)
	m.finish(last)
	require.Len(t, other.seqs[0].answer(), 20)
}

// A request for log-probabilities of its prompt alone computes it from two tokens on: the first one
// has none.
func TestPromptsThatAreComputed(t *testing.T) {
	t.Parallel()
	m := newSimulated(t, model.Config{}, model.Limits{}, Options{}, nil)
	for length, open := range map[int]int{1: 0, 2: 1, 3: 1} {
		req := generation.Request{Tokens: ascending(length), PromptOnly: true, PromptLogprobs: true}
		r, err := newRequest(t.Context(), m.tokenizer, m.context, time.Now(), req.Tokens, &req, nil)
		require.NoError(t, err)
		require.Equal(t, open, r.open, length)
	}
}
