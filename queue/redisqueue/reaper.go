package redisqueue

import (
	"context"
	"log/slog"
	"time"
)

// What happens to the rows of a worker that dies: every worker sends heartbeats (member.go), and
// its reaper watches those of the others. Servers and programs that wait for results have reapers
// too (WatchWorkers), since the last worker can die. A worker is silent if its heartbeat has not
// changed for Leases.Silence. The first reaper that notices declares the worker lost (lose.lua).
// Then, in one step (reap.lua), the rows that the lost worker owned return to the heads of their
// queues with a higher delivery number, so that the worker, if it was only suspended, cannot change
// them any more. When it wakes, its next heartbeat tells it that it was lost: it ends its
// deliveries and continues under a new id. docs/queue.md tells the whole story of such a row, with
// attempts, checkpoints and rows that kill their workers.

// noReaper is the failure that outage logs for reapers.
const noReaper = "could not look for silent workers"

// reaper watches the other workers. It returns the rows of silent workers to the queue.
type reaper struct {
	queue  *Queue
	self   func() string                               // id of this worker; empty for a program that is none
	queues func(ctx context.Context) ([]string, error) // those whose rows it hands over
	watch  watch
	log    *slog.Logger
}

func newReaper(q *Queue, self *member, alias string, log *slog.Logger) *reaper {
	queues := func(context.Context) ([]string, error) { return queuesOf(alias), nil }
	return &reaper{queue: q, self: self.worker, queues: queues, watch: watch{Leases: q.Leases}, log: log}
}

// WatchWorkers implements queue.Queue.
func (q *Queue) WatchWorkers(ctx context.Context, log *slog.Logger) {
	r := &reaper{queue: q, self: func() string { return "" }, queues: q.queuesOfLost, watch: watch{Leases: q.Leases}, log: log}
	watching := (&outage{log: log}).search(q.Leases.Beat, q.Leases.Beat, noReaper, r.look)
	watching.start(ctx)
	<-ctx.Done()
	watching.shutdown()
}

// queuesOfLost returns the queues of the aliases that lost workers have served.
func (q *Queue) queuesOfLost(ctx context.Context) (queues []string, err error) {
	workers, err := q.Fleet(ctx)
	aliases := map[string]bool{}
	for _, w := range workers {
		for _, alias := range w.Aliases {
			if !w.Live() && !aliases[alias] {
				aliases[alias] = true
				queues = append(queues, queuesOf(alias)...)
			}
		}
	}
	return queues, err
}

// look declares silent workers lost, and hands over the running rows whose owners are not alive.
func (r *reaper) look(ctx context.Context) error {
	beats, err := r.queue.beats(ctx)
	if err != nil {
		return err
	}
	interval := r.watch.Beat * 3 / 4 // per interval, only the first worker inspects a queue
	for _, id := range r.watch.look(time.Now(), beats) {
		if id == r.self() {
			continue // this worker itself is not silent
		}
		lost, err := r.queue.lose(ctx, id, beats[id])
		if err != nil {
			return err
		}
		if lost {
			r.log.Warn("a worker has sent no heartbeats: its rows go to other workers", "worker", r.queue.nameOf(ctx, id), "id", id, "for", r.watch.Silence)
			interval = 0
		}
	}
	return r.handOver(ctx, interval)
}

// handOver hands over the rows without a live worker. It leaves out queues that a worker has
// inspected within the interval.
func (r *reaper) handOver(ctx context.Context, interval time.Duration) error {
	queues, err := r.queues(ctx)
	if err != nil || len(queues) == 0 {
		return err
	}
	c := with(reapScript, "interval", interval.Milliseconds(), "silence", r.watch.Silence.Milliseconds()).queues(queues)
	list, err := r.queue.run(ctx, c).Slice()
	for i := 0; i+1 < len(list); i += 2 {
		if n, _ := list[i+1].(int64); n > 0 {
			r.log.Warn("returned the rows of lost workers to the head of their queue", "queue", list[i], "rows", n)
		}
	}
	return failure(err, "return the rows of lost workers")
}
