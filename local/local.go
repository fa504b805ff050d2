// Package local answers a file on one machine: the same producer, worker and collector as with Redis, over a queue inside
// the process. The output file is the durable state.
package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/rows"
	"github.com/ingot-run/ingot/worker"
)

// Batch is the batch id of local runs. It goes into the seeds of rows that name none, so that a run gives the same tokens
// each time.
const Batch = "local"

// poll is how often the worker looks at an empty queue. It is in the same process, so that looking is cheap, and a file of
// a few rows is not to wait for it.
const poll = 10 * time.Millisecond

// Options says how a file is answered. Zero values take the defaults named.
type Options struct {
	Format      rows.Format    // rows.FormatAuto
	Concurrency int            // jobs that the engine may hold at once, at least 1
	Timeout     time.Duration  // of one attempt; enqueue.DefaultTimeout
	Version     string         // of the program, in results
	Progress    func(Progress) // called when rows have been written, from one goroutine; may be nil
	Logger      *slog.Logger   // slog.Default()
}

// Progress is how far a run is.
type Progress struct {
	Total            int // rows in the file; 0 where it cannot be read twice, as with a pipe
	Kept             int // rows whose results were in the output before
	Done             int // rows answered by this run
	Failed           int // rows of this run that became error lines
	PromptTokens     int // of this run, as CompletionTokens
	CompletionTokens int
	Elapsed          time.Duration
}

// Summary is what a run did.
type Summary struct {
	Progress
	KeptFailed int // error lines among Kept
	KeptOthers int // answers in the output before that are of another model; 0 where this run answered nothing
}

// Run answers the rows of in whose results out, an output of Batch, does not hold. Results reach out as they finish. Only a
// window of rows is in the queue and in memory at a time. Once ctx is done, Run stops within moments and returns ctx's error
// with what was done; running it again does the rest.
func Run(ctx context.Context, eng *engine.Engine, in io.Reader, out *rows.Output, o Options) (Summary, error) {
	total, err := countAhead(in, o.Format)
	if err != nil {
		return Summary{}, err
	}
	r := &run{in: in, out: out, options: o, window: newWindow(o.Concurrency), start: time.Now()}
	r.progress.Total = total
	r.held, r.failed = out.Counts()
	err = r.run(ctx, eng)
	if err == nil || ctx.Err() != nil { // else err may be that of Flush already
		err = errors.Join(ctx.Err(), out.Flush())
	}
	r.count()
	s := Summary{Progress: r.progress, KeptFailed: r.failed}
	if err == nil && s.Done > 0 { // its answers tell the model's hash, so that it is there without another look at the file
		sha, err := eng.SHA256(ctx)
		if err != nil {
			return s, err
		}
		s.KeptOthers = out.ByOtherModels(sha)
	}
	return s, err
}

// countAhead is the number of rows that in will give, or 0 where it cannot be read twice.
func countAhead(in io.Reader, f rows.Format) (int, error) {
	s, ok := in.(io.Seeker)
	if !ok {
		return 0, nil
	}
	start, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, nil //nolint:nilerr // a pipe has the method, too
	}
	n, err := rows.Count(in, f)
	if err != nil {
		return 0, err
	}
	if _, err := s.Seek(start, io.SeekStart); err != nil {
		return 0, fmt.Errorf("read rows: %w", err)
	}
	return n, nil
}

type run struct {
	in       io.Reader
	out      *rows.Output
	options  Options
	window   *window
	start    time.Time
	held     int          // lines of the output before the run
	failed   int          // error lines among them
	kept     atomic.Int64 // rows of the input among them, as far as it is read
	progress Progress     // written by collect
}

func (r *run) run(ctx context.Context, eng *engine.Engine) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	queue := startQueue(r.options.Concurrency)
	defer queue.stop()
	w, err := worker.New(eng, queue.rdb, worker.Config{
		Alias:           Batch,
		Version:         r.options.Version,
		Concurrency:     r.options.Concurrency,
		ShutdownTimeout: time.Nanosecond, // what runs when Run is told to stop is done again by the next one
		PollInterval:    poll,
		Logger:          r.options.Logger,
	})
	if err != nil {
		return err
	}
	producer, err := enqueue.NewProducer(ctx, queue.rdb, enqueue.Options{
		Batch: Batch, Alias: Batch, Timeout: r.options.Timeout, Version: r.options.Version,
	}, "")
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	working, finish := context.WithCancel(ctx)
	group.Go(func() error { return w.Run(working) })
	group.Go(func() error { return r.feed(ctx, producer) })
	group.Go(func() error {
		defer finish()
		return r.collect(ctx, queue)
	})
	return group.Wait()
}

// feed queues the rows that the output does not hold, as many at a time as the window lets in.
func (r *run) feed(ctx context.Context, p *enqueue.Producer) error {
	whole := sha256.New()
	rows := rows.NewReader(io.TeeReader(r.in, whole), r.options.Format)
	added := 0
	for row, err := range rows.Rows(ctx) {
		if err != nil {
			return err
		}
		if r.out.Has(row.Line) {
			if err := r.out.Check(row); err != nil {
				return err
			}
			r.kept.Add(1)
			continue
		}
		if err := r.window.enter(ctx, row); err != nil {
			return err
		}
		if _, err := p.Add(ctx, row); err != nil {
			return err
		}
		added++
	}
	return p.Seal(ctx, added, hex.EncodeToString(whole.Sum(nil)))
}
