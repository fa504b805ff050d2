package schedule

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// Other programs read the status of a schedule and its notices; other versions read its entries.
func TestNamesOfFields(t *testing.T) {
	t.Parallel()
	const entry = `"name":"n", "cron":"* * * * *", "timezone":"UTC", "tasks":["t"], "model":"m", "judge":"j", "limit":1, "chat":true, "missed":"skip", "deadline":2,
		"gate":{"baseline":"b","margin":0.5}`
	const slot = `{"slot":"s", "state":"done", "run":"r", "attempt":1, "scheduler":"a", "started":"b", "ended":"c", "verdict":"pass", "message":"m", "notified":"n"}`
	for _, c := range []struct {
		value any
		text  string
	}{
		{new(Status), `{"schedulers":["a"], "entries":[{` + entry + `, "paused":true, "next":"2026-01-02T03:04:05Z", "slots":[` + slot + `]}]}`},
		{new(Slot), slot},
		{new(storedEntry), `{` + entry + `, "seen":"2026-01-02T03:04:05Z"}`},
		{new(notice), `{"key":"k", "entry":"e", "slot":"s", "run":"r", "verdict":"fail", "message":"m", "model":"o", "baseline":"b", "started":"x", "ended":"y"}`},
	} {
		require.NoError(t, json.Unmarshal([]byte(c.text), c.value))
		written, err := json.Marshal(c.value)
		require.NoError(t, err)
		require.JSONEq(t, c.text, string(written), reflect.TypeOf(c.value).String())
	}
}
