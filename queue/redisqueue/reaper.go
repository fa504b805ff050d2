package redisqueue

import (
	"context"
	"log/slog"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// reaper watches the other workers. It returns the rows of silent workers to the queue.
type reaper struct {
	queue  *Queue
	self   *member
	queues []string // queues of the alias
	watch  watch
	log    *slog.Logger
}

func newReaper(q *Queue, self *member, alias string, log *slog.Logger) *reaper {
	r := &reaper{queue: q, self: self, watch: watch{Leases: q.Leases}, log: log}
	for _, p := range queue.AllPriorities() {
		r.queues = append(r.queues, queueName(alias, p))
	}
	return r
}

// run checks the other workers at intervals until ctx is done.
func (r *reaper) run(ctx context.Context) {
	every(ctx, r.queue.Leases.Beat, func() {
		if err := r.look(ctx); err != nil && ctx.Err() == nil {
			r.self.outage.failed("could not look for silent workers", err)
		}
	})
}

// every calls a function at once and then at intervals, until ctx is done.
func every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look declares silent workers lost, and hands over the running rows whose owners are not alive.
func (r *reaper) look(ctx context.Context) error {
	beats, err := r.queue.beats(ctx)
	if err != nil {
		return err
	}
	found := false
	for _, id := range r.watch.look(time.Now(), beats) {
		if id == r.self.worker() {
			continue // this worker itself is not silent
		}
		lost, err := r.queue.lose(ctx, id, beats[id])
		if err != nil {
			return err
		}
		if lost {
			r.log.Warn("a worker has sent no heartbeats: its rows go to other workers", "worker", id, "for", r.watch.Silence)
			found = true
		}
	}
	interval := r.watch.Beat * 3 / 4 // per interval, only the first worker inspects a queue
	if found {
		interval = 0
	}
	all, err := r.queue.inspect(ctx, r.queues, interval)
	if err != nil || len(all) == 0 {
		return err
	}
	// A worker sends its first heartbeat before it owns a row. The heartbeats are read after the owners, so every live owner has one.
	if beats, err = r.queue.beats(ctx); err != nil {
		return err
	}
	for queue, running := range all {
		if err := r.handOverFrom(ctx, queue, running, beats); err != nil {
			return err
		}
	}
	return nil
}

// handOverFrom hands over the rows of a queue whose owners have no heartbeat.
func (r *reaper) handOverFrom(ctx context.Context, queue string, running []ownedTask, beats map[string]string) error {
	moved := 0
	for _, t := range running { // last taken first, so that the row that was taken first ends up at the head
		_, alive := beats[t.owner]
		if alive || t.owner == "" && t.orphaned < r.watch.Silence {
			continue
		}
		ok, err := r.queue.handOver(ctx, queue, t.delivery, t.owner)
		if err != nil {
			return err
		}
		if ok {
			moved++
			r.log.Debug("returned a row of a lost worker to its queue", "batch", t.batch, "line", t.line, "owner", t.owner)
		}
	}
	if moved > 0 {
		r.log.Warn("returned the rows of lost workers to the head of their queue", "queue", queue, "rows", moved)
	}
	return nil
}
