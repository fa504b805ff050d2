package enqueue

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/job"
)

// Purge deletes a finished or cancelled batch with its results, also while Redis has no memory left. Rows of a cancelled batch
// that wait in the queue stay there until a worker drops them. The error is job.ErrNoBatch or job.ErrUnfinished if the batch is
// not there or has not ended.
func Purge(ctx context.Context, rdb redis.UniversalClient, batch string) error {
	return job.NewStore(rdb).Purge(ctx, batch)
}
