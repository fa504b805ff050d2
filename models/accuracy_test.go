// Package models_test measures the accuracy of the bundled models, and of their other quantised
// types in INGOT_MODELS, as models/README.md describes.
package models_test

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/internal/ordered"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/enginetest"
)

// minAccuracy is the share of the held-out questions that every quantised file must answer
// correctly.
const minAccuracy = 0.97

// TestMain gives engines the costs of their steps.
func TestMain(m *testing.M) {
	enginetest.GiveCosts()
	os.Exit(m.Run())
}

type question struct {
	ID, Family, Question, Answer string
}

// readQuestions returns the held-out questions with one right answer, which are all questions
// except the stories.
func readQuestions(t *testing.T) []question {
	t.Helper()
	f, err := os.Open("heldout.jsonl")
	require.NoError(t, err)
	defer f.Close()
	var list []question
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var q question
		require.NoError(t, json.Unmarshal(lines.Bytes(), &q))
		if q.Family != "story" {
			list = append(list, q)
		}
	}
	require.Len(t, list, 145)
	return list
}

func open(t *testing.T, path string) *engine.Engine {
	t.Helper()
	be, err := cpu.New(0)
	require.NoError(t, err)
	eng, err := engine.Open(path, be, engine.Options{Context: 512})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, eng.Close()) })
	return eng
}

// tally has the numbers of right answers and of all answers to a family of questions.
type tally struct{ right, all int }

// measure answers all questions greedily in one batch. An answer is right if it equals the expected
// answer in every character.
func measure(t *testing.T, path string) (total tally) {
	t.Helper()
	eng := open(t, path)
	questions := readQuestions(t)
	answers := make([]string, len(questions))
	group, ctx := errgroup.WithContext(t.Context())
	for i, q := range questions {
		message := ordered.NewObject()
		message.Set("role", "user")
		message.Set("content", q.Question)
		prompt := ordered.NewObject()
		prompt.Set("messages", []ordered.Value{message})
		group.Go(func() error {
			c, err := eng.Generate(ctx, generation.Request{Chat: prompt, MaxTokens: 160})
			if err != nil {
				return err
			}
			answers[i] = c.Choices[0].Text
			return nil
		})
	}
	require.NoError(t, group.Wait())

	families := map[string]tally{}
	for i, q := range questions {
		f := families[q.Family]
		f.all++
		total.all++
		if answers[i] == q.Answer {
			f.right++
			total.right++
		} else {
			t.Logf("%s: %s %q: the answer is %q, want %q", filepath.Base(path), q.ID, q.Question, answers[i], q.Answer)
		}
		families[q.Family] = f
	}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		t.Logf("%s: %s: %d of %d answers are right", filepath.Base(path), name, families[name].right, families[name].all)
	}
	t.Logf("%s: %d of all %d answers are right, %.1f %%", filepath.Base(path), total.right, total.all, 100*float64(total.right)/float64(total.all))
	return total
}

func TestBundledModelsAnswerHeldOutQuestions(t *testing.T) {
	for _, name := range []string{"tiny-glm.q8_0.gguf", "tiny-llama.q4_0.gguf"} {
		t.Run(name, func(t *testing.T) {
			got := measure(t, name)
			require.GreaterOrEqual(t, float64(got.right)/float64(got.all), minAccuracy)
		})
	}
}

func TestOtherQuantisedModelsAnswerHeldOutQuestions(t *testing.T) {
	dir := os.Getenv("INGOT_MODELS")
	if dir == "" {
		t.Skip("the other quantised files are not measured: set INGOT_MODELS to the folder that holds tiny-*.gguf")
	}
	for _, name := range []string{
		"tiny-glm.q4_0.gguf",
		"tiny-llama.q8_0.gguf", "tiny-llama.q4_k_m.gguf", "tiny-llama.q5_k_m.gguf", "tiny-llama.q6_k.gguf",
	} {
		t.Run(name, func(t *testing.T) {
			got := measure(t, filepath.Join(dir, name))
			require.GreaterOrEqual(t, float64(got.right)/float64(got.all), minAccuracy)
		})
	}
}
