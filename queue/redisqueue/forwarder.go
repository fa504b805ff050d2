package redisqueue

import (
	"context"
	"time"
)

const (
	// forwardInterval is the time between two searches of a worker for rows whose retry is due.
	forwardInterval = 2 * time.Second
	// maxForwarded is the maximum number of rows that one search moves from each set.
	maxForwarded = 1000
)

// forward returns rows of a model alias to their queues when their retry is due.
func (q *Queue) forward(ctx context.Context, alias string) error {
	return failure(q.run(ctx, with(forwardScript, "max", maxForwarded).queues(queuesOf(alias))).Err(), "run forward.lua")
}
