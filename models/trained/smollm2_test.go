package trained_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/enginetest"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/tokenizer"
	"github.com/ingot-run/ingot/internal/ordered"
	"github.com/ingot-run/ingot/models/trained"
)

// find returns the path of a trained model, or skips the test if the model is not there.
func find(t *testing.T, m trained.Model) string {
	t.Helper()
	path, err := m.Find()
	if err != nil {
		t.Skipf("%s is not compared with transformers: %v", m.Name, err)
	}
	return path
}

// open opens a model. Short tests give the engine the costs of its steps. Long tests measure them,
// as the program does.
func open(t *testing.T, path string, opts engine.Options) *engine.Engine {
	t.Helper()
	if os.Getenv("INGOT_LONG") == "" {
		enginetest.GiveCosts()
	}
	be, err := cpu.New(0)
	require.NoError(t, err)
	opts.KV = gguf.TypeF16 // the default of the program
	eng, err := engine.Open(path, be, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, eng.Close()) })
	return eng
}

// answer is a greedy answer of the reference.
type answer struct {
	Question string    `json:"question"`
	Prompt   []int32   `json:"prompt"`
	Tokens   []int32   `json:"tokens"`
	Gaps     []float64 `json:"gaps"` // difference of the two highest logits before each token
	Text     string    `json:"text"`
}

func readJSON(t *testing.T, path string, to any) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, to))
}

// TestSmolLM2 compares the parts of the engine that a text passes through with transformers.
func TestSmolLM2(t *testing.T) {
	eng := open(t, find(t, trained.SmolLM2), engine.Options{Context: 2304})
	var tokens struct {
		Texts [][2]json.RawMessage
		Chats [][2]json.RawMessage
	}
	readJSON(t, "testdata/smollm2.tokens.json", &tokens)
	t.Run("tokenizer", func(t *testing.T) {
		for _, c := range tokens.Texts {
			text, want := pair[string](t, c)
			require.Equal(t, want, eng.Tokenizer().Encode(text, tokenizer.EncodeOptions{}), "%q", text)
			require.Equal(t, text, eng.Tokenizer().Decode(want))
		}
	})
	t.Run("chat template", func(t *testing.T) {
		for _, c := range tokens.Chats {
			messages, want := pair[[]map[string]string](t, c)
			done, err := eng.Generate(t.Context(), generation.Request{Chat: chat(messages), PromptOnly: true})
			require.NoError(t, err)
			require.Equal(t, want, done.PromptTokens, "%v", messages)
		}
	})
	t.Run("log-probabilities", func(t *testing.T) {
		chunks, err := trained.ReadChunks("testdata/smollm2.jsonl.gz", 2000)
		require.NoError(t, err)
		results, err := trained.Prompts(t.Context(), eng, chunks)
		require.NoError(t, err)
		requireClose(t, chunks, results)
	})
	t.Run("greedy answers", func(t *testing.T) {
		var answers []answer
		readJSON(t, "testdata/smollm2.answers.json", &answers)
		require.Len(t, answers, 20)
		requireAnswers(t, eng, answers)
	})
}

func pair[T any](t *testing.T, c [2]json.RawMessage) (of T, ids []int32) {
	t.Helper()
	require.NoError(t, json.Unmarshal(c[0], &of))
	require.NoError(t, json.Unmarshal(c[1], &ids))
	return of, ids
}

func chat(messages []map[string]string) *ordered.Object {
	var list []ordered.Value
	for _, m := range messages {
		message := ordered.NewObject()
		message.Set("role", m["role"])
		message.Set("content", m["content"])
		list = append(list, message)
	}
	chat := ordered.NewObject()
	chat.Set("messages", list)
	return chat
}

// The limits for log-probabilities, in nats, and for greedy answers.
const (
	maxMean   = 0.015
	minSame   = 0.993
	maxLogPPL = 0.0008
	// Where an answer leaves the reference, the reference's two highest logits differ by at most
	// maxGap.
	maxGap = 0.1
)

func requireClose(t *testing.T, chunks []trained.Chunk, results []trained.Result) {
	t.Helper()
	require.NoError(t, trained.Print(t.Output(), chunks, results))
	all := trained.Difference{}
	for i := range chunks {
		all.Add(&chunks[i], &results[i])
	}
	require.Less(t, all.Mean(), maxMean)
	require.Greater(t, all.Same(), minSame)
	require.InDelta(t, 0, all.LogPPL(), maxLogPPL)
}

// requireAnswers generates all answers in one batch. An answer may leave the reference where the
// reference itself was undecided.
func requireAnswers(t *testing.T, eng *engine.Engine, answers []answer) {
	t.Helper()
	got := generate(t, eng, answers)
	equal := 0
	for i, want := range answers {
		if slices.Equal(want.Tokens, got[i]) {
			equal++
			continue
		}
		at := 0
		for at < len(got[i]) && got[i][at] == want.Tokens[at] {
			at++
		}
		require.Less(t, at, len(got[i]), "%s: the answer ends after %d tokens, the reference's after %d", want.Question, at, len(want.Tokens))
		t.Logf("%s: token %d differs, where the reference's logits differ by %.3f", want.Question, at, want.Gaps[at])
		require.Less(t, want.Gaps[at], maxGap, "%s: token %d", want.Question, at)
	}
	t.Logf("%d of %d answers are the reference's", equal, len(answers))
}
