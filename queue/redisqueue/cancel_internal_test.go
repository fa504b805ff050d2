package redisqueue

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// A row that runs while its batch is cancelled leaves no task, even if its worker stops before asynq delivers the task again.
func TestARunningRowOfACancelledBatchLeavesNoTask(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	ended := make(chan struct{}, 1)
	w := f.serve(1, func(ctx context.Context, q *Queue, j *queue.Job) error {
		if _, err := q.Begin(ctx, j); err != nil {
			return err
		}
		<-ctx.Done()
		ended <- struct{}{}
		return queue.ErrDeliveryEnded
	})
	f.eventually("it runs, and its worker and asynq listen for cancellations", func() bool {
		s, err := f.queue.Status(t.Context(), "b")
		require.NoError(t, err)
		return s.Running == 1 && f.queue.rdb.PubSubNumSub(t.Context(), cancelChannel).Val()[cancelChannel] > 1
	})
	w.sleep() // so that asynq's last script runs after the batch is cancelled
	_, err := f.queue.Cancel(t.Context(), "b")
	require.NoError(t, err)
	<-ended
	w.wake()
	w.stop()
	f.requireNoTask()
}

// A worker has died with rows, and their batch is cancelled before another worker starts. The rows then leave no tasks, even if Redis has
// no memory left, or if the rows are handed over later.
func TestRowsOfADeadWorkerLeaveNoTasks(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(f *fleet) error{
		"cancel": func(f *fleet) error {
			_, err := f.queue.Cancel(f.t.Context(), "b")
			return err
		},
		"cancel without memory": func(f *fleet) error {
			f.take(delivery{"b", 2, 0}, "") // the row's worker died before it owned the row
			f.queue.Leases.Silence = 0
			require.NoError(f.t, f.redis.Client.ConfigSet(f.t.Context(), "maxmemory", "1").Err())
			_, err := f.queue.Cancel(f.t.Context(), "b")
			return err
		},
		"hand over": func(f *fleet) error {
			_, err := f.queue.beat(f.t.Context(), queue.Worker{ID: "w"}) // the dead worker counts as alive
			require.NoError(f.t, err)
			_, err = f.queue.Cancel(f.t.Context(), "b")
			require.NoError(f.t, err)
			require.Equal(f.t, int64(1), f.queue.rdb.LLen(f.t.Context(), asynqKey("m:default", "active")).Val())
			_, err = f.queue.handOver(f.t.Context(), "m:default", delivery{"b", 1, 0}, "w")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 2)
			f.take(delivery{"b", 1, 0}, "w")
			_, err := f.queue.Begin(t.Context(), &queue.Job{Batch: "b", Line: 1})
			require.NoError(t, err)
			require.NoError(t, remove(f))
			f.requireNoTask()
		})
	}
}
