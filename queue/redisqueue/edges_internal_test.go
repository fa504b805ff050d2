package redisqueue

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// Nothing is an error where there is nothing: no queue, no task, no advice.
func TestWhatIsNotThere(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	require.Equal(t, redis.UniversalClient(f.redis.Client), f.queue.Client())
	for name, want := range map[string]bool{"other:default": true, "m:default": false} {
		n, err := f.queue.queued(t.Context(), []string{name})
		require.NoError(t, err)
		require.Equal(t, want, n == 0, name)
	}
	expired, err := f.queue.expireTask(t.Context(), "m:default", queue.TaskID("b", 2), "b")
	require.NoError(t, err)
	require.False(t, expired)
	require.Empty(t, hint(&redis.Options{}, errors.New("another error")))
}

// What cannot be written as JSON is refused before anything is sent.
func TestWhatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0)
	bad := fleetJob("b", 2)
	bad.Body = []byte("{")
	added, err := f.queue.Add(t.Context(), "m", queue.Default, []*queue.Job{fleetJob("b", 1), bad})
	require.ErrorContains(t, err, "queue line 2 of batch b: ")
	require.Equal(t, []bool{false, false}, added)
	f.requireNoTask()

	m := f.member("w")
	m.options.Describe = func() queue.Worker { return queue.Worker{TokensPerSecond: math.NaN()} }
	_, _, err = m.sendBeat(t.Context())
	require.ErrorContains(t, err, "encode the record of worker w: ")
}

// A client that waits for a server to load its data can give up.
func TestNobodyWaitsForAServerAnyMore(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := waitUntilLoaded(ctx, nil, map[string]string{"loading": "1"})
	require.ErrorIs(t, err, context.Canceled)
}

// A worker and a listener cannot begin without Redis. A worker that stops while Redis does not
// answer ends after a while, and says that its rows are taken over later.
func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0)
	client := redis.NewClient(f.redis.Client.Options())
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	s := &sleeper{queue: New(client)}
	client.AddHook(s)
	q := s.queue
	q.Leases = shortLeases
	q.Leases.Stop = 100 * time.Millisecond
	o := queue.ServeOptions{Alias: "m", Concurrency: 1, ShutdownTimeout: time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
	handle := func(context.Context, *queue.Delivery) queue.Outcome { return queue.Done() }

	s.setCut(true)
	require.ErrorContains(t, q.Serve(t.Context(), o, handle), "serve the queue: ")
	s.setCut(false)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- q.Serve(ctx, o, handle) }()
	f.eventually("the worker serves", func() bool {
		n, err := f.queue.Workers(t.Context(), "m")
		return err == nil && n == 1
	})
	s.sleep()
	cancel()
	err := <-ended
	require.ErrorIs(t, err, queue.ErrUnavailable)
	require.ErrorContains(t, err, "return the running rows to the queue: ")
	s.wake()

	closed := redis.NewClient(f.redis.Client.Options())
	require.NoError(t, closed.Close())
	require.ErrorContains(t, New(closed).Listen(t.Context(), "c", func() { require.Fail(t, "it has not begun") }, nil), "listen to events: ")
}
