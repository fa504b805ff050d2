package enqueue

import (
	"context"
	"fmt"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/job"
)

// Cancel ends a batch before its time: rows that wait are dropped as workers come to them, and running ones are stopped. What
// is recorded can be collected until its retention is over. It can be repeated. Where all rows were recorded before, it
// changes nothing and says so. A batch that Redis does not know gives job.ErrNoBatch.
func Cancel(ctx context.Context, rdb redis.UniversalClient, batch string) (finished bool, err error) {
	running, finished, err := job.NewStore(rdb).Cancel(ctx, batch)
	if err != nil || finished {
		return finished, err
	}
	inspector := asynq.NewInspectorFromRedisClient(rdb)
	for _, line := range running {
		if err := inspector.CancelProcessing(job.TaskID(batch, line)); err != nil {
			return false, fmt.Errorf("stop line %d of batch %s: %w", line, batch, err)
		}
	}
	return false, nil
}
