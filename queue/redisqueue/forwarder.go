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

// forwarder returns rows to their queues when their retry is due.
type forwarder struct {
	loop
	queue  *Queue
	queues []string
	outage *outage
}

func newForwarder(q *Queue, alias string, o *outage) *forwarder {
	f := &forwarder{queue: q, queues: queuesOf(alias), outage: o}
	f.loop = loop{interval: forwardInterval, do: f.forward}
	return f
}

func (f *forwarder) forward(ctx context.Context) {
	c := with(forwardScript, "max", maxForwarded).rows(len(f.queues), "queue")
	for _, queue := range f.queues {
		c.add(queue)
	}
	if err := f.queue.run(ctx, c).Err(); err != nil && ctx.Err() == nil {
		f.outage.failed("could not look for rows whose retry is due", failure(err, "run forward.lua"))
	}
}
