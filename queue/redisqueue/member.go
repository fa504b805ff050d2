package redisqueue

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// member registers this worker with Redis, sends its heartbeats and keeps a list of its deliveries. It holds a delivery from the time when
// the worker takes it from Redis until the handler has returned.
type member struct {
	queue   *Queue
	options queue.ServeOptions
	started time.Time
	log     *slog.Logger
	outage  *outage

	mu    sync.Mutex
	id    string
	helds map[*held]struct{} // the deliveries that the worker holds
	debts []debt             // failed writes that must be repeated
}

// debt is a failed write that would have ended this worker's ownership of a row. It is repeated with each heartbeat until it succeeds.
type debt func(ctx context.Context) error

// held is a delivery that a member holds. The member becomes the delivery's owner in Begin, or with the next heartbeat if Begin has not been
// called by then.
type held struct {
	delivery
	queue    string
	task     string // asynq's id of the task
	message  string // asynq's message
	job      *queue.Job
	unread   error // why the task has no valid job; job is then nil
	member   *member
	feed     *feed           // the feed that took the task
	ctx      context.Context // ends when the delivery ends
	end      context.CancelFunc
	recorded atomic.Bool // Record has removed the task from its queue
	since    time.Time   // when the handler was called
	ending   bool        // the handler has a result; guarded by the feed's mutex

	// The member's mutex guards these fields.
	taken time.Time // when the member took the task
	owner string    // worker id under which the member owns, or may own, the delivery; empty if it does not
	lost  bool      // the member was declared lost
	lease time.Time // the end of asynq's lease
}

// heldKey is the key of the *held in a handler's context.
type heldKey struct{}

// heldIn returns the delivery of a row whose handler has the given context. It returns nil for any other context.
func heldIn(ctx context.Context, batch string, line, number int) *held {
	if h, ok := ctx.Value(heldKey{}).(*held); ok && h.delivery == (delivery{batch, line, number}) {
		return h
	}
	return nil
}

// key is the key of the task.
func (h *held) key() string { return taskPrefix(h.queue) + h.task }

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

// join registers a worker with its first heartbeat. The worker must not own rows before: a reaper would take them, since their owner has no
// heartbeat.
func (q *Queue) join(ctx context.Context, o queue.ServeOptions) (*member, error) {
	m := &member{queue: q, options: o, started: time.Now().UTC(), log: o.Logger, outage: &outage{log: o.Logger}, id: newWorkerID(), helds: map[*held]struct{}{}}
	_, err := q.beat(ctx, m.record())
	return m, err
}

// record returns the worker's record.
func (m *member) record() queue.Worker {
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

// run sends heartbeats until ctx is done.
func (m *member) run(ctx context.Context) {
	every(ctx, m.queue.Leases.Beat, func() {
		alive, err := m.queue.beat(ctx, m.record())
		switch {
		case err != nil && ctx.Err() == nil:
			m.outage.failed("could not send a heartbeat", err)
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

// pay makes the write d. If the write fails, pay adds it to m.debts, and settle repeats it.
func (m *member) pay(ctx context.Context, d debt) {
	if err := d(ctx); err != nil {
		m.outage.failed("could not end a delivery", err)
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

// lost ends all deliveries that the member holds, since their rows have gone to other workers. The member then continues under a new
// worker id.
func (m *member) lost(ctx context.Context) {
	m.mu.Lock()
	m.log.Warn("this worker sent no heartbeats for too long: its rows have gone to other workers", "rows", len(m.helds))
	for h := range m.helds {
		h.lost = true
		h.end()
	}
	clear(m.helds)
	m.id = newWorkerID()
	m.mu.Unlock()
	if _, err := m.queue.beat(ctx, m.record()); err != nil {
		m.outage.failed("could not send a heartbeat under a new id", err)
	}
}

// hold adds a delivery to those that the member holds. The delivery's context ends when the member is lost or asynq's lease is over.
func (m *member) hold(ctx context.Context, queue, task string, lease time.Time) *held {
	h := &held{queue: queue, task: task, member: m, taken: time.Now(), lease: lease}
	h.delivery, _ = parseDelivery(task) // an error means that the task is not a row's; its handler reports that
	ctx, h.end = context.WithCancel(ctx)
	h.ctx = context.WithValue(ctx, heldKey{}, h)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.helds[h] = struct{}{}
	return h
}

// release removes a delivery from those that the member holds. outcome is the error of its handler, or nil.
func (m *member) release(ctx context.Context, h *held, outcome error) {
	h.end()
	m.mu.Lock()
	delete(m.helds, h)
	lost, owner := h.lost, h.owner
	m.mu.Unlock()
	switch {
	case lost && owner != "":
		m.pay(ctx, func(ctx context.Context) error { return m.queue.survived(ctx, h.delivery) })
	case outcome != nil && owner != "":
		m.pay(ctx, func(ctx context.Context) error { return m.queue.disown(ctx, h.queue, h.delivery, owner) })
	}
}

// ownWaiting makes the member the owner of its deliveries for which Begin was not called yet, so that reapers do not take their rows. It leaves
// out deliveries that were taken since the last heartbeat: most of them begin before the next one.
func (m *member) ownWaiting(ctx context.Context) {
	m.mu.Lock()
	var waiting []*held
	for h := range m.helds {
		if h.owner == "" && time.Since(h.taken) >= m.queue.Leases.Beat {
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
			m.outage.failed("a row that waits in this worker has no owner yet", err)
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
