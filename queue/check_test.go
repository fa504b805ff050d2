package queue

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
)

// Anyone who can reach Redis can write a payload, so Decode must refuse a job that no producer
// could have queued.
func TestPayloadsAreWithinLimits(t *testing.T) {
	t.Parallel()
	valid := map[string]any{
		"batch": "b", "line": 1, "sum": "0badcafe", "file": "0123456789abcdef", "custom_id": "x", "url": "/v1/completions",
		"body": map[string]any{"prompt": "a"}, "enqueued_ms": 1, "timeout_ms": 1000, "max_attempts": 1,
	}
	decode := func(field string, value any) error {
		fields := maps.Clone(valid)
		fields[field] = value
		payload, err := json.Marshal(fields)
		require.NoError(t, err)
		_, err = Decode(payload)
		return err
	}
	for _, c := range []struct {
		field string
		value any
	}{
		{"line", MaxLineNumber},
		{"file", ""},
		{"model_name", "glm"},
		{"model_name", ""},
		{"custom_id", strings.Repeat("x", openai.MaxCustomID)},
		{"url", "/v1/chat/completions"},
		{"timeout_ms", MaxTimeout.Milliseconds()},
		{"timeout_ms", MinTimeout.Milliseconds()},
		{"max_attempts", MaxAttempts},
		{"enqueued_ms", 0},
		{"enqueued_ms", maxUnixMilli},
		{"live", map[string]any{"channel": "c-1"}},
		{"body", strings.Repeat("x", openai.MaxBody-2)},
	} {
		require.NoError(t, decode(c.field, c.value), c.field)
	}
	for _, c := range []struct {
		field string
		value any
		want  string
	}{
		{"batch", "a:b", `"a:b" is not a valid batch id`},
		{"line", 0, "line number 0"},
		{"line", -3, "line number -3"},
		{"line", 4_000_000_000, "line number 4000000000 is not between 1 and 2147483647"},
		{"sum", "0BADCAFE", `checksum "0BADCAFE"`},
		{"sum", "", `checksum ""`},
		{"file", "x", `file "x"`},
		{"custom_id", "", `custom_id ""`},
		{"custom_id", strings.Repeat("x", openai.MaxCustomID+1), "is not UTF-8 of 1 to 512 bytes"},
		{"url", "/v1/embeddings", `url "/v1/embeddings"`},
		{"url", "\x1b[31m", `url "\x1b[31m"`},
		{"timeout_ms", 0, "timeout"},
		{"timeout_ms", -1, "timeout"},
		{"timeout_ms", int64(9_000_000_000_000_000_000), "timeout"},
		{"timeout_ms", MinTimeout.Milliseconds() - 1, "the timeout of an attempt is 999ms: it must be between 1s and 720h0m0s"},
		{"timeout_ms", MaxTimeout.Milliseconds() + 1, "the timeout of an attempt is 720h0m0.001s"},
		{"max_attempts", MaxAttempts + 1, "the maximum number of attempts is 1001: it must be between 1 and 1000"},
		{"line", MaxLineNumber + 1, "line number 2147483648 is not between 1 and 2147483647"},
		{"sum", "0badcaf", `checksum "0badcaf"`},
		{"sum", "0badcafg", `checksum "0badcafg"`},
		{"sum", "0badcaf/", `checksum "0badcaf/"`},
		{"sum", "0badcaf:", "is not 8 lower-case hex digits"},
		{"sum", "0badcaf`", "is not 8 lower-case hex digits"},
		{"live", map[string]any{"channel": "a:b"}, `live.channel "a:b": use 1 to 128 letters`},
		{"enqueued_ms", maxUnixMilli + 1, "enqueued_ms 253402300800000 is not a time"},
		{"max_attempts", 0, "attempts"},
		{"max_attempts", 1 << 30, "attempts"},
		{"enqueued_ms", -1, "enqueued_ms -1 is not a time"},
		{"enqueued_ms", int64(9_000_000_000_000_000_000), "is not a time"},
		{"body", strings.Repeat("x", openai.MaxBody), "the body has"},
		{"model_name", "a:b", `"a:b" is not a valid model name: use`},
		{"note", strings.Repeat("x", maxPayload), "bytes, the maximum is"},
	} {
		require.ErrorContains(t, decode(c.field, c.value), c.want)
	}
}

// A result that is longer than the maximum output line is replaced by an error.
func TestAResultHasAMaximumLength(t *testing.T) {
	t.Parallel()
	j := *testJob
	for _, c := range []struct {
		bytes  int
		failed bool
	}{{openai.MaxOutputLine / 2, false}, {openai.MaxOutputLine, true}} {
		l := openai.OutputLine{Response: &openai.Response{StatusCode: 200, Body: strings.Repeat("x", c.bytes)}}
		r := newResult(&j, l, Stats{CompletionTokens: 5})
		require.Equal(t, c.failed, r.Failed)
		require.Less(t, len(r.Text), openai.MaxOutputLine)
		require.Equal(t, 5, r.Stats.CompletionTokens)
		if c.failed {
			require.Contains(t, string(r.Text), `"code":"result_too_large","message":"line 3: the result has `)
		}
	}
}
