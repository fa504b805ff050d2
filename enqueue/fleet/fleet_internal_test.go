package fleet

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// TestWhyRowsWait checks what enqueue, status and a watched batch say about a model name that
// nobody serves, that a worker loads, and that is paused.
func TestWhyRowsWait(t *testing.T) {
	t.Parallel()
	q := redisqueue.New(redistest.Start(t).Client)
	_, err := enqueue.Enqueue(t.Context(), q, strings.NewReader(`{"prompt":"Hi"}`+"\n"), enqueue.Options{Batch: "b", Alias: "glm"})
	require.NoError(t, err)
	check := func(reason, status string) {
		t.Helper()
		var warnings []string
		require.NoError(t, WarnOfWaiting(t.Context(), q, "glm", nil, func(text string) { warnings = append(warnings, text) }))
		require.Equal(t, []string{reason}, warnings)
		stall, err := stalled(t.Context(), q, []string{"glm"})
		require.NoError(t, err)
		require.Equal(t, reason, stall)
		b, err := ReadBatch(t.Context(), q, "b")
		require.NoError(t, err)
		var text strings.Builder
		require.NoError(t, b.Write(&text))
		require.Regexp(t, status, text.String())
	}
	check(`no worker serves model name "glm": the rows wait for one`,
		`(?m)^workers +none serves model name "glm" now$`)

	stop := q.ListLoading(t.Context(), queue.Worker{Name: "host:1", Loading: "glm"}, slog.New(slog.DiscardHandler))
	defer stop()
	require.Eventually(t, func() bool {
		all, err := ReadWorkers(t.Context(), q)
		return err == nil && len(all.List) == 1 && all.List[0].State == "loading"
	}, time.Minute, time.Millisecond)
	check(`worker host:1 loads the model for model name "glm": the rows wait for it`,
		`(?m)^workers +none serves model name "glm" now; host:1 loads its model$`)

	_, err = q.Pause(t.Context(), "glm")
	require.NoError(t, err)
	check(`model name "glm" is paused: the rows wait for "ingot resume glm"`,
		`(?m)^paused +no rows of model name "glm" are taken: ingot resume glm$`)

	_, err = Aliases(t.Context(), q, "gml")
	require.EqualError(t, err, `no rows were queued for model name "gml", and no worker serves it; the known names are: glm`)
}
