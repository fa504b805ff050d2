package trained_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/models/trained"
)

// nightly skips tests that take minutes.
func nightly(t *testing.T) {
	t.Helper()
	if os.Getenv("INGOT_LONG") != "1" {
		t.Skip("takes minutes: set INGOT_LONG=1")
	}
}

func readAnswers(t *testing.T, m trained.Model) (answers []answer) {
	t.Helper()
	readJSON(t, "testdata/"+m.Name+".answers.json", &answers)
	require.Len(t, answers, 20)
	return answers
}

// TestAllChunks compares all chunks, as prompts.
func TestAllChunks(t *testing.T) {
	nightly(t)
	for _, m := range trained.Models() {
		t.Run(m.Name, func(t *testing.T) {
			eng := open(t, find(t, m), engine.Options{Context: 2304})
			chunks, err := trained.ReadChunks("testdata/"+m.Name+".jsonl.gz", 0)
			require.NoError(t, err)
			results, err := trained.Prompts(t.Context(), eng, chunks)
			require.NoError(t, err)
			requireClose(t, chunks, results)
		})
	}
}

func TestGemmaAnswers(t *testing.T) {
	nightly(t)
	requireAnswers(t, open(t, find(t, trained.Gemma3), engine.Options{Context: 512}), readAnswers(t, trained.Gemma3))
}

// TestLongTexts compares the last tokens of long texts: up to SmolLM2's context, and far beyond
// Gemma's window.
func TestLongTexts(t *testing.T) {
	nightly(t)
	for _, m := range trained.Models() {
		t.Run(m.Name, func(t *testing.T) {
			chunks, err := trained.ReadChunks("testdata/"+m.Name+".long.jsonl.gz", 0)
			require.NoError(t, err)
			longest := 0
			for _, c := range chunks {
				longest = max(longest, len(c.IDs))
			}
			eng := open(t, find(t, m), engine.Options{Context: longest + 1, NoSharing: true})
			results, err := trained.Prompts(t.Context(), eng, chunks)
			require.NoError(t, err)
			requireClose(t, chunks, results)
		})
	}
}

// TestTheEndOfTheContext generates at the last positions of SmolLM2's context.
func TestTheEndOfTheContext(t *testing.T) {
	nightly(t)
	eng := open(t, find(t, trained.SmolLM2), engine.Options{})
	require.Equal(t, 8192, eng.Info().Context)
	chunks, err := trained.ReadChunks("testdata/smollm2.long.jsonl.gz", 0)
	require.NoError(t, err)
	c := chunks[len(chunks)-1]
	require.Len(t, c.IDs, 8191)
	for _, n := range []int{8190, 8191} {
		done, err := eng.Generate(t.Context(), generation.Request{Tokens: c.IDs[:n], IgnoreEOS: true, MaxTokens: 100})
		require.NoError(t, err)
		require.Len(t, done.Choices[0].Tokens, 8192-n)
		require.Equal(t, generation.FinishLength, done.Choices[0].FinishReason)
	}
	_, err = eng.Generate(t.Context(), generation.Request{Tokens: append(slices.Clone(c.IDs), 1), IgnoreEOS: true})
	require.ErrorIs(t, err, generation.ErrTooLong)
}

// TestCachedPrefixes asks for the token after each of several prefixes of a text. From the second
// on, a prefix is in the cache but for its end.
func TestCachedPrefixes(t *testing.T) {
	nightly(t)
	for _, m := range trained.Models() {
		t.Run(m.Name, func(t *testing.T) {
			eng := open(t, find(t, m), engine.Options{Context: 2304})
			chunks, err := trained.ReadChunks("testdata/"+m.Name+".jsonl.gz", 0)
			require.NoError(t, err)
			long := slices.IndexFunc(chunks, func(c trained.Chunk) bool { return len(c.IDs) == 2048 })
			c := chunks[long]
			cut := trained.Chunk{Kind: c.Kind, IDs: c.IDs}
			var got trained.Result
			for at := 40; at < len(c.IDs); at += 97 {
				request := generation.Request{Tokens: c.IDs[:at], MaxTokens: 1, Logprobs: true, TopLogprobs: eng.Info().Vocab}
				done, err := eng.Generate(t.Context(), request)
				require.NoError(t, err)
				if at > 40 {
					require.Greater(t, done.Stats.CachedTokens, at-97-40, "the prefix of %d tokens is in the cache", at)
				}
				top := done.Choices[0].Logprobs[0].Top
				of := slices.IndexFunc(top, func(p generation.TokenLogprob) bool { return p.ID == c.IDs[at] })
				got.Logprobs, got.Best = append(got.Logprobs, top[of].Logprob), append(got.Best, top[0].ID)
				cut.Logprobs, cut.Best = append(cut.Logprobs, c.Logprobs[at-1]), append(cut.Best, c.Best[at-1])
			}
			var d trained.Difference
			d.Add(&cut, &got)
			t.Logf("%d prefixes: mean |d| %.4f, max %.3f, first choice equal %.1f %%", d.Positions, d.Mean(), d.Max, 100*d.Same())
			require.Less(t, d.Mean(), 2*maxMean) // of few positions
		})
	}
}

// TestPreemptedAnswers preempts answers: whenever one begins, an interactive request for the same
// prompt arrives, and only few run at once.
func TestPreemptedAnswers(t *testing.T) {
	nightly(t)
	answers := readAnswers(t, trained.SmolLM2)
	eng := open(t, find(t, trained.SmolLM2), engine.Options{Context: 256, MaxSequences: 4})
	want := generate(t, eng, answers)
	batch, interactive := make([][]int32, len(answers)), make([][]int32, len(answers))
	group, ctx := errgroup.WithContext(t.Context())
	for i := range answers {
		request := generation.Request{Tokens: answers[i].Prompt, MaxTokens: len(answers[i].Tokens)}
		group.Go(func() (err error) {
			first := request
			begun := false
			first.Stream = func(generation.Piece) error {
				if !begun {
					begun = true
					second := request
					second.Interactive = true
					group.Go(func() (err error) {
						interactive[i], err = tokens(ctx, eng, second)
						return err
					})
				}
				return nil
			}
			batch[i], err = tokens(ctx, eng, first)
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, want, batch)
	require.Equal(t, want, interactive)
	preemptions := eng.Snapshot().Preemptions
	t.Logf("%d preemptions", preemptions)
	require.Positive(t, preemptions)
	requireAnswers(t, eng, answers)
}

func tokens(ctx context.Context, eng *engine.Engine, r generation.Request) ([]int32, error) {
	done, err := eng.Generate(ctx, r)
	if err != nil {
		return nil, err
	}
	return done.Choices[0].Tokens, nil
}

// TestDraftedAnswers: drafts change no answer.
func TestDraftedAnswers(t *testing.T) {
	nightly(t)
	for _, m := range trained.Models() {
		t.Run(m.Name, func(t *testing.T) {
			path, answers := find(t, m), readAnswers(t, m)
			want := generate(t, open(t, path, engine.Options{Context: 512, Draft: engine.DraftOff}), answers)
			for _, n := range []int{0, 1, 4} {
				eng := open(t, path, engine.Options{Context: 512, Draft: engine.DraftNGram, DraftTokens: n})
				require.Equal(t, want, generate(t, eng, answers), "%d drafts", n)
			}
		})
	}
}

// generate returns the greedy answers to the prompts, all generated together.
func generate(t *testing.T, eng *engine.Engine, answers []answer) [][]int32 {
	t.Helper()
	got := make([][]int32, len(answers))
	group, ctx := errgroup.WithContext(t.Context())
	for i := range answers {
		group.Go(func() (err error) {
			got[i], err = tokens(ctx, eng, generation.Request{Tokens: answers[i].Prompt, MaxTokens: len(answers[i].Tokens)})
			return err
		})
	}
	require.NoError(t, group.Wait())
	return got
}

// TestStreamsOfManyScripts cuts answers with characters of several tokens at every length. Pieces
// are whole characters, and together they are the answer.
func TestStreamsOfManyScripts(t *testing.T) {
	nightly(t)
	for _, m := range trained.Models() {
		t.Run(m.Name, func(t *testing.T) {
			eng := open(t, find(t, m), engine.Options{Context: 1024})
			text, err := os.ReadFile("texts/world.txt")
			require.NoError(t, err)
			replaced := 0
			for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
				// Seen three times, most lines are continued with the same characters.
				prompt := strings.Repeat(line+"\n", 3) + string([]rune(line)[:len([]rune(line))/2])
				whole, err := eng.Generate(t.Context(), generation.Request{Text: prompt, MaxTokens: 24, IgnoreEOS: true})
				require.NoError(t, err)
				group, ctx := errgroup.WithContext(t.Context())
				for n := 1; n <= 24; n++ {
					group.Go(func() error {
						var pieces []string
						cut, err := eng.Generate(ctx, generation.Request{
							Text: prompt, MaxTokens: n, IgnoreEOS: true,
							Stream: func(p generation.Piece) error { pieces = append(pieces, p.Text); return nil },
						})
						if err != nil {
							return err
						}
						answer := cut.Choices[0].Text
						if joined := strings.Join(pieces, ""); joined != answer {
							return fmt.Errorf("%d tokens after %q: the pieces %q are not the answer %q", n, line, pieces, answer)
						}
						for _, p := range pieces {
							if !utf8.ValidString(p) {
								return fmt.Errorf("%d tokens after %q: the piece %q is not UTF-8", n, line, p)
							}
						}
						if !strings.HasPrefix(whole.Choices[0].Text, strings.TrimRight(answer, "\uFFFD")) {
							return fmt.Errorf("%d tokens after %q: %q does not begin %q", n, line, answer, whole.Choices[0].Text)
						}
						return nil
					})
				}
				require.NoError(t, group.Wait())
				replaced += strings.Count(whole.Choices[0].Text, "\uFFFD")
			}
			t.Logf("%d incomplete characters in whole answers", replaced)
		})
	}
}
