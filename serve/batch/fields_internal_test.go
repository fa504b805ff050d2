package batch

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// Files and batches have the names of OpenAI's fields. Records on the disk have the names that
// earlier versions wrote.
func TestNamesOfFields(t *testing.T) {
	t.Parallel()
	const batch = `{
		"id":"i", "object":"batch", "endpoint":"/v1/completions", "model":"m", "errors":{"object":"list","data":[{"code":"c","message":"m","param":"p","line":1}]},
		"warnings":["w"], "input_file_id":"f", "completion_window":"24h", "status":"completed", "output_file_id":"o", "error_file_id":"e", "created_at":1,
		"in_progress_at":2, "expires_at":3, "finalizing_at":4, "completed_at":5, "failed_at":6, "expired_at":7, "cancelling_at":8, "cancelled_at":9,
		"request_counts":{"total":10,"completed":11,"failed":12}, "metadata":{"k":"v"},
		"usage":{"input_tokens":13,"input_tokens_details":{"cached_tokens":14},"output_tokens":15,"output_tokens_details":{"reasoning_tokens":16},"total_tokens":17}}`
	for _, c := range []struct {
		value any
		text  string
	}{
		{new(Batch), batch},
		{new(File), `{"id":"i", "object":"file", "bytes":1, "created_at":2, "expires_at":3, "filename":"f", "purpose":"batch", "status":"processed"}`},
		{new(record), `{"batch":` + batch + `, "output_expiry":1, "models":["m"], "continued":2, "ending":{"status":"expired","output_file":"o","error_file":"e"}}`},
	} {
		require.NoError(t, json.Unmarshal([]byte(c.text), c.value))
		v := reflect.ValueOf(c.value).Elem()
		for i := range v.NumField() {
			require.False(t, v.Field(i).IsZero(), "%s of %s", v.Type().Field(i).Name, v.Type())
		}
		written, err := json.Marshal(c.value)
		require.NoError(t, err)
		require.JSONEq(t, c.text, string(written))
	}
}
