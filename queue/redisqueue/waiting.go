package redisqueue

import (
	"context"

	"github.com/ingot-run/ingot/queue"
)

// asynq takes tasks from a queue's pending list in order, so a large batch could fill that list for hours. Rows therefore wait in one
// list per batch. Scripts move a few rows at a time to the pending list, and the batches take turns:
//
//	ingot:{QUEUE}:turns          sorted set: the batches with waiting rows, by their next turns
//	ingot:{QUEUE}:waiting:BATCH  list: the waiting rows of a batch, as task ids without the batch's id
//
// The task of a waiting row exists and has the state "waiting", which is not one of asynq's states. A row that returns to the queue goes to
// the pending list directly.

func turnsKey(queue string) string { return "ingot:{" + queue + "}:turns" }

// waitingPrefix returns the beginning of the keys of waiting rows. The batch follows.
func waitingPrefix(queue string) string { return "ingot:{" + queue + "}:waiting:" }

// waiting returns the number of rows that wait in their batches.
func (q *Queue) waiting(ctx context.Context, queue string) (int, error) {
	n, err := waitingScript.Run(ctx, q.rdb, []string{turnsKey(queue)}, waitingPrefix(queue)).Int()
	return n, failure(err, "count the waiting rows of queue %s", queue)
}

// drainedAtOnce is the number of waiting rows that are removed at a time.
const drainedAtOnce = 1000

// drain removes the rows of a batch from its queues, except those that live workers run. Those leave the queue when their deliveries end.
// drain works even while Redis has no memory left.
func (q *Queue) drain(ctx context.Context, s queue.Status) error {
	for _, queue := range queuesOf(s) {
		if err := q.drainQueue(ctx, queue, s.Batch); err != nil {
			return err
		}
	}
	return nil
}

// drainQueue is drain for one queue.
func (q *Queue) drainQueue(ctx context.Context, queue, batch string) error {
	for {
		n, err := drainScript.Run(ctx, q.rdb, []string{waitingPrefix(queue) + batch, turnsKey(queue)},
			batch, taskPrefix(queue)+batch+":", drainedAtOnce).Int()
		if err != nil {
			return failure(err, "remove the rows of batch %s", batch)
		}
		if n < drainedAtOnce {
			break
		}
	}
	tasks, err := q.tasksOf(ctx, queue, batch)
	if err != nil {
		return err
	}
	for _, id := range tasks {
		if err := q.deleteTask(ctx, queue, id, idle); err != nil {
			return err
		}
	}
	return q.drainDead(ctx, queue, batch)
}

// drainDead removes the rows of a batch that are in the list of running rows but have no live owner.
func (q *Queue) drainDead(ctx context.Context, queue, batch string) error {
	running, err := q.owners(ctx, queue)
	if err != nil || len(running) == 0 {
		return err
	}
	fleet, err := q.Fleet(ctx) // read after the owners: a worker sends its first heartbeat before it owns a row
	if err != nil {
		return err
	}
	live := map[string]bool{}
	for _, w := range fleet {
		live[w.ID] = w.Live() && !q.Silent(w)
	}
	for _, r := range running {
		if r.batch != batch || live[r.owner] || r.owner == "" && r.orphaned < q.Leases.Silence {
			continue
		}
		if err := q.deleteTask(ctx, queue, r.id(), anyTask); err != nil {
			return err
		}
	}
	return nil
}

// Conditions of deleteTask; delete.lua defines them.
const (
	anyTask  = "any"
	idle     = "idle"
	unwanted = "unwanted"
)

// deleteTask deletes a task if it satisfies a condition. It is no error if the task does not exist.
func (q *Queue) deleteTask(ctx context.Context, queue, id, condition string) error {
	err := deleteScript.Run(ctx, q.rdb, nil, id, queue, condition).Err()
	return failure(err, "remove task %s from its queue", id)
}
