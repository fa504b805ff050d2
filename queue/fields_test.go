package queue

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// Other programs, and workers and servers of other versions, read these fields by their names.
func TestNamesOfFields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value any
		text  string
	}{
		{new(Status), `{
			"batch":"b", "model_name":"m", "models":[{"model_name":"m","answered_by":"p"}], "priority":"high", "state":"completed", "file_sha256":"s", "weight":2, "damage":"d",
			"created_at":"2026-01-02T03:04:05Z", "started_at":"2026-01-02T03:04:06Z", "finished_at":"2026-01-02T03:04:07Z", "cancelled_at":"2026-01-02T03:04:08Z",
			"expires_at":"2026-01-02T03:04:09Z", "deadline_at":"2026-01-02T03:04:10Z", "total":1, "done":2, "failed":3, "running":4,
			"prompt_tokens":5, "cached_tokens":6, "completion_tokens":7, "draft_tokens":8, "accepted_tokens":9, "rows_per_s":1.5, "tokens_per_s":2.5}`},
		{new(Stats), `{
			"queue_wait_ms":1.5, "ttft_ms":2.5, "total_ms":3.5, "prompt_tokens":1, "cached_tokens":2, "completion_tokens":3, "reasoning_tokens":4, "choice_tokens":[1,2],
			"resumed_tokens":5, "prefill_tps":4.5, "decode_tps":5.5, "context_full":true, "steps":6, "draft_tokens":7, "accepted_tokens":8, "masked_tokens":9, "forced_tokens":10,
			"mask_ms":6.5, "attempts":11, "batch_mean":7.5, "worker":"w", "backend":"cpu", "device":"d", "model":"m", "model_sha256":"s", "arithmetic":"a",
			"default_sampling":"t", "context":12, "version":"v"}`},
		{new(Worker), `{
			"id":"i", "name":"n", "aliases":["a"], "model":"m", "chat":true, "model_sha256":"s", "arithmetic":"r", "default_sampling":"t", "version":"v", "backend":"cpu",
			"device":"d", "context":1, "concurrency":2, "rows":3, "tokens_per_second":4.5, "started":"2026-01-02T03:04:05Z", "beat":"2026-01-02T03:04:06Z", "loading":"l",
			"lost":"2026-01-02T03:04:07Z"}`},
	} {
		requireFields(t, c.value, c.text)
	}
	text, err := (&Event{Batch: "b", Ended: true, Prompt: 1, Before: Progress{Tokens: 2, Text: 3, Reasoning: 4, Calls: 5, Arguments: 6}}).Encode()
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(text, &got))
	require.Contains(t, got, "piece")
	delete(got, "piece")
	require.Equal(t, map[string]any{
		"batch": "b", "ended": true, "prompt": 1.0,
		"before": map[string]any{"tokens": 2.0, "text": 3.0, "reasoning": 4.0, "calls": 5.0, "arguments": 6.0},
	}, got)
}

// requireFields checks that a text sets all fields of a value, which then is written as this text.
func requireFields(t *testing.T, value any, text string) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), value))
	v := reflect.ValueOf(value).Elem()
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && !f.Anonymous {
			require.False(t, v.Field(i).IsZero(), "%s of %s", f.Name, v.Type())
		}
	}
	written, err := json.Marshal(value)
	require.NoError(t, err)
	require.JSONEq(t, text, string(written))
}
