package metal_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/internal/ordered"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/metal"
)

// question is a question with exactly one right answer.
type question struct{ Question, Answer string }

// readQuestions returns n questions that are not in the training data of the bundled models, spread
// evenly over the file.
func readQuestions(t *testing.T, n int) (list []question) {
	t.Helper()
	f, err := os.Open("../models/heldout.jsonl")
	require.NoError(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var q struct {
			question
			Family string
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &q))
		if q.Family != "story" && q.Family != "explain" {
			list = append(list, q.question)
		}
	}
	require.Greater(t, len(list), n)
	for i := range n {
		list[i] = list[i*len(list)/n]
	}
	return list[:n]
}

// setup describes how questions are answered.
type setup struct {
	name   string
	opts   engine.Options
	atOnce int // number of questions that are answered concurrently; the first question is answered alone
}

// chatOf returns a conversation that consists of a question, its answer and a second question.
// Conversations with the same first question have a common prefix.
func chatOf(first, q question) *ordered.Object {
	var messages []ordered.Value
	for _, m := range [][2]string{{"user", first.Question}, {"assistant", first.Answer}, {"user", q.Question}} {
		message := ordered.NewObject()
		message.Set("role", m[0])
		message.Set("content", m[1])
		messages = append(messages, message)
	}
	prompt := ordered.NewObject()
	prompt.Set("messages", messages)
	return prompt
}

// answer asks all questions, s.atOnce at a time. It returns the tokens of each answer, and the sum
// of the statistics. Every reply must begin with the right answer.
func answer(t *testing.T, start starter, path string, questions []question, s setup) (tokens [][]int32, stats generation.Stats) {
	t.Helper()
	eng, err := engine.Open(path, start(t, metal.Options{}), s.opts)
	require.NoError(t, err)
	defer func() { require.NoError(t, eng.Close()) }()
	tokens = make([][]int32, len(questions))
	var adding sync.Mutex
	ask := func(ctx context.Context, i int) error {
		c, err := eng.Generate(ctx, generation.Request{Chat: chatOf(questions[0], questions[i]), MaxTokens: 6, IgnoreEOS: true})
		if err != nil {
			return err
		}
		tokens[i] = c.Choices[0].Tokens
		if !strings.HasPrefix(c.Choices[0].Text, questions[i].Answer) {
			return fmt.Errorf("question %q: the answer is %q, not %q", questions[i].Question, c.Choices[0].Text, questions[i].Answer)
		}
		adding.Lock()
		defer adding.Unlock()
		stats.CachedTokens += c.Stats.CachedTokens
		stats.DraftTokens += c.Stats.DraftTokens
		stats.AcceptedTokens += c.Stats.AcceptedTokens
		return nil
	}
	require.NoError(t, ask(t.Context(), 0)) // asked alone, so that the others find its pages in the prefix cache
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(s.atOnce)
	for i := 1; i < len(questions); i++ {
		group.Go(func() error { return ask(ctx, i) })
	}
	require.NoError(t, group.Wait())
	return tokens, stats
}

// TestSameTokensInAnyBatch answers the same questions with several settings: one at a time and
// concurrently, in small and large steps, with and without shared prefixes, and with each kind of
// drafts. The tokens must be the same. Some settings need INGOT_LONG=1, since the emulator is slow.
func TestSameTokensInAnyBatch(t *testing.T) {
	t.Parallel()
	sameTokens(t, emulated, long)
}

func sameTokens(t *testing.T, start starter, all bool) {
	t.Helper()
	questions := readQuestions(t, 3)
	drafting := map[string]engine.Options{
		"tiny-glm.q8_0.gguf":   {Draft: engine.DraftMTP, DraftTokens: 3, PageSize: 4, StepTokens: 128, MaxSequences: 2},
		"tiny-llama.q4_0.gguf": {Draft: engine.DraftModel, DraftModel: "../models/tiny-llama.q4_0.gguf", DraftTokens: 3, PageSize: 4, StepTokens: 128, MaxSequences: 2},
	}
	for _, path := range bundled {
		t.Run(filepath.Base(path), func(t *testing.T) {
			alone := setup{opts: engine.Options{Draft: engine.DraftOff, NoSharing: true}, atOnce: 1}
			drafts := setup{name: "drafts", opts: drafting[filepath.Base(path)], atOnce: 2}
			alone.opts.Context, drafts.opts.Context = 256, 256
			want, stats := answer(t, start, path, questions, alone)
			require.Zero(t, stats)
			setups := []setup{
				{"small steps", engine.Options{Context: 256, Draft: engine.DraftOff, StepTokens: 12, MaxSequences: 12, NoSharing: true}, 2},
				drafts,
			}
			if all {
				setups = append(setups,
					setup{"large steps, shared prefixes", engine.Options{Context: 256, Draft: engine.DraftOff, PageSize: 4}, 2},
					setup{"n-grams", engine.Options{Context: 256, Draft: engine.DraftNGram, DraftTokens: 3, PageSize: 4, StepTokens: 16, MaxSequences: 2}, 2},
				)
			}
			for _, s := range setups {
				got, stats := answer(t, start, path, questions, s)
				require.Equal(t, want, got, s.name)
				require.Equal(t, !s.opts.NoSharing, stats.CachedTokens > 0, s.name)
				require.Equal(t, s.opts.DraftTokens > 0, stats.DraftTokens > 0, s.name)
				t.Logf("%s: %d tokens found in the cache, %d of %d drafts accepted", s.name, stats.CachedTokens, stats.AcceptedTokens, stats.DraftTokens)
			}
		})
	}
}
