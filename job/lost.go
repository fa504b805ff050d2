package job

import (
	"context"
	"fmt"
	"slices"

	"github.com/hibiken/asynq"
)

// Lost is the number of rows of a batch that are neither recorded nor in the queue, so that no worker will answer them until the
// batch's file is queued again. It is 0 while the queue holds jobs, because other batches may share the queue, and while the
// batch is still being queued. s is the batch's status.
func (s *Store) Lost(ctx context.Context, b Status) (int, error) {
	if b.State != InProgress {
		return 0, nil
	}
	empty, err := s.queueIsEmpty(Queue(b.Alias, b.Priority))
	if err != nil || !empty {
		return 0, err
	}
	// Read after the queue: a row is recorded before its task leaves the queue.
	if b, err = s.Status(ctx, b.Batch); err != nil || b.State != InProgress {
		return 0, err
	}
	return max(0, b.Total-b.Done-b.Failed), nil
}

// queueIsEmpty reports whether a queue holds no tasks that will run.
func (s *Store) queueIsEmpty(queue string) (bool, error) {
	inspector := asynq.NewInspectorFromRedisClient(s.rdb)
	queues, err := inspector.Queues()
	if err == nil && !slices.Contains(queues, queue) {
		return true, nil
	}
	var info *asynq.QueueInfo
	if err == nil {
		info, err = inspector.GetQueueInfo(queue)
	}
	if err != nil {
		return false, fmt.Errorf("read queue %s: %w", queue, err)
	}
	return info.Pending+info.Active+info.Scheduled+info.Retry == 0, nil
}
