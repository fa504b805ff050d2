// Package enqueue is the producer's side: it reads and checks rows, puts them in the queue, and collects their results.
package enqueue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/rows"
)

// senders is the number of goroutines that queue rows: the way to Redis and back takes longer than the work at either end.
// With 16, one producer queues about four times as many rows a second as with one.
const senders = 16

// Summary counts what became of the rows of a file.
type Summary struct {
	Batch    string `json:"batch"`
	Rows     int    `json:"rows"`     // in the file; empty lines are none
	Added    int    `json:"added"`    // put in the queue
	Known    int    `json:"known"`    // queued or finished before
	Rejected int    `json:"rejected"` // recorded as errors, since they cannot be used
}

// Enqueue reads rows and queues one task for each. It is safe to repeat: rows of the same batch that are queued, running or
// finished are left alone, so a run that was interrupted is completed by running it again. A file other than the one that
// the batch was made of is refused with rows.ErrOtherFile; where in can seek, this is found before anything is queued.
func Enqueue(ctx context.Context, rdb redis.UniversalClient, in io.Reader, o Options) (Summary, error) {
	first, err := hashAhead(in)
	if err != nil {
		return Summary{Batch: o.Batch}, err
	}
	whole := sha256.New()
	q := queueing{
		batch: o.Batch, rows: rows.NewReader(io.TeeReader(in, whole), o.Format), progress: o.Progress,
		begin: func(ctx context.Context) (*Producer, error) { return NewProducer(ctx, rdb, o, first) },
	}
	sum, err := q.all(ctx)
	if err != nil {
		return sum, err
	}
	p := q.producer
	sha := hex.EncodeToString(whole.Sum(nil))
	if first != "" && sha != first {
		return sum, fmt.Errorf("the file changed while it was read, so that the batch is %w: enqueue it again, as a new batch", rows.ErrOtherFile)
	}
	if err := p.checkFile(sha); err != nil {
		return sum, err
	}
	return sum, p.Seal(ctx, sum.Rows, sha)
}

// hashAhead is the SHA-256 of all that in will read, or empty where in cannot be read twice.
func hashAhead(in io.Reader) (string, error) {
	s, ok := in.(io.Seeker)
	if !ok {
		return "", nil
	}
	start, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return "", nil //nolint:nilerr // a pipe has the method, too
	}
	h := sha256.New()
	if _, err := io.Copy(h, in); err != nil {
		return "", fmt.Errorf("read rows: %w", err)
	}
	if _, err := s.Seek(start, io.SeekStart); err != nil {
		return "", fmt.Errorf("read rows: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// queueing is the rows of a reader on their way into the queue.
type queueing struct {
	batch    string
	rows     *rows.Reader
	progress func(Summary)
	begin    func(context.Context) (*Producer, error) // makes the batch known
	producer *Producer                                // nil before the first row: what is no file of rows makes no batch

	read, added, known, rejected atomic.Int64
}

// all queues all rows.
func (q *queueing) all(ctx context.Context) (Summary, error) {
	group, ctx := errgroup.WithContext(ctx)
	next := make(chan rows.Row, senders)
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

// feed reads the rows, and makes the batch known once there is one or the file has turned out to be empty.
func (q *queueing) feed(ctx context.Context, next chan<- rows.Row) (err error) {
	for row, err := range q.rows.Rows(ctx) {
		if err == nil && q.producer == nil {
			q.producer, err = q.begin(ctx)
		}
		if err != nil {
			return err
		}
		select {
		case next <- row:
		case <-ctx.Done():
			return ctx.Err()
		}
		if n := q.read.Add(1); q.progress != nil && n%1000 == 0 {
			q.progress(q.count())
		}
	}
	if q.producer == nil {
		q.producer, err = q.begin(ctx)
	}
	return err
}

func (q *queueing) send(ctx context.Context, next <-chan rows.Row) error {
	tally := map[Outcome]*atomic.Int64{Added: &q.added, Known: &q.known, Rejected: &q.rejected}
	for row := range next {
		outcome, err := q.producer.Add(ctx, row)
		if err != nil {
			return err
		}
		tally[outcome].Add(1)
	}
	return nil
}

func (q *queueing) count() Summary {
	return Summary{q.batch, int(q.read.Load()), int(q.added.Load()), int(q.known.Load()), int(q.rejected.Load())}
}
