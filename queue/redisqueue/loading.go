package redisqueue

import (
	"context"
	"log/slog"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// leaveTime is the time limit for removing the record of a worker that has loaded its model.
const leaveTime = 2 * time.Second

// ListLoading lists a worker that loads its model among the workers, until stop is called. w has
// Loading set, and takes no rows. Failures of announcing are logged and change nothing else.
func (q *Queue) ListLoading(ctx context.Context, w queue.Worker, log *slog.Logger) (stop func()) {
	m := newMember(q, queue.ServeOptions{Describe: func() queue.Worker { return w }, Logger: log})
	m.beats.start(ctx) // the first heartbeat is sent at once
	return func() {
		m.beats.shutdown()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
		defer cancel()
		if err := q.run(ctx, with(leaveScript, "worker", m.worker())).Err(); err != nil {
			log.Warn("could not remove the record of a worker that loads its model", "error", err)
		}
	}
}
