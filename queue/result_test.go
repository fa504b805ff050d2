package queue

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
)

var testJob = &Job{Batch: "b", Line: 3, Sum: "0badcafe", CustomID: "x", EnqueuedMS: 1_700_000_000_000, TimeoutMS: 1000, MaxAttempts: 3}

var testOrigin = Origin{
	Worker: "mac:1", Backend: "cpu", Device: "2 threads", Model: "micro", ModelSHA256: strings.Repeat("0123456789abcdef", 4), Version: "v1",
}

// scoredToken returns a token with two alternatives: itself and another one.
func scoredToken(text string, p float64, other string) generation.TokenLogprob {
	t := generation.TokenLogprob{Text: text, Bytes: []byte(text), Logprob: p}
	t.Top = []generation.TokenLogprob{t, {Text: other, Bytes: []byte(other), Logprob: p - 1}}
	return t
}

var (
	eAcute = scoredToken("\ufffd", -0.5, "x")
	tail   = scoredToken("\ufffd", -0.25, "x")
)

func init() {
	eAcute.Bytes, tail.Bytes = []byte{0xC3}, []byte{0xA9}
}

// The lines of testdata/results.jsonl were written by hand from OpenAI's and vLLM's references.
func TestResultLines(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile(filepath.Join("testdata", "results.jsonl"))
	require.NoError(t, err)
	want := strings.Split(strings.TrimSpace(string(golden)), "\n")

	stats := generation.Stats{
		PromptTokens: 10, CachedTokens: 4, CompletionTokens: 5, TTFT: 1500 * time.Microsecond, Total: 12 * time.Millisecond,
		Prefill: time.Millisecond, Decode: 8 * time.Millisecond, Steps: 5, DraftTokens: 3, AcceptedTokens: 2, BatchMean: 1.5,
	}
	prompt := []generation.TokenLogprob{scoredToken("Hé", 0, ""), scoredToken(" <b>", -2, "!")}
	prompt[0].Top = nil
	answer := []generation.TokenLogprob{scoredToken("caf", -1, "x"), eAcute, tail, scoredToken("!", math.Inf(-1), "?"), scoredToken("</s>", -3, "y")}
	stopped := generation.Choice{Text: "café!", Tokens: []int32{1, 2, 3, 4, 0}, FinishReason: generation.FinishStop, Logprobs: answer}

	for i, c := range []struct {
		name     string
		endpoint openai.Endpoint
		body     string
		done     []generation.Completion
	}{
		{"chat", openai.Chat, `{"messages":[{"role":"user","content":"hi"}]}`, []generation.Completion{{Choices: []generation.Choice{stopped}, Stats: stats}}},
		{"chat with log-probabilities and ids", openai.Chat, `{"messages":[{"role":"user","content":"hi"}],"seed":-7,"n":2,"logprobs":true,"top_logprobs":2,"return_token_ids":true}`,
			[]generation.Completion{{PromptTokens: []int32{8, 9}, Choices: []generation.Choice{stopped, {Text: "", FinishReason: generation.FinishStop, StopReason: "caf", Tokens: []int32{1}, Logprobs: answer[:1]}}, Stats: stats}}},
		{"completion, echoed with log-probabilities", openai.Completions, `{"prompt":"Hé <b>","echo":true,"logprobs":2}`,
			[]generation.Completion{{PromptTokens: []int32{8, 9}, PromptLogprobs: prompt, Choices: []generation.Choice{stopped}, Stats: stats}}},
		{"completion, prompt only", openai.Completions, `{"prompt":[8,9],"echo":true,"logprobs":0,"max_tokens":0,"return_token_ids":true}`,
			[]generation.Completion{{PromptTokens: []int32{8, 9}, PromptLogprobs: prompt, Choices: []generation.Choice{{FinishReason: generation.FinishLength}}, Stats: generation.Stats{PromptTokens: 2, Total: time.Millisecond, Steps: 1, BatchMean: 1}}}},
		{"completion of two prompts", openai.Completions, `{"prompt":["a","b"],"n":1,"max_tokens":5}`,
			[]generation.Completion{{Choices: []generation.Choice{stopped}, Stats: stats}, {Choices: []generation.Choice{{Text: "b", FinishReason: generation.FinishLength}}, Stats: generation.Stats{
				PromptTokens: 2, CompletionTokens: 5, TTFT: time.Millisecond, Total: 15 * time.Millisecond, Prefill: time.Millisecond, Decode: 8 * time.Millisecond, Steps: 5, BatchMean: 2.5,
			}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := openai.ParseRequest(c.endpoint, []byte(c.body))
			require.NoError(t, err)
			s := Stats{QueueWaitMS: 250, Attempts: 2, Origin: testOrigin}
			require.Equal(t, want[i], string(Answered(testJob, r, c.done, time.Unix(1_700_000_001, 0), s).Text))
		})
	}

	t.Run("a row that cannot be used", func(t *testing.T) {
		t.Parallel()
		row := "{\"custom_id\":\"<a>\",\"prompt\":5}"
		_, err := openai.ParseRequest(openai.Completions, []byte(row))
		sum := sha256.Sum256([]byte(row))
		j := &Job{Batch: "b", Line: 1, Sum: hex.EncodeToString(sum[:4]), CustomID: "<a>"}
		require.Equal(t, want[5], string(Failure(j, *openai.AsError(err), Stats{Origin: Origin{Version: "v1"}}).Text))
	})
	t.Run("a job that failed", func(t *testing.T) {
		t.Parallel()
		r := Failure(testJob, openai.Error{Code: openai.CodeFailed, Message: "device lost (attempt 2 of 2)"}, Stats{QueueWaitMS: 1, TotalMS: 2, Attempts: 2, Origin: testOrigin})
		require.True(t, r.Failed)
		require.Equal(t, want[6], string(r.Text))
	})
}

func TestLinesHaveExactlyTheDocumentedFields(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile(filepath.Join("testdata", "results.jsonl"))
	require.NoError(t, err)
	for text := range strings.Lines(string(golden)) {
		var line map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(text), &line))
		require.ElementsMatch(t, []string{"id", "custom_id", "response", "error", "stats"}, mapKeys(line))
		var stats map[string]any
		require.NoError(t, json.Unmarshal(line["stats"], &stats))
		delete(stats, "choice_tokens") // only where there are several choices
		require.ElementsMatch(t, []string{
			"queue_wait_ms", "ttft_ms", "total_ms", "prompt_tokens", "cached_tokens", "completion_tokens", "prefill_tps", "decode_tps",
			"steps", "draft_tokens", "accepted_tokens", "attempts", "batch_mean", "worker", "backend", "device", "model",
			"model_sha256", "version",
		}, mapKeys(stats))
	}
}

func mapKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

func TestResultIDs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		batch := rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,20}`).Draw(t, "batch")
		line := rapid.IntRange(1, math.MaxInt32).Draw(t, "line")
		require.NoError(t, CheckBatch(batch))
		gotBatch, gotLine, sum, err := openai.ParseResultID(openai.ResultID(batch, line, "0badcafe"))
		require.NoError(t, err)
		require.Equal(t, batch, gotBatch)
		require.Equal(t, line, gotLine)
		require.Equal(t, uint32(0x0badcafe), sum)
	})
	for _, id := range []string{"", "batch_req_", "batch_req_b-3", "batch_req_b-x-0badcafe", "batch_req_b-3-zz", "batch_req_b-0-0badcafe", "chatcmpl-b-3-0badcafe", "batch_req_b-99999999999-0badcafe"} {
		_, _, _, err := openai.ParseResultID(id)
		require.Error(t, err, id)
	}
}
