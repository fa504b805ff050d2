package enqueue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/queue"
)

// String describes the outcome of Enqueue.
func (s Summary) String() string {
	text := fmt.Sprintf("%s: %d queued", textfmt.Count(s.Rows, "row"), s.Added)
	if s.Known > 0 {
		text += fmt.Sprintf(", %d already in the batch", s.Known)
	}
	if s.Rejected > 0 {
		text += fmt.Sprintf(", %d cannot be used (see their error lines in the results)", s.Rejected)
	}
	return text
}

// Hint adds a hint to the error of Enqueue: the command that queues the remaining rows. It names
// the batch, whose id may be new to the user. ctx is the context with which Enqueue was called.
func (s Summary) Hint(ctx context.Context, err error) error {
	if ctx.Err() != nil && s.Rows == 0 {
		return errors.New("stopped before a row was queued")
	}
	if ctx.Err() != nil {
		return fmt.Errorf("stopped before all rows were queued: run the same command with --batch %s to queue the others", s.Batch)
	}
	incomplete := s.Rows > 0 || errors.Is(err, queue.ErrUnavailable) // if true, the batch may exist
	if !incomplete || errors.Is(err, rows.ErrOtherFile) || errors.Is(err, queue.ErrCancelled) || errors.Is(err, queue.ErrNoBatch) {
		return err
	}
	return fmt.Errorf("%w (run the same command with --batch %s to queue the remaining rows)", err, s.Batch)
}

// ModelCounts describes how many rows each model alias has. It is empty if all rows go to alias,
// the one of rows that name no model.
func ModelCounts(alias string, models map[string]int) string {
	if len(models) == 0 || len(models) == 1 && models[alias] > 0 {
		return ""
	}
	var counts []string
	for _, name := range slices.Sorted(maps.Keys(models)) {
		counts = append(counts, fmt.Sprintf("%s %d", name, models[name]))
	}
	return "rows by model name: " + strings.Join(counts, ", ")
}

// String describes the lines of an output.
func (c Collected) String() string {
	text := textfmt.Count(c.Kept+c.Written, "row")
	if c.Kept > 0 {
		text += fmt.Sprintf(", %d of them new", c.Written)
	}
	if c.Failed > 0 {
		text += fmt.Sprintf(", %d failed", c.Failed)
	}
	switch {
	case c.Finished:
		return text + ": the batch is finished"
	case c.Cancelled:
		return text + ": the batch is cancelled, and there are no more"
	}
	return text + ": the batch is not finished"
}

// Check returns an error if the output out is not a part of the batch's results, or if it lacks
// results that cannot be had any more.
func (c Collected) Check(batch, out string) error {
	switch {
	case c.Foreign > 0:
		return fmt.Errorf("%s was %w than batch %s: the batch lacks %s of the output; choose another output",
			out, rows.ErrOtherFile, batch, textfmt.Count(c.Foreign, "row"))
	case c.Damaged > 0:
		return fmt.Errorf("batch %s: Redis holds %s that cannot be read, so %s is incomplete; the first is %s",
			batch, textfmt.Count(c.Damaged, "result"), out, c.FirstDamage)
	case c.Freed > 0:
		return fmt.Errorf("batch %s: %s lacks %s that an earlier collection with --forget wrote to another output and deleted from Redis",
			batch, out, textfmt.Count(c.Freed, "row"))
	}
	return nil
}
