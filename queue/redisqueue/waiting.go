package redisqueue

import (
	"context"

	"github.com/ingot-run/ingot/queue"
)

// asynq takes tasks from a queue's pending list in order, so a large batch could fill that list for
// hours. Rows therefore wait in one list per batch. Scripts move a few rows at a time to the
// pending list, and the batches take turns:
//
//	ingot:{QUEUE}:turns          sorted set: the batches with waiting rows, by their next turns
//	ingot:{QUEUE}:waiting:BATCH  list: the waiting rows of a batch, as task ids without the batch's id
//
// The task of a waiting row exists and has the state "waiting", which is not one of asynq's states.
// A row that returns to the queue goes to the pending list directly.

func waitingKey(queue, batch string) string { return "ingot:{" + queue + "}:waiting:" + batch }

// drainedAtOnce is the number of waiting rows that are removed at a time.
const drainedAtOnce = 1000

// drain removes the rows of a batch from its queues, except those that live workers run. Those
// leave the queue when their deliveries end. drain works even while Redis has no memory left.
func (q *Queue) drain(ctx context.Context, s queue.Status) error {
	for _, queue := range queuesOfBatch(s) {
		for more := 1; more == 1; {
			var err error
			more, err = q.run(ctx, with(drainScript, "queue", queue, "batch", s.Batch, "max", drainedAtOnce,
				"silence", q.Leases.Silence.Milliseconds())).Int()
			if err != nil {
				return failure(err, "remove the rows of batch %s", s.Batch)
			}
		}
	}
	return nil
}

// deleteTask deletes a task unless it is running. It is no error if the task does not exist.
func (q *Queue) deleteTask(ctx context.Context, queue, id string) error {
	err := q.run(ctx, with(deleteScript, "queue", queue, "id", id)).Err()
	return failure(err, "remove task %s from its queue", id)
}
