package enqueue

import (
	"context"
	"fmt"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/job"
)

// Cancel ends an unfinished batch: running rows are stopped, and waiting rows are dropped when a worker takes them. Recorded
// results can be collected until their retention is over. Cancel can be repeated. If the batch is finished it changes
// nothing; finished reports that. The error is job.ErrNoBatch for an unknown batch.
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
