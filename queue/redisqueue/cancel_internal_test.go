package redisqueue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// A row that runs while its batch is cancelled leaves no task, even if its worker stops before the
// task is delivered again.
func TestARunningRowOfACancelledBatchLeavesNoTask(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	ended := make(chan struct{}, 1)
	w := f.serve(1, func(ctx context.Context, _ *queue.Delivery) queue.Outcome {
		<-ctx.Done()
		ended <- struct{}{}
		return queue.Interrupted(context.Cause(ctx))
	})
	f.eventually("it runs, and its worker listens for cancellations", func() bool {
		s, err := f.queue.Status(t.Context(), "b")
		require.NoError(t, err)
		return s.Running == 1 && f.queue.rdb.PubSubNumSub(t.Context(), cancelChannel).Val()[cancelChannel] > 0
	})
	w.sleep() // so that its last script runs after the batch is cancelled
	_, err := f.queue.Cancel(t.Context(), "b")
	require.NoError(t, err)
	<-ended
	w.wake()
	w.stop()
	f.requireNoTask()
}

// A worker has died with rows, and their batch is cancelled before another worker starts. The rows
// then leave no tasks, even if Redis has no memory left, or if the rows are handed over later.
func TestRowsOfADeadWorkerLeaveNoTasks(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(f *fleet) error{
		"cancel": func(f *fleet) error {
			_, err := f.queue.Cancel(f.t.Context(), "b")
			return err
		},
		"cancel without memory": func(f *fleet) error {
			f.take(2, 0, "") // the row's worker died before it owned the row
			f.queue.Leases.Silence = 0
			require.NoError(f.t, f.redis.Client.ConfigSet(f.t.Context(), "maxmemory", "1").Err())
			_, err := f.queue.Cancel(f.t.Context(), "b")
			return err
		},
		"hand over": func(f *fleet) error {
			require.NoError(f.t, f.member("w").join(f.t.Context())) // the dead worker counts as alive
			_, err := f.queue.Cancel(f.t.Context(), "b")
			require.NoError(f.t, err)
			require.Equal(f.t, int64(1), f.queue.rdb.LLen(f.t.Context(), asynqKey("m:default", "active")).Val())
			require.NoError(f.t, f.queue.rdb.HDel(f.t.Context(), fleetKey("beats"), "w").Err())
			f.reap()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 2)
			_, err := f.begin(f.take(1, 0, "w"))
			require.NoError(t, err)
			require.NoError(t, remove(f))
			f.requireNoTask()
		})
	}
}

// Rows that wait for their retries leave no tasks.
func TestRowsToRetryOfACancelledBatchLeaveNoTasks(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.serve(1, func(context.Context, *queue.Delivery) queue.Outcome {
		return queue.Retry(time.Hour, errors.New("again"))
	})
	f.eventually("the rows wait", func() bool {
		return f.queue.rdb.ZCard(t.Context(), asynqKey("m:default", "retry")).Val() == 3
	})
	_, err := f.queue.Cancel(t.Context(), "b")
	require.NoError(t, err)
	f.requireNoTask()
}
