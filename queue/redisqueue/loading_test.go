package redisqueue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// After a restart, Redis refuses commands until it has loaded its data. Dial waits for that.
func TestDialWaitsWhileDataIsLoaded(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024")
	ctx := t.Context()
	require.NoError(t, r.Client.Do(ctx, "DEBUG", "POPULATE", 10_000).Err())
	require.NoError(t, r.Client.ConfigSet(ctx, "key-load-delay", "1000").Err())
	reloaded := make(chan error)
	go func() { reloaded <- r.Client.Do(ctx, "DEBUG", "RELOAD").Err() }()
	require.Eventually(t, func() bool {
		info, err := r.Client.InfoMap(ctx, "persistence").Result()
		return err == nil && info["Persistence"]["loading"] == "1"
	}, time.Minute, time.Millisecond)
	_, _, err := redisqueue.Dial(ctx, r.URL, 1, nil)
	require.ErrorContains(t, err, "it is loading its data: try again in ")
	looks := func() (n int) { // number of calls of INFO
		stats, err := r.Client.InfoMap(ctx, "commandstats").Result()
		if err == nil {
			_, err = fmt.Sscanf(stats["Commandstats"]["cmdstat_info"], "calls=%d", &n)
		}
		if err != nil {
			t.Error(err)
		}
		return n
	}
	var reasons []string
	finished := make(chan error, 1)
	q, _, err := redisqueue.Dial(ctx, r.URL, 1, func(reason string) {
		reasons = append(reasons, reason)
		before := looks()
		go func() { // the server finishes loading after Dial has looked twice more
			own := 1
			for looks()-before-own < 2 && !t.Failed() {
				own++
			}
			finished <- r.Client.ConfigSet(ctx, "key-load-delay", "0").Err()
		}()
	})
	require.NoError(t, err)
	require.Len(t, reasons, 1)
	require.Contains(t, reasons[0], "is loading its data")
	_, _, err = q.Create(ctx, queue.Batch{ID: "b", Alias: "m", Priority: queue.Default, Retention: time.Hour})
	require.NoError(t, err, "a server that has loaded its data accepts commands")
	require.NoError(t, <-finished)
	require.NoError(t, <-reloaded)
	require.NoError(t, q.Close())
}
