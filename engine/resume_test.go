package engine_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
)

// progress returns the progress of a request that was interrupted. It has the first cut(i, n) of
// the n tokens of choice i.
func progress(prompt []int32, c generation.Completion, cut func(choice, tokens int) int) *generation.Progress {
	p := &generation.Progress{Prompt: generation.HashPrompt(prompt)}
	for i, choice := range c.Choices {
		p.Choices = append(p.Choices, choice.Tokens[:cut(i, len(choice.Tokens))])
	}
	return p
}

// A request that is interrupted after any of its tokens and then resumed has the same text, tokens,
// finish reason and stop string as an uninterrupted request. The second engine has other sizes,
// drafts in another way, and runs other requests at the same time.
func TestAResumedRequestEndsLikeAnUncutOne(t *testing.T) {
	t.Parallel()
	const context = 40
	for name, path := range families(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain := open(t, path, engine.Options{Context: context, MaxSequences: 1, Draft: engine.DraftOff})
			rapid.Check(t, func(rt *rapid.T) {
				opts := engine.Options{
					Context:      context,
					MaxSequences: rapid.IntRange(1, 6).Draw(rt, "sequences"),
					PageSize:     rapid.IntRange(1, 9).Draw(rt, "page size"),
					PrefillChunk: rapid.IntRange(1, 30).Draw(rt, "chunk"),
				}
				drawDrafting(rt, path, &opts)
				opts.StepTokens = opts.MaxSequences + rapid.IntRange(0, 30).Draw(rt, "step tokens")
				reqs := make([]generation.Request, rapid.IntRange(1, 5).Draw(rt, "requests"))
				want := make([]generation.Completion, len(reqs))
				for i := range reqs {
					reqs[i] = drawRequest(rt, context)
					reqs[i].Logprobs, reqs[i].PromptLogprobs, reqs[i].PromptOnly = false, false, false
					reqs[i].MaxTokens = rapid.IntRange(reqs[i].MaxTokens, context).Draw(rt, "longer")
				}
				shareBeginnings(rt, reqs)
				for i := range reqs {
					want[i] = generate(t, plain, reqs[i])
					reqs[i].Resume = progress(reqs[i].Tokens, want[i], func(_, tokens int) int {
						return rapid.IntRange(0, tokens).Draw(rt, "cut")
					})
				}
				e := open(t, path, opts)
				got, errs := make([]generation.Completion, len(reqs)), make([]error, len(reqs))
				var group sync.WaitGroup
				for i, req := range reqs {
					group.Go(func() { got[i], errs[i] = e.Generate(t.Context(), req) })
				}
				group.Wait()
				require.Zero(rt, e.Snapshot().PagesUsed)
				require.NoError(rt, e.Close())
				for i, req := range reqs {
					require.NoError(rt, errs[i])
					require.Equal(rt, req.Resume.Tokens(), got[i].Stats.ResumedTokens)
					require.Equal(rt, want[i].Stats.PromptTokens, got[i].Stats.PromptTokens)
					require.Equal(rt, want[i].Stats.CompletionTokens, got[i].Stats.CompletionTokens)
					require.LessOrEqual(rt, got[i].Stats.CachedTokens, len(req.Tokens))
					same(rt, want[i], got[i], "a resumed request")
				}
			})
		})
	}
}

// A stop string is found even if the request was interrupted inside it.
func TestAStopStringAcrossTheCut(t *testing.T) {
	t.Parallel()
	e := open(t, microLlama, engine.Options{Context: 64})
	req := generation.Request{Tokens: randomTokens(1, 9), MaxTokens: 30, IgnoreEOS: true}
	free := generate(t, e, req)
	text := free.Choices[0].Text
	require.Greater(t, len(text), 20)
	req.Stop = []string{text[8:20]}
	want := generate(t, e, req)
	require.Equal(t, req.Stop[0], want.Choices[0].StopReason)
	tokens := len(want.Choices[0].Tokens)
	require.Greater(t, tokens, 3)
	for cut := range tokens + 1 {
		req.Resume = progress(req.Tokens, want, func(int, int) int { return cut })
		got := generate(t, e, req)
		require.Equal(t, cut, got.Stats.ResumedTokens)
		same(t, want, got, "a stop string across the interruption")
	}
}

// The progress of another request is ignored, and the request is computed from its prompt.
func TestProgressOfAnotherRequestIsIgnored(t *testing.T) {
	t.Parallel()
	e := open(t, microLlama, engine.Options{Context: 64})
	req := generation.Request{Tokens: randomTokens(1, 9), MaxTokens: 8, IgnoreEOS: true, N: 2, Sampling: generation.Sampling{Temperature: 1}}
	want := generate(t, e, req)
	first := want.Choices[0].Tokens
	hash := generation.HashPrompt(req.Tokens)
	for name, p := range map[string]generation.Progress{
		"other prompt":       {Prompt: hash + 1, Choices: [][]int32{first[:3], nil}},
		"fewer choices":      {Prompt: hash, Choices: [][]int32{first[:3]}},
		"more choices":       {Prompt: hash, Choices: [][]int32{first[:3], nil, nil}},
		"negative id":        {Prompt: hash, Choices: [][]int32{{-1}, nil}},
		"id too large":       {Prompt: hash, Choices: [][]int32{{1 << 30}, nil}},
		"tokens after limit": {Prompt: hash, Choices: [][]int32{append(first[:8:8], 5), nil}},
	} {
		t.Run(name, func(t *testing.T) {
			req := req
			req.Resume = &p
			got := generate(t, e, req)
			require.Zero(t, got.Stats.ResumedTokens)
			same(t, want, got, "progress that is ignored")
		})
	}
	t.Run("log-probabilities", func(t *testing.T) {
		req := req
		req.Logprobs = true
		req.Resume = progress(req.Tokens, want, func(int, int) int { return 3 })
		got := generate(t, e, req)
		require.Zero(t, got.Stats.ResumedTokens)
		require.Len(t, got.Choices[0].Logprobs, 8)
	})
}

// The engine reports progress. Each report has more tokens than the one before, and all tokens are
// a beginning of the answer. Another engine can resume from each report.
func TestReportsOfProgress(t *testing.T) {
	t.Parallel()
	for name, path := range families(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var reports []generation.Progress
			req := generation.Request{Tokens: randomTokens(1, 9), MaxTokens: 12, IgnoreEOS: true, N: 2, Sampling: generation.Sampling{Temperature: 1, Seed: 3}}
			req.Progress.To = func(p generation.Progress) {
				mu.Lock()
				defer mu.Unlock()
				reports = append(reports, p)
			}
			e := open(t, path, engine.Options{Context: 64})
			want := generate(t, e, req)
			req.Progress.To = nil
			mu.Lock()
			defer mu.Unlock()
			require.NotEmpty(t, reports)
			before := 0
			for _, p := range reports {
				for i, ids := range p.Choices {
					require.Equal(t, want.Choices[i].Tokens[:len(ids)], ids)
				}
				require.GreaterOrEqual(t, p.Tokens(), before)
				before = p.Tokens()
				req.Resume = &p
				got := generate(t, e, req)
				require.Equal(t, before, got.Stats.ResumedTokens)
				same(t, want, got, "resumed from a report")
			}

			reports = nil
			req.Resume, req.Logprobs = nil, true
			req.Progress.To = func(generation.Progress) {
				t.Error("a request with log-probabilities cannot be resumed, so it must not report progress")
			}
			generate(t, e, req)
		})
	}
}
