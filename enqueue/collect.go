package enqueue

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/rows"
)

const (
	// page is the number of results fetched at a time: all that is in memory of them.
	page = 32
	// block is how long a read waits in Redis for the next row, before it looks whether the batch is finished.
	block = 100 * time.Millisecond
	// patience is how long Redis may be away.
	patience = time.Minute
)

// CollectOptions says how results are collected.
type CollectOptions struct {
	Follow   bool                             // wait for rows until the batch is finished
	Progress func(job.Status)                 // called after every page and at the end; may be nil
	Written  func(rows []job.Recording) error // called after every page, when out has it; may be nil
}

// Collected counts the lines of an output.
type Collected struct {
	Kept     int  // were there before
	Written  int  // are new
	Failed   int  // are errors, of all
	Finished bool // the batch is finished, and all its rows are there

	Cancelled bool // the batch was cancelled, and all rows that were recorded before are there
}

// Collect writes those results of out's batch that out does not hold. It can be interrupted and repeated at any time: each
// row stands in out exactly once. A batch that Redis does not know gives job.ErrNoBatch.
func Collect(ctx context.Context, rdb redis.UniversalClient, out *rows.Output, o CollectOptions) (Collected, error) {
	c := collector{store: job.NewStore(rdb), out: out, options: o}
	kept, _ := out.Counts()
	end, err := c.run(ctx)
	held, failed := out.Counts()
	return Collected{
		Kept: kept, Written: held - kept, Failed: failed, Finished: end == job.Completed, Cancelled: end == job.Cancelled,
	}, err
}

type collector struct {
	store   *job.Store
	out     *rows.Output
	options CollectOptions
	after   string // the last entry of the stream that was read
}

// run reads to the end of the stream, which is that of the batch where it has ended or where run is to follow it. It returns
// the batch's state before the last look.
func (c *collector) run(ctx context.Context) (job.State, error) {
	for {
		var s job.Status
		err := c.insist(ctx, func() (err error) {
			s, err = c.store.Status(ctx, c.out.Batch())
			return err
		})
		if err != nil {
			return "", err
		}
		if c.options.Progress != nil {
			c.options.Progress(s)
		}
		// All rows of a batch that has ended now are in the stream already.
		wait := block
		if s.Ended() || !c.options.Follow {
			wait = 0
		}
		n, err := c.page(ctx, wait)
		if err != nil {
			return "", err
		}
		if n == 0 && wait == 0 {
			return s.State, nil
		}
		if err := ctx.Err(); err != nil {
			return "", err
		}
	}
}

// page writes the next results and returns how many entries of the stream it read.
func (c *collector) page(ctx context.Context, wait time.Duration) (int, error) {
	var rows []job.Recording
	err := c.insist(ctx, func() (err error) {
		rows, err = c.store.Read(ctx, c.out.Batch(), c.after, page, wait, func(line int) bool { return !c.out.Has(line) })
		return err
	})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	for _, r := range rows {
		if r.Text == nil {
			continue
		}
		if err := c.out.Write(r.Line, r.Text, r.Failed); err != nil {
			return 0, err
		}
	}
	if err := c.out.Flush(); err != nil {
		return 0, err
	}
	c.after = rows[len(rows)-1].ID
	if c.options.Written != nil {
		return len(rows), c.options.Written(rows)
	}
	return len(rows), nil
}

func (c *collector) insist(ctx context.Context, f func() error) error {
	return job.Insist(ctx, patience, f)
}
