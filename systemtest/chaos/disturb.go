package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// disturb begins each event at its time. storm is a context that ends when the time for
// disturbances is over: disturb then ends the events that are still active, and returns.
func (r *run) disturb(ctx, storm context.Context, events []event) {
	var lasting sync.WaitGroup
	defer lasting.Wait()
	start := time.Now()
	for _, e := range events {
		if rest(storm, time.Until(start.Add(e.at))); storm.Err() != nil {
			break
		}
		undo, text := r.strike(ctx, e)
		if undo == nil {
			r.journal.note("%s", text)
			continue
		}
		r.journal.note("%s for %v", text, e.lasts.Round(time.Second/10))
		lasting.Go(func() {
			rest(storm, e.lasts)
			undo()
		})
	}
	<-storm.Done()
	lasting.Wait()
	r.journal.note("the disturbances have ended")
}

// strike begins an event. undo ends the event; it is nil if the event needs no end or could not
// begin. text describes the event for the journal.
func (r *run) strike(ctx context.Context, e event) (undo func(), text string) {
	worker := r.workers[e.target%len(r.workers)]
	client := e.target % len(r.proxies)
	p, name := r.proxies[client], "commands"
	if client < len(r.workers) {
		name = r.workers[client].name
	}
	switch e.kind {
	case killWorker:
		return nil, killed(worker, e.lasts)
	case drainWorker:
		if !worker.drain(ctx, e.lasts) {
			return nil, fmt.Sprintf("%s is not running: not drained", worker.name)
		}
		return nil, fmt.Sprintf("%s: SIGTERM, down for %v", worker.name, e.lasts.Round(time.Second/10))
	case stopWorker:
		return stopped(worker)
	case killRedis:
		return nil, killed(r.redis, e.lasts)
	case stopRedis:
		return stopped(r.redis)
	case killCommand:
		if c := r.commands.pick(e.target); c != nil {
			return nil, killed(c, e.lasts)
		}
		return nil, "no command is running: none killed"
	case dropClient:
		return nil, fmt.Sprintf("%s: %d connections reset", name, p.drop())
	case refuse:
		return p.refuse(), name + ": connections are refused"
	case stall:
		return p.stall(), name + ": connections are stalled"
	case loseReplies:
		return p.loseReplies(), name + ": replies are lost"
	}
	panic("unknown kind of event: " + e.kind)
}

func killed(p *process, down time.Duration) string {
	if !p.kill(down) {
		return p.name + " is not running: not killed"
	}
	return fmt.Sprintf("%s: SIGKILL, down for %v", p.name, down.Round(time.Second/10))
}

func stopped(p *process) (undo func(), text string) {
	undo, ok := p.stop()
	if !ok {
		return nil, p.name + " is not running or is ending: not stopped"
	}
	return undo, p.name + ": SIGSTOP"
}

type commands struct {
	mu  sync.Mutex
	now []*process
}

func (c *commands) run(ctx context.Context, p *process) error {
	p.once = true
	c.mu.Lock()
	c.now = append(c.now, p)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now = slices.DeleteFunc(c.now, func(other *process) bool { return other == p })
	}()
	return p.run(ctx)
}

// pick returns one of the running commands, or nil if none is running. n is an index, modulo their
// number.
func (c *commands) pick(n int) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.now) == 0 {
		return nil
	}
	return c.now[n%len(c.now)]
}
