package memqueue

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// batch is a batch with its results. The queue's mutex guards its fields.
type batch struct {
	queue.Batch
	status   queue.Status      // without Models, State, Running, Expires and rates
	aliases  map[string]bool   // aliases to which rows were added
	pins     map[string]string // Pin of the first answer of each alias
	sealed   bool
	last     time.Time // time of the last recorded row
	expires  time.Time // zero for a batch that has not ended
	recorded queue.Lines
	attempts map[int]int                     // number of attempts at each line that was begun but is not recorded
	running  map[int]context.CancelCauseFunc // ends the running delivery of a line

	checkpoints map[int][]byte // progress of lines that are not recorded

	stream []entry       // in the order of recording
	next   uint64        // number of the last entry; 1 if there is none yet
	grown  chan struct{} // closed when an entry is added; nil if nobody waits
}

// find returns a batch. If the retention of the batch is over, find deletes it and returns
// queue.ErrNoBatch.
func (q *Queue) find(id string) (*batch, error) {
	b := q.batches[id]
	if b == nil {
		return nil, queue.ErrNoBatch
	}
	if !b.expires.IsZero() && time.Now().After(b.expires) {
		delete(q.batches, id)
		return nil, queue.ErrNoBatch
	}
	return b, nil
}

// open returns the batch with an id, or an error if the batch does not accept a result of the line.
// file is the FileID of the job's file; an empty file is not checked.
func (q *Queue) open(id, file string, line int) (*batch, error) {
	b, err := q.find(id)
	switch {
	case err != nil:
		return nil, err
	case b.Cancelled:
		return nil, queue.ErrCancelled
	case b.Lines > 0 && line > b.Lines:
		return nil, queue.ErrNoRow
	case file != "" && b.FileSHA != "" && !strings.HasPrefix(b.FileSHA, file):
		return nil, queue.ErrOtherFile
	}
	return b, nil
}

// Create implements queue.Store.
func (q *Queue) Create(_ context.Context, b queue.Batch) (existing queue.Batch, created bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if known, err := q.find(b.ID); err == nil {
		known.MixModels = known.MixModels || b.MixModels
		if b.Weight > 0 {
			known.Weight = b.Weight
		}
		existing := known.Batch
		existing.Retention, existing.Lines, existing.MixModels, existing.Weight = 0, 0, false, 0
		return existing, false, nil
	}
	q.batches[b.ID] = &batch{
		Batch:    b,
		status:   queue.Status{Batch: b.ID, Alias: b.Alias, Priority: b.Priority, Created: now(), Deadline: deadline(b)},
		aliases:  map[string]bool{},
		pins:     map[string]string{},
		attempts: map[int]int{},
		running:  map[int]context.CancelCauseFunc{},

		checkpoints: map[int][]byte{},
		next:        1,
	}
	return b, true, nil
}

// deadline returns a batch's deadline, truncated to milliseconds; nil for none.
func deadline(b queue.Batch) *time.Time {
	if b.Deadline.IsZero() {
		return nil
	}
	return new(b.Deadline.UTC().Truncate(time.Millisecond))
}

// aliasOf returns the alias under which a row is queued. named is the alias that the row names,
// empty for none.
func (b *batch) aliasOf(named string) string { return cmp.Or(named, b.Alias) }

// takes returns an error if the batch does not accept answers of a model with this pin to rows of
// an alias.
func (b *batch) takes(alias, pin string) error {
	if b.MixModels || queue.PinsAgree(b.pins[alias], pin) {
		return nil
	}
	return queue.ErrOtherModel
}

// now returns the time, truncated to milliseconds as in Redis.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// Seal implements queue.Store.
func (q *Queue) Seal(_ context.Context, id string, total int, fileSHA string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.open(id, "", 0)
	if err != nil {
		return fmt.Errorf("seal batch %s: %w", id, err)
	}
	b.FileSHA, b.sealed, b.status.Total = fileSHA, true, total
	if b.last.IsZero() {
		b.last = now()
	}
	b.finish()
	return nil
}

// finish ends the batch if all its rows are recorded.
func (b *batch) finish() {
	if !b.sealed || b.status.Done+b.status.Failed < b.status.Total {
		return
	}
	if b.status.Finished == nil {
		b.status.Finished = new(b.last)
	}
	b.expires = time.Now().Add(b.Retention)
}

// Cancel implements queue.Store.
func (q *Queue) Cancel(_ context.Context, id string) (finished bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.find(id)
	if err != nil {
		return false, fmt.Errorf("cancel batch %s: %w", id, err)
	}
	if b.status.Finished != nil {
		return true, nil
	}
	if !b.Cancelled {
		b.Cancelled = true
		b.status.Cancelled = new(now())
		b.expires = time.Now().Add(b.Retention)
		clear(b.attempts)
		clear(b.checkpoints)
	}
	for _, end := range b.running {
		end(queue.ErrCancelled)
	}
	q.drain(b)
	return false, nil
}

// Purge implements queue.Store.
func (q *Queue) Purge(_ context.Context, id string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.find(id)
	if err != nil {
		return fmt.Errorf("purge batch %s: %w", id, err)
	}
	if !b.current().Ended() {
		return fmt.Errorf("purge batch %s: %w: cancel it first", id, queue.ErrUnfinished)
	}
	delete(q.batches, id)
	q.drain(b)
	return nil
}

// drain removes the tasks of a batch, except those that are running.
func (q *Queue) drain(b *batch) {
	for _, name := range b.current().Aliases() {
		a := q.alias(name)
		for _, t := range a.tasks {
			if t.job.Batch == b.ID && !t.running {
				a.remove(t)
			}
		}
	}
}

// Status implements queue.Store.
func (q *Queue) Status(_ context.Context, id string) (queue.Status, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.find(id)
	if err != nil {
		return queue.Status{}, fmt.Errorf("read batch %s: %w", id, err)
	}
	return b.current(), nil
}

// current returns the batch's progress.
func (b *batch) current() queue.Status {
	s := b.status
	s.FileSHA = b.FileSHA
	s.Weight = max(1, b.Weight)
	s.Running = len(b.attempts)
	s.SetModels(slices.Collect(maps.Keys(b.aliases)), b.pins)
	s.SetState(b.sealed)
	if !b.expires.IsZero() {
		s.Expires = new(b.expires.UTC().Truncate(time.Second))
	}
	if !b.last.IsZero() {
		s.SetRates(b.last)
	}
	return s
}

// Batches implements queue.Store.
func (q *Queue) Batches(context.Context) ([]queue.Status, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []queue.Status
	for id := range q.batches {
		if b, err := q.find(id); err == nil {
			all = append(all, b.current())
		}
	}
	queue.SortStatuses(all)
	return all, nil
}

// Missing implements queue.Store.
func (q *Queue) Missing(_ context.Context, s queue.Status) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.State != queue.InProgress {
		return 0, nil
	}
	for _, alias := range s.Aliases() {
		for _, t := range q.alias(alias).tasks {
			if t.priority == s.Priority {
				return 0, nil
			}
		}
	}
	b, err := q.find(s.Batch)
	if err != nil {
		return 0, fmt.Errorf("read batch %s: %w", s.Batch, err)
	}
	if b.current().State != queue.InProgress {
		return 0, nil
	}
	return max(0, b.status.Total-b.status.Done-b.status.Failed), nil
}
