// Package enqueue is the producer's side of a batch: it checks rows, queues them, and collects
// their results.
package enqueue

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/queue"
)

const (
	// senders is the number of goroutines that queue rows, so that some encode jobs while others
	// wait for Redis.
	senders = 4
	// Rows are queued in groups of at most groupRows rows. A group ends earlier when its rows reach
	// groupBytes bytes.
	groupRows  = 128
	groupBytes = 256 << 10
)

// Summary counts the outcomes of a file's rows.
type Summary struct {
	Batch    string `json:"batch"`
	Total    int    `json:"total"`    // rows in the file, without empty lines
	Rows     int    `json:"rows"`     // rows read so far
	Added    int    `json:"added"`    // rows put into the queue
	Known    int    `json:"known"`    // rows that were queued or recorded already
	Rejected int    `json:"rejected"` // rows recorded as errors because they cannot be used

	// Models is the number of rows of each model alias, without rows that cannot be used. It is nil
	// unless the batch is queued by model.
	Models map[string]int `json:"models,omitempty"`
}

// Enqueue queues a job for each row of the input. It can be repeated after an interruption: it
// skips rows of the batch that are queued, running or recorded. If the batch was made from another
// file, the error is rows.ErrOtherFile and nothing is queued. For this check, Enqueue reads the
// input twice; if the input cannot seek, Enqueue first copies it to a temporary file. If the batch
// is cancelled meanwhile, the error is queue.ErrCancelled; if it is purged too, queue.ErrNoBatch.
// No rows stay in the queue then.
func Enqueue(ctx context.Context, q queue.Queue, in io.Reader, o Options) (Summary, error) {
	sum := Summary{Batch: o.Batch}
	file, err := readTwice(ctx, in, rows.SurveyOptions{Format: o.Format, Chats: o.Chats != nil})
	if err != nil {
		return sum, err
	}
	defer file.close()
	o.Lines, sum.Total = file.lines, file.Rows
	producer, err := NewProducer(ctx, q, o, file.sha256)
	if err != nil {
		return sum, err
	}
	if file.Continued > 0 && o.Continued != nil {
		o.Continued(file.Continued)
	}
	if file.Chats > 0 {
		o.Chats(file.Chats)
	}
	whole := sha256.New()
	read := rows.Options{Format: o.Format, IgnoreUnknown: o.IgnoreUnknown, Remote: o.Remote, RecordSum: o.RecordSum}
	if !o.ByModel {
		read.Models = []string{cmp.Or(o.Alias, queue.DefaultAlias)}
	}
	work := pipeline{producer: producer, total: file.Rows, rows: rows.NewReader(io.TeeReader(file, whole), read), progress: o.Progress}
	if sum, err = work.run(ctx); err != nil {
		return sum, err
	}
	if hex.EncodeToString(whole.Sum(nil)) != file.sha256 {
		return sum, fmt.Errorf("the input file changed while it was read, so its batch was %w: enqueue the file again as a new batch", rows.ErrOtherFile)
	}
	return sum, producer.Seal(ctx, sum.Rows, file.sha256)
}

type pipeline struct {
	producer *Producer
	total    int
	rows     *rows.Reader
	progress func(Summary)

	read     atomic.Int64
	outcomes [Rejected + 1]atomic.Int64 // number of rows by outcome
}

func (q *pipeline) run(ctx context.Context) (Summary, error) {
	group, ctx := errgroup.WithContext(ctx)
	next := make(chan []rows.Row)
	group.Go(func() error {
		defer close(next)
		return q.feed(ctx, next)
	})
	for range senders {
		group.Go(func() error { return q.send(ctx, next) })
	}
	err := group.Wait()
	if q.progress != nil {
		q.progress(q.count())
	}
	return q.count(), err
}

// feed reads the rows and passes them to the senders in groups. After an error, it passes the rows
// before.
func (q *pipeline) feed(ctx context.Context, next chan<- []rows.Row) (failed error) {
	var group []rows.Row
	size := 0
	pass := func() error {
		select {
		case next <- group:
			group, size = nil, 0
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for row, err := range q.rows.Rows(ctx) {
		if err != nil {
			failed = err
			break
		}
		q.producer.route(&row)
		group, size = append(group, row), size+len(row.Body)
		if len(group) == groupRows || size >= groupBytes {
			if err := pass(); err != nil {
				return err
			}
		}
		if n := q.read.Add(1); q.progress != nil && n%1000 == 0 {
			q.progress(q.count())
		}
	}
	if len(group) > 0 {
		failed = cmp.Or(failed, pass())
	}
	return failed
}

func (q *pipeline) send(ctx context.Context, next <-chan []rows.Row) error {
	for group := range next {
		outcomes, err := q.producer.Add(ctx, group...)
		if err != nil {
			return err
		}
		for _, o := range outcomes {
			q.outcomes[o].Add(1)
		}
	}
	return nil
}

// count returns the counts so far. It reads fields that feed changes, so it must be called by
// feed's goroutine, or after feed has returned.
func (q *pipeline) count() Summary {
	count := func(o Outcome) int { return int(q.outcomes[o].Load()) }
	s := Summary{
		Batch: q.producer.batch, Total: q.total, Rows: int(q.read.Load()), Added: count(Added), Known: count(Known), Rejected: count(Rejected),
	}
	if q.producer.models != nil {
		s.Models = maps.Clone(q.producer.models.Rows())
	}
	return s
}
