package console

import (
	"context"
	"time"

	"github.com/ingot-run/ingot/queue"
)

// queuedBatch is a batch of a fleet's queue that the Store does not have.
type queuedBatch struct{ queue.Status }

// queued returns the batches of the queue that the Store does not have, the newest first.
func (c *Console) queued(ctx context.Context) ([]queuedBatch, error) {
	if c.Queued == nil {
		return nil, nil
	}
	all, err := c.Queued(ctx)
	list := make([]queuedBatch, len(all))
	for i, s := range all {
		list[i] = queuedBatch{s}
	}
	return list, err
}

// Finished returns the number of rows with a result.
func (b queuedBatch) Finished() int { return b.Done + b.Failed }

// Left returns the estimated time until the end as text; empty if it is unknown.
func (b queuedBatch) Left() string {
	if b.Ended() || b.RowsPerSecond == 0 || b.Total == 0 {
		return ""
	}
	return leftText(time.Duration(float64(b.Total-b.Finished()) / b.RowsPerSecond * float64(time.Second)))
}
