package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// delivery is the way of a task through this worker, from the time when the worker takes it until
// its handler has returned. It implements queue.Recorder for the handler. One goroutine at a time
// uses a delivery: that of the feed, and then that of a handler.
type delivery struct {
	// The task as take.lua has returned it. These fields do not change.
	//
	// number is the fencing number of the delivery: how often the row was taken from silent workers
	// before. Scripts refuse all writes of a delivery whose number is not the row's present one.
	queue   string // name of its queue
	id      string
	message string // asynq's message
	number  int
	worker  string     // id under which this worker took it
	job     *queue.Job // nil if the task has no valid job
	notAJob error      // why it has none

	feed     *feed
	ctx      context.Context // ends when the delivery ends
	end      context.CancelCauseFunc
	value    queue.Delivery // what the handler gets
	release  func()         // ends the reservation of Admit; nil if the row is not admitted
	begun    bool           // the attempt is counted
	err      error          // why the row was not begun: a refusal of the script, or an error after which its handler tries again
	recorded atomic.Bool    // the row is recorded, and has left its queue

	// The feed's mutex guards these fields.
	since  time.Time // when the handler was called
	ending bool      // the handler has a result

	// The member's mutex guards these fields.
	taken time.Time
	owned bool // heartbeats need not make the member the row's owner: it is, or a call of begin.lua makes it
}

// errNoJob is the error of a task that is not a job.
var errNoJob = errors.New("not a job of ingot")

// hold makes a delivery from an item of the reply of take.lua.
func (s *server) hold(f *feed, item any) *delivery {
	fields, _ := item.([]any)
	fields = append(fields, make([]any, 5)...) // zero values for fields that are missing
	d := &delivery{feed: f}
	d.queue, _ = fields[0].(string)
	d.id, _ = fields[1].(string)
	d.message, _ = fields[2].(string)
	number, _ := fields[3].(int64)
	deaths, _ := fields[4].(int64)
	d.number, d.worker = int(number), s.member.worker()
	d.job, d.notAJob = jobOf(d.id, d.message)
	d.value = queue.Delivery{Job: d.job, Deaths: int(deaths), Recorder: d}
	s.member.hold(s.deliveries, d)
	return d
}

func jobOf(id, message string) (j *queue.Job, err error) {
	m, err := parse(message)
	if err == nil && m.payload == nil {
		err = errors.New("asynq's message has no payload")
	}
	if err == nil {
		j, err = queue.Decode(m.payload)
	}
	if err == nil && rowID(id) != queue.TaskID(j.Batch, j.Line) {
		err = fmt.Errorf("the task's id does not name line %d of batch %s", j.Line, j.Batch)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoJob, err)
	}
	return j, nil
}

// admit reserves what a row needs. It reports whether the row is admitted; unless wait is set, a
// row that has to wait is not.
func (s *server) admit(d *delivery, wait bool) bool {
	release, ok := s.options.Admit(d.ctx, &d.value, wait)
	if ok {
		d.release = release
	}
	return ok
}

// unadmit ends the reservation of admit.
func (d *delivery) unadmit() {
	if d.release != nil {
		d.release()
		d.release = nil
	}
}

// begin returns the call of begin.lua for admitted rows. It counts an attempt at each row, and
// makes the member the row's owner.
func (s *server) begin(rows []*delivery) *call {
	c := with(beginScript, "now", now()).rows(len(rows), "batch", "line", "file", "delivery", "alias", "pin", "task", "worker")
	var sent []*delivery
	for _, d := range rows {
		worker, ok := s.member.own(d)
		if !ok {
			d.notBegun(queue.ErrSuperseded)
			continue
		}
		sent = append(sent, d)
		c.add(d.job.Batch, d.job.Line, d.job.File, d.number, d.job.Alias, s.options.Pin(), taskKey(d.queue, d.id), worker)
	}
	c.read = func(list []any, err error) {
		for i, d := range sent {
			reply, err := rowReply(list, i, err)
			if err == nil {
				err = d.setAttempt(reply)
			}
			if err != nil && !isRefusal(err) {
				err = failure(err, "begin line %d of batch %s", d.job.Line, d.job.Batch)
			}
			if d.begun = err == nil; !d.begun {
				d.notBegun(err)
			}
		}
	}
	return c
}

// notBegun notes why a row was not begun.
func (d *delivery) notBegun(err error) {
	d.err = err
	d.unadmit()
}

// setAttempt reads the reply of begin.lua for a row.
func (d *delivery) setAttempt(reply any) error {
	fields, _ := reply.([]any)
	if len(fields) == 0 {
		return fmt.Errorf("the reply of redis is not an attempt: %v", reply)
	}
	n, _ := fields[0].(int64)
	if n <= 0 {
		return refusalOf(n)
	}
	d.value.Attempt = int(n)
	if len(fields) > 1 {
		text, _ := fields[1].(string)
		d.value.Checkpoint = []byte(text)
	}
	return nil
}

// Save implements queue.Recorder.
func (d *delivery) Save(ctx context.Context, checkpoint []byte) error {
	c := with(checkpointScript).rows(1, "batch", "line", "delivery", "checkpoint")
	c.add(d.job.Batch, d.job.Line, d.number, checkpoint)
	list, err := d.feed.server.queue.run(ctx, c).Slice()
	reply, err := rowReply(list, 0, err)
	if n, ok := reply.(int64); ok {
		if err = refusalOf(n); errors.Is(err, queue.ErrRecorded) {
			err = nil
		}
	}
	return failure(err, "store the progress of line %d of batch %s", d.job.Line, d.job.Batch)
}

// Record implements queue.Recorder. Results of several rows are recorded together, unless they are
// large.
func (d *delivery) Record(ctx context.Context, result queue.Result) (first bool, err error) {
	row := d.toRecord(result)
	if row.size() <= maxGroupedResult {
		first, err = d.feed.record(ctx, d, row)
	} else {
		first, err = d.feed.server.queue.recordOne(ctx, row)
	}
	if first {
		d.recorded.Store(true)
	}
	if outage := d.feed.server.member.outage; errors.Is(err, queue.ErrUnavailable) {
		outage.failed(d.notRecorded(), err)
	} else {
		outage.worked(d.notRecorded())
	}
	return first, err
}

// notRecorded returns the failure that outage logs when the task's result cannot be recorded.
func (d *delivery) notRecorded() string { return "could not record the result of task " + d.id }

func (d *delivery) toRecord(r queue.Result) toRecord {
	return toRecord{batch: d.job.Batch, delivery: d.number, queue: d.queue, task: d.id, worker: d.worker, result: r}
}
