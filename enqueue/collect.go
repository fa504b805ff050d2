package enqueue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/queue"
)

const (
	// pageSize is the maximum number of results in a page. A page is fetched and held in memory as
	// a whole.
	pageSize = 32
	// pageBytes is the maximum size of a page that has more than one result.
	pageBytes = 1 << 20
	// comparedAtOnce is the number of stream entries that are compared with the output at a time.
	// They are read without their results.
	comparedAtOnce = 1000
	// freedAtOnce is the number of written results after which the output is synced to the disk and
	// these results are deleted from Redis.
	freedAtOnce = 1000
	// pollInterval is the time that a read waits in Redis for the next row before the batch's state
	// is checked again. It is also the time for which results are gathered into a page.
	pollInterval = 100 * time.Millisecond
)

// CollectOptions are the settings of Collect.
type CollectOptions struct {
	Follow    bool                               // wait for rows until the batch has ended, and return those of dead workers to the queue
	Immediate bool                               // with Follow: write each result at once; otherwise results are gathered for 100 ms
	Free      bool                               // delete results from the store once the output, a file, has them on the disk
	Progress  func(queue.Status)                 // called after every page and at the end; may be nil
	Written   func(rows []queue.Recording) error // called after every page was written to the output, with the page's results; may be nil
}

// Collected counts the lines of an output.
type Collected struct {
	Kept     int  // lines that the output had before Collect, except removed error lines
	Written  int  // lines that Collect added
	Failed   int  // error lines among all lines
	Foreign  int  // lines among Kept that the finished batch does not have
	Finished bool // the batch is finished, and the output has all its rows

	Cancelled bool // the batch was cancelled, and the output has all rows that were recorded before the end

	Freed       int    // rows that the output lacks because their results were freed when another output had them
	Damaged     int    // entries and results in the store that cannot be used; the output lacks them
	FirstDamage string // what is wrong with the first damaged entry or result
}

// Collect writes the results of a batch to the output, except those that the output already holds.
// It can be interrupted and repeated at any time; the output gets each row exactly once. Collect
// removes the error lines of rows that were queued again. If the batch's deadline has passed, it
// first records the rows that are still in the queue as expired. The error is queue.ErrNoBatch for
// an unknown batch, and rows.ErrOtherFile if a line of the output was made from another input line
// than the batch's row with the same line number. Collect checks this before it writes.
func Collect(ctx context.Context, q queue.Queue, out *rows.Output, o CollectOptions) (Collected, error) {
	if o.Follow {
		stop := watchWorkers(ctx, q)
		defer stop()
	}
	c := collector{queue: q, out: out, options: o, overdue: expirer{queue: q}, freed: map[int]bool{}}
	var end queue.State
	err := c.compare(ctx)
	if err == nil {
		end, err = c.run(ctx)
	}
	if err == nil {
		err = c.free(ctx)
	}
	lines, failed := out.Counts()
	kept := out.Kept()
	result := Collected{
		Kept: kept, Written: lines - kept, Failed: failed, Finished: end == queue.Completed, Cancelled: end == queue.Cancelled,
		Freed: len(c.freed), Damaged: c.damaged, FirstDamage: c.firstDamage,
	}
	if err == nil && result.Finished && kept > 0 {
		result.Foreign, err = c.foreign(ctx)
	}
	return result, err
}

type collector struct {
	queue   queue.Queue
	out     *rows.Output
	options CollectOptions
	overdue expirer
	after   string // ID of the last entry read from the stream

	toFree      []queue.Recording // written rows whose results are to be freed; empty without options.Free
	freed       map[int]bool      // lines that the output lacks because their results were freed
	damaged     int
	firstDamage string
}

// scan passes every stream entry after the given ID to visit. The entries are read without their
// results. Damaged ones have no line.
func (c *collector) scan(ctx context.Context, after string, visit func(queue.Recording) error) error {
	for {
		rows, err := read(ctx, func() ([]queue.Recording, error) {
			return c.queue.Read(ctx, c.out.Batch(), queue.Page{After: after, Count: comparedAtOnce, Want: func(queue.Recording) bool { return false }})
		})
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, r := range rows {
			if err := visit(r); err != nil {
				return err
			}
		}
		after = rows[len(rows)-1].ID
	}
}

// compare compares the checksums of the results in the output with those of all stream entries that
// the method page has not read yet. It removes the error lines of rows that were queued again from
// the output.
func (c *collector) compare(ctx context.Context) error {
	if lines, _ := c.out.Counts(); lines == 0 {
		return nil
	}
	var requeued []string
	err := c.scan(ctx, c.after, func(r queue.Recording) error {
		if r.Requeued != "" && c.out.HasError(r.Requeued) {
			requeued = append(requeued, r.Requeued)
		}
		_, err := c.out.CheckSum(r.Line, r.Sum)
		return err
	})
	if err != nil {
		return err
	}
	_, err = c.out.Retract(requeued)
	return err
}

// foreign returns the number of lines that the output had before Collect but that the stream does
// not have.
func (c *collector) foreign(ctx context.Context) (int, error) {
	n := c.out.Kept()
	err := c.scan(ctx, "", func(r queue.Recording) error {
		present, err := c.out.CheckSum(r.Line, r.Sum)
		if present && r.Requeued == "" {
			n--
		}
		return err
	})
	return n, err
}

// run reads to the end of the stream or, with Follow, to the end of the batch. It returns the state
// of the batch before the last page was read.
func (c *collector) run(ctx context.Context) (queue.State, error) {
	for {
		s, err := read(ctx, func() (queue.Status, error) { return c.queue.Status(ctx, c.out.Batch()) })
		if err != nil {
			return "", err
		}
		if c.options.Progress != nil {
			c.options.Progress(s)
		}
		if err := c.overdue.check(ctx, s); err != nil {
			return "", err
		}
		// If the batch has ended, all its rows are in the stream.
		wait := pollInterval
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
		lines, _ := c.out.Counts()
		last := s.Total > 0 && lines >= s.Total // nothing is left to gather
		if n == 0 || n == pageSize || c.options.Immediate || last {
			wait = 0
		}
		if err := gather(ctx, wait); err != nil {
			return "", err
		}
	}
}

// gather waits for the given time, in which more results are recorded. A page of many results costs
// little more than a page of one.
func gather(ctx context.Context, wait time.Duration) error {
	if wait > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return ctx.Err()
}

func (c *collector) page(ctx context.Context, wait time.Duration) (int, error) {
	rows, err := read(ctx, func() ([]queue.Recording, error) {
		return c.queue.Read(ctx, c.out.Batch(), queue.Page{
			After: c.after, Count: pageSize, MaxBytes: pageBytes, Wait: wait,
			Want: func(r queue.Recording) bool { return !c.out.Has(r.Line) },
		})
	})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	if slices.ContainsFunc(rows, func(r queue.Recording) bool { return r.Requeued != "" && c.out.HasError(r.Requeued) }) {
		return len(rows), c.compare(ctx) // the page is then read again, since it may have new results of these rows
	}
	for _, r := range rows { // all rows are compared before the first one is written
		if _, err := c.out.CheckSum(r.Line, r.Sum); err != nil {
			return 0, err
		}
	}
	for _, r := range rows {
		if err := c.write(r); err != nil {
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
	if len(c.toFree) >= freedAtOnce {
		return len(rows), c.free(ctx)
	}
	return len(rows), nil
}

// write writes the result of a row that the output does not hold. It first checks that the text
// from the store is this row's result, since any other line would make the output unusable.
func (c *collector) write(r queue.Recording) error {
	if r.Damage != "" {
		c.damage(r.Damage)
		return nil
	}
	if r.Requeued != "" {
		delete(c.freed, r.Line)
		return nil
	}
	if !c.out.Has(r.Line) {
		if r.Text == nil {
			c.freed[r.Line] = true
			return nil
		}
		failed, err := rows.CheckResult(r.Text, c.out.Batch(), r.Line, r.Sum)
		if err != nil {
			c.damage(fmt.Sprintf("the result of line %d: %v", r.Line, err))
			return nil
		}
		if err := c.out.Write(r.Line, r.Text, failed); err != nil {
			return err
		}
	}
	if c.options.Free && !r.Failed { // an error line is small, and its row may be queued again
		c.toFree = append(c.toFree, queue.Recording{ID: r.ID, Line: r.Line})
	}
	return nil
}

func (c *collector) damage(reason string) {
	if c.damaged++; c.damaged == 1 {
		c.firstDamage = reason
	}
}

// free deletes from the store the results in toFree, once the output has them on the disk.
func (c *collector) free(ctx context.Context) error {
	if len(c.toFree) == 0 {
		return nil
	}
	if err := c.out.Sync(); err != nil {
		return err
	}
	err := retry(ctx, func() error { return c.queue.Discard(ctx, c.out.Batch(), c.toFree, false) })
	c.toFree = c.toFree[:0]
	return err
}
