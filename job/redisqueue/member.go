package redisqueue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ingot-run/ingot/job"
)

// member is this worker's membership in the fleet: its id, its beats and the deliveries that it holds.
type member struct {
	queue   *Queue
	options job.ServeOptions
	started time.Time
	log     *slog.Logger
	outage  *outage

	mu    sync.Mutex
	id    string
	helds map[*held]struct{} // the deliveries that the worker holds
	debts []debt             // failed writes that must be repeated
}

// debt is a failed write that would have ended this worker's ownership of a row. It is repeated with each beat until it succeeds.
type debt func(ctx context.Context) error

// held is a delivery that a member holds. The member becomes its owner in Begin, or in a beat if the delivery still waits for Begin.
type held struct {
	task
	member   *member
	end      context.CancelFunc
	recorded func() // called when Record has removed the task from its queue

	// The member's mutex guards these fields.
	owner string // worker id under which the member owns, or may own, the delivery; empty if it does not
	lost  bool   // the member was declared lost
}

// heldKey is the key of a held delivery in its handler's context.
type heldKey struct{}

// heldIn returns the delivery of a row whose handler has the given context. It returns nil for any other context.
func heldIn(ctx context.Context, batch string, line, number int) *held {
	if h, ok := ctx.Value(heldKey{}).(*held); ok && h.delivery == (delivery{batch, line, number}) {
		return h
	}
	return nil
}

// newOwner makes the member the owner of the delivery and returns the worker id to write to Redis. ok is false if the delivery has ended
// because the member was declared lost.
func (h *held) newOwner() (worker string, ok bool) {
	h.member.mu.Lock()
	defer h.member.mu.Unlock()
	if h.lost {
		return "", false
	}
	h.owner = h.member.id
	return h.owner, true
}

// join registers a worker with its first beat. A worker must not own rows before.
func (q *Queue) join(ctx context.Context, o job.ServeOptions) (*member, error) {
	m := &member{queue: q, options: o, started: time.Now().UTC(), log: o.Logger, outage: &outage{log: o.Logger}, id: newWorkerID(), helds: map[*held]struct{}{}}
	_, err := q.beat(ctx, m.record())
	return m, err
}

// record returns the worker's record.
func (m *member) record() job.Worker {
	m.mu.Lock()
	id, rows := m.id, len(m.helds)
	m.mu.Unlock()
	return m.options.Record(id, m.started, rows)
}

// worker returns the worker's present id.
func (m *member) worker() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id
}

// run sends beats until ctx is done.
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
			m.ownWaiting(ctx)
		}
	})
}

// pay tries a write. If it fails, settle repeats it.
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

// lost ends all held deliveries, since other workers have their rows. The worker then continues under a new id.
func (m *member) lost(ctx context.Context) {
	m.mu.Lock()
	m.log.Warn("this worker was silent for too long: its rows have gone to others", "rows", len(m.helds))
	for h := range m.helds {
		h.lost = true
		h.end()
	}
	clear(m.helds)
	m.id = newWorkerID()
	m.mu.Unlock()
	if _, err := m.queue.beat(ctx, m.record()); err != nil {
		m.outage.failed("could not register this worker", err)
	}
}

// hold adds a delivery to the held ones. The caller must call release with the handler's error. The context owned is for the handler; it
// ends when the member is declared lost.
func (m *member) hold(ctx context.Context, t task, recorded func()) (owned context.Context, release func(outcome error)) {
	owned, end := context.WithCancel(ctx)
	h := &held{task: t, member: m, end: end, recorded: recorded}
	m.mu.Lock()
	m.helds[h] = struct{}{}
	m.mu.Unlock()
	return context.WithValue(owned, heldKey{}, h), func(outcome error) {
		end()
		m.mu.Lock()
		delete(m.helds, h)
		lost, owner := h.lost, h.owner
		m.mu.Unlock()
		ctx := context.WithoutCancel(ctx)
		switch {
		case lost && owner != "":
			m.pay(ctx, func(ctx context.Context) error { return m.queue.survived(ctx, t.delivery) })
		case outcome != nil && owner != "":
			m.pay(ctx, func(ctx context.Context) error { return m.queue.disown(ctx, t.queue, t.delivery, owner) })
		}
	}
}

// ownWaiting makes the member the owner of deliveries that still wait for Begin, so that other workers do not take them.
func (m *member) ownWaiting(ctx context.Context) {
	m.mu.Lock()
	var waiting []*held
	for h := range m.helds {
		if h.owner == "" {
			waiting = append(waiting, h)
		}
	}
	m.mu.Unlock()
	for _, h := range waiting {
		worker, ok := h.newOwner()
		if !ok {
			continue
		}
		owned, err := m.queue.own(ctx, h.queue, h.delivery, worker)
		switch {
		case err != nil:
			m.outage.failed("could not own a row", err)
		case !owned:
			h.end()
		}
	}
}

// leave removes the record of a worker that has stopped.
func (m *member) leave(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queue.leave(ctx, m.id)
}
