package redisqueue

import (
	"context"
	"slices"

	"github.com/hibiken/asynq"

	"github.com/ingot-run/ingot/queue"
)

// Missing implements queue.Store.
func (q *Queue) Missing(ctx context.Context, b queue.Status) (int, error) {
	if b.State != queue.InProgress {
		return 0, nil
	}
	for _, queue := range queuesOfBatch(b) {
		if empty, err := q.queueIsEmpty(ctx, queue); err != nil || !empty {
			return 0, err
		}
	}
	// A row is recorded before its task leaves the queue. So the status is read again, after the
	// queues were found empty.
	b, err := q.Status(ctx, b.Batch)
	if err != nil || b.State != queue.InProgress {
		return 0, err
	}
	return max(0, b.Total-b.Done-b.Failed), nil
}

// queueIsEmpty reports whether a queue holds no tasks that will run.
func (q *Queue) queueIsEmpty(ctx context.Context, queue string) (bool, error) {
	if n, err := q.waiting(ctx, queue); err != nil || n > 0 {
		return false, err
	}
	queues, err := q.inspector.Queues()
	if err == nil && !slices.Contains(queues, queue) {
		return true, nil
	}
	var info *asynq.QueueInfo
	if err == nil {
		info, err = q.inspector.GetQueueInfo(queue)
	}
	if err != nil {
		return false, failure(err, "read queue %s", queue)
	}
	return info.Pending+info.Active+info.Scheduled+info.Retry == 0, nil
}
