package memqueue

import (
	"context"
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/queue"
)

// Recorded implements queue.Store.
func (q *Queue) Recorded(_ context.Context, id string) (queue.Lines, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.find(id)
	if err != nil {
		return nil, nil
	}
	return slices.Clone(b.recorded), nil
}

// delivery implements queue.Recorder. A worker dies only together with this queue, so no delivery
// is superseded, and a checkpoint is used only after the row was handed back or its attempt failed.
type delivery struct {
	queue *Queue
	job   *queue.Job
}

// begin counts an attempt at a row.
func (d delivery) begin(pin string) (attempt int, checkpoint []byte, err error) {
	d.queue.mu.Lock()
	defer d.queue.mu.Unlock()
	j := d.job
	b, err := d.queue.open(j.Batch, j.File, j.Line)
	if err != nil {
		return 0, nil, err
	}
	if b.recorded.Has(j.Line) {
		return 0, nil, queue.ErrRecorded
	}
	if err := b.takes(b.aliasOf(j.Alias), pin); err != nil {
		return 0, nil, err
	}
	if b.status.Started == nil {
		b.status.Started = new(now())
	}
	b.attempts[j.Line]++
	return b.attempts[j.Line], b.checkpoints[j.Line], nil
}

// Save implements queue.Recorder.
func (d delivery) Save(_ context.Context, checkpoint []byte) error {
	d.queue.mu.Lock()
	defer d.queue.mu.Unlock()
	b, err := d.queue.open(d.job.Batch, "", d.job.Line)
	if err != nil {
		return err
	}
	if !b.recorded.Has(d.job.Line) {
		b.checkpoints[d.job.Line] = checkpoint
	}
	return nil
}

// Record implements queue.Recorder.
func (d delivery) Record(ctx context.Context, r queue.Result) (first bool, err error) {
	return d.queue.Record(ctx, d.job.Batch, r)
}

// Record implements queue.Store.
func (q *Queue) Record(_ context.Context, id string, r queue.Result) (first bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.record(id, r)
}

// record records a result. The caller holds the mutex.
func (q *Queue) record(id string, r queue.Result) (first bool, err error) {
	b, err := q.open(id, r.File, r.Line)
	if err != nil {
		return false, fmt.Errorf("record line %d of batch %s: %w", r.Line, id, err)
	}
	if b.recorded.Has(r.Line) {
		return false, nil
	}
	alias := b.aliasOf(r.Alias)
	if err := b.takes(alias, r.Pin); err != nil {
		return false, fmt.Errorf("record line %d of batch %s: %w", r.Line, id, err)
	}
	if r.Pin != "" && queue.PinsAgree(b.pins[alias], r.Pin) {
		b.pins[alias] = r.Pin
	}
	b.recorded.Add(r.Line)
	delete(b.attempts, r.Line)
	delete(b.checkpoints, r.Line)
	b.last = now()
	b.status.Count(r)
	b.append(r)
	b.finish()
	return true, nil
}

// Expire implements queue.Queue.
func (q *Queue) Expire(_ context.Context, id string) (n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.find(id)
	if err != nil || !b.current().Overdue() {
		return 0, nil
	}
	for _, name := range b.current().Aliases() {
		a := q.alias(name)
		for _, t := range a.tasks {
			if t.job.Batch != id || !t.job.Overdue() {
				continue
			}
			r, err := queue.Expired(t.job)
			if err != nil {
				return n, fmt.Errorf("end the overdue rows of batch %s: %w", id, err)
			}
			first, err := q.record(id, r)
			if err != nil {
				return n, err
			}
			if first {
				n++
			}
			if !t.running {
				a.remove(t)
			}
		}
	}
	return n, nil
}
