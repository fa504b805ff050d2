package redisqueue

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/queue"
)

// subscribeInterval is the time between two attempts to subscribe to the channels of a member.
const subscribeInterval = 5 * time.Second

// The failures that outage logs for operations of members.
const (
	noHeartbeat = "could not send a heartbeat"
	noEnd       = "could not end a delivery"
)

// member registers this worker with Redis, sends its heartbeats, and keeps a list of its
// deliveries.
type member struct {
	queue   *Queue
	options queue.ServeOptions
	started time.Time
	outage  *outage
	beats   loop
	channel loop
	arrived func() // called when a producer has added an Interactive job, or may have added one

	mu    sync.Mutex
	id    string             // identifies the worker until it stops or is declared lost
	held  map[*delivery]bool // deliveries that the member has, and has not lost
	debts []debt             // failed writes that must be repeated
}

// debt is a failed write that would have ended a delivery. It is repeated with each heartbeat until
// it succeeds.
type debt func(ctx context.Context) error

func newMember(q *Queue, o queue.ServeOptions) *member {
	m := &member{
		queue: q, options: o, started: time.Now().UTC(), outage: &outage{log: o.Logger},
		arrived: func() {}, id: ulid.Make().String(), held: map[*delivery]bool{},
	}
	m.beats = loop{interval: q.Leases.Beat, do: m.beat}
	m.channel = loop{interval: subscribeInterval, do: m.listen}
	return m
}

// join sends the first heartbeat. The worker must not own rows before: a reaper would take them,
// since their owner has no heartbeat.
func (m *member) join(ctx context.Context) error {
	_, _, err := m.sendBeat(ctx)
	return err
}

func (m *member) start(ctx context.Context) {
	m.beats.start(ctx)
	m.channel.start(ctx)
}

// shutdown makes the failed writes again and removes the worker's record.
func (m *member) shutdown(ctx context.Context) error {
	m.beats.shutdown()
	m.channel.shutdown()
	m.settle(ctx)
	return failure(m.queue.run(ctx, with(leaveScript, "worker", m.worker())).Err(), "remove the record of this worker")
}

// worker returns the worker's present id.
func (m *member) worker() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id
}

// beat sends a heartbeat.
func (m *member) beat(ctx context.Context) {
	alive, gone, err := m.sendBeat(ctx)
	if err != nil {
		if ctx.Err() == nil {
			m.outage.failed(noHeartbeat, err)
		}
		return
	}
	if alive {
		m.outage.worked(noHeartbeat)
	} else {
		m.startAnew(ctx) // the refused heartbeat has written nothing
	}
	for _, d := range gone {
		d.end(queue.ErrSuperseded)
	}
	m.settle(ctx)
}

// sendBeat writes the worker's record, and makes the worker the owner of rows that it has taken but
// not begun, so that reapers do not take them. It leaves out rows that were taken since the last
// heartbeat: most of them begin before the next one. alive is false if the worker was declared
// lost. gone has rows that other workers have by now.
func (m *member) sendBeat(ctx context.Context) (alive bool, gone []*delivery, err error) {
	m.mu.Lock()
	id, n := m.id, len(m.held)
	var rows []*delivery
	for d := range m.held {
		if !d.owned && d.job != nil && time.Since(d.taken) >= m.queue.Leases.Beat {
			rows = append(rows, d)
		}
	}
	m.mu.Unlock()
	record, err := json.Marshal(m.options.Record(id, m.started, n))
	if err != nil {
		return false, nil, failure(err, "encode the record of worker %s", id)
	}
	c := with(beatScript, "worker", id, "record", record).rows(len(rows), "queue", "id", "batch", "line", "delivery")
	for _, d := range rows {
		c.add(d.queue, d.id, d.job.Batch, d.job.Line, d.number)
	}
	numbers, err := m.queue.run(ctx, c).Int64Slice()
	if isNil(err) { // the script has returned false
		return false, nil, nil
	}
	if err != nil {
		return false, nil, failure(err, "write the record of worker %s", id)
	}
	for _, d := range rows {
		m.own(d)
	}
	for _, n := range numbers {
		gone = append(gone, rows[n-1])
	}
	return true, gone, nil
}

// own notes that the member is the owner of a row and returns the worker id to write to Redis. ok
// is false if the member was declared lost.
func (m *member) own(d *delivery) (worker string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.held[d] {
		return "", false
	}
	d.owned = true
	return m.id, true
}

// pay makes the write d. If the write fails, pay adds it to m.debts, and settle repeats it.
func (m *member) pay(ctx context.Context, d debt) {
	if err := d(ctx); err != nil {
		m.outage.failed(noEnd, err)
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
	m.mu.Lock()
	settled := len(debts) > 0 && len(m.debts) == 0
	m.mu.Unlock()
	if settled {
		m.outage.worked(noEnd)
	}
}

// startAnew ends all deliveries of a member that was declared lost, since their rows have gone to
// other workers. The member then continues under a new worker id.
func (m *member) startAnew(ctx context.Context) {
	m.mu.Lock()
	m.options.Logger.Warn("this worker sent no heartbeats for too long: its rows have gone to other workers", "rows", len(m.held))
	for d := range m.held {
		d.end(queue.ErrSuperseded)
	}
	clear(m.held)
	m.id = ulid.Make().String()
	m.mu.Unlock()
	if err := m.join(ctx); err != nil {
		m.outage.failed(noHeartbeat, err)
		return
	}
	m.outage.worked(noHeartbeat)
}

// hold adds a delivery to those that the member holds. Its context ends when the member is declared
// lost or the row is cancelled.
func (m *member) hold(ctx context.Context, d *delivery) {
	d.ctx, d.end = context.WithCancelCause(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held[d], d.taken = true, time.Now()
}

// release ends a delivery's context and removes the delivery from those that the member holds. If
// the member was declared lost while it ran the row, it subtracts the death that was counted,
// because it was only suspended.
func (m *member) release(ctx context.Context, d *delivery) {
	d.end(nil)
	m.mu.Lock()
	held := m.held[d]
	delete(m.held, d)
	m.mu.Unlock()
	if !held && d.begun {
		m.pay(ctx, func(ctx context.Context) error {
			err := m.queue.run(ctx, with(surviveScript, "batch", d.job.Batch, "line", d.job.Line)).Err()
			return failure(err, "subtract a death from line %d of batch %s", d.job.Line, d.job.Batch)
		})
	}
}

// listen receives messages until ctx is done. It ends the deliveries that asynq's tools or Cancel
// have cancelled.
func (m *member) listen(ctx context.Context) {
	arrivals := arrivalChannel(m.options.Alias)
	onReady := func() { m.arrived() }                              // jobs may have arrived before the subscription
	m.queue.subscribe(ctx, onReady, func(message *redis.Message) { //nolint:errcheck // the loop subscribes again
		if message.Channel == arrivals {
			m.arrived()
		} else {
			m.cancel(message.Payload)
		}
	}, cancelChannel, arrivals)
}

// cancel ends the delivery of the task with this id, if the member holds it.
func (m *member) cancel(task string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for d := range m.held {
		if rowID(d.id) == rowID(task) {
			d.end(queue.ErrCancelled)
		}
	}
}

// arrivalChannel is the channel on which the arrival of Interactive jobs of a model alias is
// announced.
func arrivalChannel(alias string) string { return eventChannel("queue:" + alias) }

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
