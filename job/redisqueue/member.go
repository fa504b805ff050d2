package redisqueue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ingot-run/ingot/job"
)

// member is a worker as a member of the fleet.
type member struct {
	queue   *Queue
	options job.ServeOptions
	started time.Time
	log     *slog.Logger
	outage  *outage

	mu    sync.Mutex
	id    string
	ends  map[*held]struct{} // the deliveries that the worker owns under this id
	debts []debt             // what could not be written when it was due
}

// debt is a write about a row that failed and must be repeated. Until then, the row seems to belong to this worker.
type debt func(ctx context.Context) error

// held is a delivery that a member owns.
type held struct {
	end  context.CancelFunc
	lost bool // the member was declared lost; guarded by its mutex
}

// join registers a worker. A worker must have beaten before it may own rows.
func (q *Queue) join(ctx context.Context, o job.ServeOptions) (*member, error) {
	m := &member{queue: q, options: o, started: time.Now().UTC(), log: o.Logger, outage: &outage{log: o.Logger}, id: newWorkerID(), ends: map[*held]struct{}{}}
	_, err := q.beat(ctx, m.record())
	return m, err
}

// record returns the worker's record.
func (m *member) record() job.Worker {
	m.mu.Lock()
	id, rows := m.id, len(m.ends)
	m.mu.Unlock()
	return m.options.Record(id, m.started, rows)
}

// worker is the worker's present id.
func (m *member) worker() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id
}

// run beats until ctx is done.
func (m *member) run(ctx context.Context) {
	every(ctx, m.queue.Leases.Beat, func() {
		alive, err := m.queue.beat(ctx, m.record())
		switch {
		case err != nil && ctx.Err() == nil:
			m.outage.failed("could not register this worker", err)
		case err == nil && !alive:
			m.lost(ctx)
		}
		if err == nil {
			m.outage.over()
			m.settle(ctx)
		}
	})
}

// pay makes a write, or leaves it for settle if that fails.
func (m *member) pay(ctx context.Context, d debt) {
	if err := d(ctx); err != nil {
		m.outage.failed("could not give up a row", err)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.debts = append(m.debts, d)
	}
}

// settle repeats the writes that failed.
func (m *member) settle(ctx context.Context) {
	m.mu.Lock()
	debts := m.debts
	m.debts = nil
	m.mu.Unlock()
	for _, d := range debts {
		m.pay(ctx, d)
	}
}

// lost ends all deliveries, since other workers have the rows. The worker then continues as a new member.
func (m *member) lost(ctx context.Context) {
	m.mu.Lock()
	m.log.Warn("this worker was silent for too long: its rows have gone to others", "rows", len(m.ends))
	for h := range m.ends {
		h.lost = true
		h.end()
	}
	clear(m.ends)
	m.id = newWorkerID()
	m.mu.Unlock()
	if _, err := m.queue.beat(ctx, m.record()); err != nil {
		m.outage.failed("could not register this worker", err)
	}
}

// own makes the member the owner of a delivery, until release is called with the handler's error. owned ends when the member is lost. The
// error is job.ErrDeliveryEnded if the delivery was already taken from the member.
func (m *member) own(ctx context.Context, queue string, d delivery) (owned context.Context, release func(outcome error), err error) {
	owned, end := context.WithCancel(ctx)
	h := &held{end: end}
	m.mu.Lock()
	id := m.id
	m.ends[h] = struct{}{}
	m.mu.Unlock()
	drop := func() (lost bool) {
		end()
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.ends, h)
		return h.lost
	}
	disown := func(ctx context.Context) error { return m.queue.disown(ctx, queue, d, id) }
	ok, err := m.queue.hold(ctx, queue, d, id)
	if err != nil { // it may own the row nevertheless
		drop()
		m.pay(context.WithoutCancel(ctx), disown)
		return nil, nil, err
	}
	if !ok {
		drop()
		return nil, nil, job.ErrDeliveryEnded
	}
	return owned, func(outcome error) {
		ctx := context.WithoutCancel(ctx)
		switch lost := drop(); {
		case lost:
			m.pay(ctx, func(ctx context.Context) error { return m.queue.survived(ctx, d) })
		case outcome != nil:
			m.pay(ctx, disown)
		}
	}, nil
}

// leave removes the record of a worker that has stopped.
func (m *member) leave(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queue.leave(ctx, m.id)
}
