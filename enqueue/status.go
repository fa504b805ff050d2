package enqueue

import (
	"context"
	"fmt"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/job"
)

// Status reads the progress of a batch. The error is job.ErrNoBatch for an unknown batch.
func Status(ctx context.Context, rdb redis.UniversalClient, batch string) (job.Status, error) {
	return job.NewStore(rdb).Status(ctx, batch)
}

// Lost is the number of rows of a batch that are neither recorded nor queued, while its queue is empty; see job.Store.Lost.
func Lost(ctx context.Context, rdb redis.UniversalClient, s job.Status) (int, error) {
	return job.NewStore(rdb).Lost(ctx, s)
}

// Batches reads the progress of all batches, the newest first.
func Batches(ctx context.Context, rdb redis.UniversalClient) ([]job.Status, error) {
	return job.NewStore(rdb).Batches(ctx)
}

// Workers is the number of workers that serve a model alias. A worker that died is counted for some more seconds.
func Workers(rdb redis.UniversalClient, alias string) (int, error) {
	servers, err := asynq.NewInspectorFromRedisClient(rdb).Servers()
	if err != nil {
		return 0, fmt.Errorf("list workers: %w", err)
	}
	n := 0
	for _, s := range servers {
		if _, ok := s.Queues[job.Queue(alias, job.Default)]; ok {
			n++
		}
	}
	return n, nil
}
