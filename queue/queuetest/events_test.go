package queuetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

func TestEventsReachTheirChannel(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		ctx, stop := context.WithCancel(t.Context())
		got := make(chan string, 10)
		ready := make(chan struct{}, 2)
		var listening sync.WaitGroup
		for range 2 {
			listening.Go(func() {
				err := q.Listen(ctx, "front", func() { ready <- struct{}{} }, func(m []byte) { got <- string(m) })
				require.NoError(t, err)
			})
		}
		<-ready
		<-ready
		require.NoError(t, q.Announce(t.Context(), "other", []byte("wrong")))
		require.NoError(t, q.Announce(t.Context(), "front", []byte("a\x00b")))
		require.Equal(t, "a\x00b", <-got)
		require.Equal(t, "a\x00b", <-got)
		stop()
		listening.Wait()
		require.NoError(t, q.Announce(t.Context(), "front", []byte("late")), "an announcement without listeners")
		require.Empty(t, got)
	})
}

func TestInteractiveJobsHaveTheirOwnSlots(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		add(t, q, queue.Default, newJob(1), newJob(2))
		running := make(chan int, 4)
		release := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		var serving sync.WaitGroup
		serving.Go(func() {
			err := q.Serve(ctx, queue.ServeOptions{
				Alias: "m", Concurrency: 1, Interactive: 1, ShutdownTimeout: time.Minute, Logger: quiet,
			}, func(_ context.Context, j *queue.Delivery) queue.Outcome {
				running <- j.Line
				<-release
				return queue.Done()
			})
			require.NoError(t, err)
		})
		require.Contains(t, []int{1, 2}, <-running)
		add(t, q, queue.Interactive, newJob(3), newJob(4))
		require.Contains(t, []int{3, 4}, <-running, "although all slots for rows of batches are taken")
		close(release)
		require.Len(t, map[int]bool{<-running: true, <-running: true}, 2)
		stop()
		serving.Wait()
	})
}
