package metal_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/chat"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/host"
)

// question is one with a single right answer.
type question struct{ Question, Answer string }

// readQuestions returns n held-out questions of the bundled models, evenly spread.
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

// answer asks all questions, some at a time.
func answer(t *testing.T, questions []question, opts engine.Options, atOnce int) [][]int32 {
	t.Helper()
	eng, err := engine.Open("../models/tiny-glm.q8_0.gguf", open(t, metal.Options{}, host.Options{}), opts)
	require.NoError(t, err)
	defer func() { require.NoError(t, eng.Close()) }()
	tokens := make([][]int32, len(questions))
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(atOnce)
	for i, q := range questions {
		message := chat.NewObject()
		message.Set("role", "user")
		message.Set("content", q.Question)
		prompt := chat.NewObject()
		prompt.Set("messages", []chat.Value{message})
		group.Go(func() error {
			c, err := eng.Generate(ctx, engine.Request{Chat: prompt, MaxTokens: 16})
			if err != nil {
				return err
			}
			tokens[i] = c.Choices[0].Tokens
			if c.Choices[0].FinishReason == engine.FinishStop && c.Choices[0].Text != q.Answer {
				t.Errorf("%q: %q, not %q", q.Question, c.Choices[0].Text, q.Answer)
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	return tokens
}

// TestSameTokensInAnyCompany answers questions one after another and all at once, in small steps and large, with drafts and
// without: the answers are right, and have the same tokens.
func TestSameTokensInAnyCompany(t *testing.T) {
	questions := readQuestions(t, 4)
	want := answer(t, questions, engine.Options{Context: 256, Draft: engine.DraftOff}, 1)
	for name, opts := range map[string]engine.Options{
		"large steps": {Context: 256, Draft: engine.DraftOff},
		"small steps": {Context: 256, Draft: engine.DraftOff, StepTokens: 12, MaxSequences: 12},
		"drafts":      {Context: 256, DraftTokens: 3},
	} {
		require.Equal(t, want, answer(t, questions, opts, len(questions)), name)
	}
}
