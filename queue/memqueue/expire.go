package memqueue

import (
	"context"
	"fmt"

	"github.com/ingot-run/ingot/queue"
)

// Expire implements queue.Queue.
func (q *Queue) Expire(ctx context.Context, id string) (n int, err error) {
	for _, t := range q.overdue(id) {
		r, err := queue.Expired(t.job)
		if err != nil {
			return n, fmt.Errorf("end the overdue rows of batch %s: %w", id, err)
		}
		first, err := q.Record(ctx, id, r)
		if err != nil {
			return n, err
		}
		if first {
			n++
		}
		q.discard(t)
	}
	return n, nil
}

// overdue returns the overdue tasks of a batch, or none if the batch's deadline has not passed or
// the batch has ended.
func (q *Queue) overdue(id string) (tasks []*task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.find(id)
	if err != nil || !b.current().Overdue() {
		return nil
	}
	for _, alias := range b.current().Aliases() {
		for _, t := range q.alias(alias).tasks {
			if t.job.Batch == id && t.job.Overdue() {
				tasks = append(tasks, t)
			}
		}
	}
	return tasks
}

// discard removes a task from the queue, unless it is running.
func (q *Queue) discard(t *task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if b, err := q.find(t.job.Batch); err == nil && !t.running {
		q.alias(b.aliasOf(t.job.Alias)).remove(t)
	}
}
