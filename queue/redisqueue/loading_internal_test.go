package redisqueue

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// TestAWorkerThatLoadsIsListed: it is listed as such until it has loaded its model, and serves no
// rows.
func TestAWorkerThatLoadsIsListed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0)
	stop := f.queue.ListLoading(t.Context(), queue.Worker{Name: "host:1", Loading: "m", Model: "m.gguf"}, slog.New(slog.DiscardHandler))
	var all []queue.Worker
	require.Eventually(t, func() bool {
		var err error
		all, err = f.queue.Fleet(t.Context())
		require.NoError(t, err)
		return len(all) == 1
	}, time.Minute, time.Millisecond)
	require.Equal(t, []any{"host:1", "m", "m.gguf"}, []any{all[0].Name, all[0].Loading, all[0].Model})
	require.Empty(t, all[0].Aliases)
	n, err := f.queue.Workers(t.Context(), "m")
	require.NoError(t, err)
	require.Zero(t, n)
	stop()
	all, err = f.queue.Fleet(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
}

// TestALostWorkerIsNamed: the log names a lost worker as the list of workers does.
func TestALostWorkerIsNamed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0)
	m := newMember(f.queue, queue.ServeOptions{Alias: "m", Describe: func() queue.Worker { return queue.Worker{Name: "host:7"} }, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, m.join(t.Context()))
	var text bytes.Buffer
	r := &reaper{
		queue: f.queue, self: func() string { return "" }, queues: f.queue.queuesOfLost, watch: watch{Leases: Leases{Beat: time.Minute, Silence: time.Nanosecond}},
		log: slog.New(slog.NewTextHandler(&text, nil)),
	}
	require.NoError(t, r.look(t.Context()))
	require.NoError(t, r.look(t.Context()))
	require.Contains(t, text.String(), "worker=host:7 id="+m.worker())
}
