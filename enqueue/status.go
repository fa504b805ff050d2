package enqueue

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/job"
)

// Status reads the progress of a batch. The error is job.ErrNoBatch for an unknown batch.
func Status(ctx context.Context, rdb redis.UniversalClient, batch string) (job.Status, error) {
	return job.NewStore(rdb).Status(ctx, batch)
}

// watchInterval is the time between two reads of the status of a batch that is watched.
const watchInterval = time.Second

// Watch passes the progress of a batch to show, at once and then every second, until the batch has ended or ctx is done.
func Watch(ctx context.Context, rdb redis.UniversalClient, batch string, show func(job.Status)) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		var s job.Status
		err := job.Retry(ctx, maxWait, func() (err error) {
			s, err = Status(ctx, rdb, batch)
			return err
		})
		if err != nil {
			return err
		}
		show(s)
		if s.Ended() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
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
