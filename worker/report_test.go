package worker

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
)

// TestAWorkerReportsItsRows: at intervals, the log has the rows since the last report. An idle
// worker logs nothing.
func TestAWorkerReportsItsRows(t *testing.T) {
	t.Parallel()
	b := setUp(t, memqueue.New(), answered, Config{Name: "w"})
	var log bytes.Buffer
	b.worker.log = slog.New(slog.NewTextHandler(&log, nil))
	b.worker.reportInterval = 10 * time.Millisecond
	for range 3 {
		b.worker.tally.add(queue.Result{})
	}
	b.worker.tally.add(queue.Result{Failed: true})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	looks := 0
	b.worker.snapshot = func() engine.Snapshot { // the first call is at the start
		if looks++; looks == 5 {
			stop()
		}
		return engine.Snapshot{GeneratedTokens: uint64(min(looks, 2)) * 10}
	}
	b.worker.report(ctx)
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("\n")), log.String())
	require.Contains(t, log.String(), "msg=rows answered=3 failed=1 tokens_per_s=1000 running=0 waiting=0")
}
