package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/queue"
)

// Status implements queue.Store.
func (q *Queue) Status(ctx context.Context, batch string) (queue.Status, error) {
	pipe := q.rdb.Pipeline()
	meta := pipe.HGetAll(ctx, key(batch, "meta"))
	running := pipe.HLen(ctx, key(batch, "attempts"))
	life := pipe.PTTL(ctx, key(batch, "meta"))
	if _, err := pipe.Exec(ctx); err != nil {
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			return queue.Status{}, fmt.Errorf("batch %q: %w: one of its keys has an unexpected type", batch, queue.ErrDamaged)
		}
		return queue.Status{}, failure(err, "read batch %q", batch)
	}
	if len(meta.Val()) == 0 {
		return queue.Status{}, fmt.Errorf("batch %s: %w: it was never queued here, or its retention is over (ingot status lists all batches)",
			batch, queue.ErrNoBatch)
	}
	st, err := newStatus(batch, meta.Val(), int(running.Val()), life.Val())
	if err != nil {
		return queue.Status{}, fmt.Errorf("batch %q: %w: %w", batch, queue.ErrDamaged, err)
	}
	return st, nil
}

// Batches implements queue.Store.
func (q *Queue) Batches(ctx context.Context) ([]queue.Status, error) {
	before, after, _ := strings.Cut(key("*", "meta"), "*")
	found := q.rdb.Scan(ctx, 0, key("*", "meta"), 1000).Iterator()
	batches := map[string]bool{} // SCAN may return a key twice
	for found.Next(ctx) {
		batches[strings.TrimSuffix(strings.TrimPrefix(found.Val(), before), after)] = true
	}
	if err := found.Err(); err != nil {
		return nil, failure(err, "list batches")
	}
	var all []queue.Status
	for batch := range batches {
		st, err := q.Status(ctx, batch)
		if errors.Is(err, queue.ErrNoBatch) { // the batch's retention has just ended
			continue
		}
		if errors.Is(err, queue.ErrDamaged) {
			st, err = queue.Status{Batch: batch, Damage: err.Error()}, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, st)
	}
	queue.SortStatuses(all)
	return all, nil
}

// Missing implements queue.Store.
func (q *Queue) Missing(ctx context.Context, b queue.Status) (int, error) {
	if b.State != queue.InProgress {
		return 0, nil
	}
	if queued, err := q.queued(ctx, queuesOfBatch(b)); err != nil || queued > 0 {
		return 0, err
	}
	// A row is recorded before its task leaves the queue. So the status is read again, after the
	// queues were found empty.
	b, err := q.Status(ctx, b.Batch)
	if err != nil || b.State != queue.InProgress {
		return 0, err
	}
	return max(0, b.Total-b.Done-b.Failed), nil
}

// queued returns the number of tasks of queues that run or will run.
func (q *Queue) queued(ctx context.Context, queues []string) (int, error) {
	n, err := q.run(ctx, with(queuedScript).queues(queues)).Int()
	return n, failure(err, "count the rows of queues %s", strings.Join(queues, " and "))
}

// newStatus makes a status from the fields of a batch's hash. It returns an error if a field is
// malformed.
func newStatus(batch string, meta map[string]string, running int, life time.Duration) (queue.Status, error) {
	m := fields{values: meta}
	var priorityErr error
	if meta["priority"] != string(queue.Interactive) {
		_, priorityErr = queue.ParsePriority(meta["priority"])
	}
	if err := errors.Join(queue.CheckBatch(batch), queue.CheckAlias(meta["model"]), priorityErr); err != nil {
		return queue.Status{}, err
	}
	s := queue.Status{
		Batch:     batch,
		Alias:     meta["model"],
		Priority:  queue.Priority(meta["priority"]),
		FileSHA:   meta["file_sha256"],
		Started:   m.moment("started_ms"),
		Finished:  m.moment("finished_ms"),
		Cancelled: m.moment("cancelled_ms"),
		Deadline:  m.moment("deadline_ms"),
		Weight:    max(1, m.number("weight")),
		Total:     m.number("total"),
		Done:      m.number("done"),
		Failed:    m.number("failed"),
		Running:   running,
	}
	for _, counter := range counters {
		*counter.sum(&s) = m.number(counter.name)
	}
	s.SetModels(modelsOf(meta))
	if t := m.moment("created_ms"); t != nil {
		s.Created = *t
	}
	s.SetState(meta["total"] != "")
	if life > 0 {
		s.Expires = new(time.Now().Add(life).UTC().Truncate(time.Second))
	}
	if last := m.moment("last_ms"); last != nil {
		s.SetRates(*last)
	}
	return s, m.err
}

// modelsOf returns the aliases under which rows of a batch were queued, and the pin of each alias
// that has one.
func modelsOf(meta map[string]string) (aliases []string, pins map[string]string) {
	pins = map[string]string{meta["model"]: meta["pin"]}
	for field, value := range meta {
		if alias, ok := strings.CutPrefix(field, "alias:"); ok && queue.CheckAlias(alias) == nil {
			aliases = append(aliases, alias)
		}
		if alias, ok := strings.CutPrefix(field, "pin:"); ok {
			pins[alias] = value
		}
	}
	return aliases, pins
}

// fields reads the fields of a batch's hash. err is the error of the first malformed field.
type fields struct {
	values map[string]string
	err    error
}

// number returns a field's value, or 0 if the field is not set.
func (f *fields) number(name string) int {
	text, ok := f.values[name]
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if (err != nil || n < 0 || n > maxNumber) && f.err == nil {
		f.err = fmt.Errorf("%s is %.40q, which is not a number from 0 to %d", name, text, maxNumber)
	}
	return int(n)
}

// maxNumber is the largest number that a field may have. A JSON reader that uses float64 reads it
// exactly.
const maxNumber = 1 << 53

func (f *fields) moment(name string) *time.Time {
	if f.values[name] == "" {
		return nil
	}
	return new(time.UnixMilli(int64(f.number(name))).UTC())
}
