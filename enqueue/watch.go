package enqueue

import (
	"context"
	"time"

	"github.com/ingot-run/ingot/job"
)

// watchInterval is the time between two reads of the status of a batch that is watched.
const watchInterval = time.Second

// Watch passes the progress of a batch to show, at once and then every second, until the batch has ended or ctx is done.
func Watch(ctx context.Context, store job.Store, batch string, show func(job.Status)) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		var s job.Status
		err := job.Retry(ctx, maxWait, func() (err error) {
			s, err = store.Status(ctx, batch)
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
