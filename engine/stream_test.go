package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
)

// streamed answers a request, which must succeed. Its pieces together must equal the completion.
func streamed(t testing.TB, e *engine.Engine, req generation.Request) generation.Completion {
	t.Helper()
	choices := make([]generation.Choice, req.NumChoices())
	req.Stream = func(p generation.Piece) error {
		c := &choices[p.Choice]
		require.Empty(t, c.FinishReason, "no piece follows the one with the finish reason")
		require.NotEmpty(t, p.Tokens)
		c.Text += p.Text
		c.Tokens = append(c.Tokens, p.Tokens...)
		c.Logprobs = append(c.Logprobs, p.Logprobs...)
		c.FinishReason, c.StopReason = p.FinishReason, p.StopReason
		return nil
	}
	out := generate(t, e, req)
	require.Equal(t, out.Choices, choices)
	return out
}

// The pieces of an answer together are its text and tokens, with drafting, shared pages and
// sampling.
func TestPiecesAreTheAnswer(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]engine.Options{
		"alone":        {Draft: engine.DraftOff},
		"drafted":      {Draft: engine.DraftMTP, DraftTokens: 4},
		"in two slots": {MaxSequences: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := open(t, microGLM, opts)
			req := generation.Request{
				Tokens: randomTokens(3, 40), N: 3, MaxTokens: 60, IgnoreEOS: true, Logprobs: true, TopLogprobs: 2,
				Sampling: generation.Sampling{Temperature: 2, Seed: 5},
			}
			want := generate(t, e, req)
			require.Equal(t, want.Choices, streamed(t, e, req).Choices)
		})
	}
}

// A resumed request also streams the tokens of the earlier attempt.
func TestPiecesOfAResumedRequest(t *testing.T) {
	t.Parallel()
	e := open(t, microLlama, engine.Options{})
	req := generation.Request{Tokens: randomTokens(4, 20), MaxTokens: 30, IgnoreEOS: true}
	whole := generate(t, e, req)
	req.Resume = &generation.Progress{Prompt: generation.HashPrompt(req.Tokens), Choices: [][]int32{whole.Choices[0].Tokens[:12]}}
	resumed := streamed(t, e, req)
	require.Equal(t, 12, resumed.Stats.ResumedTokens)
	require.Equal(t, whole.Choices, resumed.Choices)
}

// The caller gets the first piece while the engine is still generating. If the caller is slow, it
// gets all further text in one piece.
func TestPiecesComeWhileTheAnswerIsGenerated(t *testing.T) {
	t.Parallel()
	const tokens, step = 200, 5 // the step waits until there is a piece
	first := make(chan struct{})
	e := open(t, microLlama, engine.Options{Draft: engine.DraftOff, Trace: atStep(step, func() { <-first })})
	var sizes []int
	c := generate(t, e, generation.Request{Tokens: randomTokens(5, 4), MaxTokens: tokens, IgnoreEOS: true, Stream: func(p generation.Piece) error {
		sizes = append(sizes, len(p.Tokens))
		if len(sizes) == 1 {
			close(first)
			waitFor(t, func() bool { return e.Snapshot().GeneratedTokens == tokens })
		}
		return nil
	}})
	require.Less(t, sizes[0], step)
	require.Equal(t, []int{sizes[0], tokens - sizes[0]}, sizes)
	require.Len(t, c.Choices[0].Tokens, tokens)
}

// A caller can end a request by an error or by its context. No further step computes the request.
func TestACallerEndsAStream(t *testing.T) {
	t.Parallel()
	gone := errors.New("the client is gone")
	for name, c := range map[string]struct {
		end  func(cancel func()) error
		want error
	}{
		"by an error":    {func(func()) error { return gone }, gone},
		"by its context": {func(cancel func()) error { cancel(); return nil }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const step = 5 // the step waits until Generate has returned
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			returned := make(chan struct{})
			e := open(t, microLlama, engine.Options{Draft: engine.DraftOff, Trace: atStep(step, func() { <-returned })})
			_, err := e.Generate(ctx, generation.Request{
				Tokens: randomTokens(6, 4), N: 4, IgnoreEOS: true, Stream: func(generation.Piece) error { return c.end(cancel) },
			})
			close(returned)
			require.ErrorIs(t, err, c.want)
			idle(t, e)
			require.LessOrEqual(t, e.Snapshot().Steps, uint64(step))
		})
	}
}

// A request that generates nothing has no pieces.
func TestAPromptAloneHasNoPieces(t *testing.T) {
	t.Parallel()
	e := open(t, microLlama, engine.Options{})
	c := generate(t, e, generation.Request{
		Tokens: randomTokens(7, 20), PromptOnly: true, PromptLogprobs: true, N: 2,
		Stream: func(generation.Piece) error { return errors.New("a request that generates nothing has a piece") },
	})
	require.Len(t, c.Choices, 2)
	require.Len(t, c.PromptLogprobs, 20)
}
