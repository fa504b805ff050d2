package worker

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/queue"
)

const (
	// checkpointInterval is the time before a row's first checkpoint and between two checkpoints of
	// a row.
	checkpointInterval = 4 * time.Second
	// checkpointGrowth sets the minimum growth between two checkpoints of a row: 1/checkpointGrowth
	// of the row's tokens must be new. All checkpoints of a long row together are then about
	// checkpointGrowth times as large as the last one, at most.
	checkpointGrowth = 8
	// maxCheckpointBytes is the maximum total size of the checkpoints that a worker stores in one
	// interval. Checkpoints beyond that wait for the next interval.
	maxCheckpointBytes = 1 << 20
)

type progress struct {
	delivery *queue.Delivery
	end      context.CancelCauseFunc // ends the delivery
	every    time.Duration           // interval between two reports of the engine

	mu     sync.Mutex
	point  queue.Checkpoint
	stored int // number of tokens in the last stored checkpoint
}

func (p *progress) reporting(i int) generation.Reporting {
	return generation.Reporting{Every: p.every, To: func(now generation.Progress) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for len(p.point.Prompts) <= i {
			p.point.Prompts = append(p.point.Prompts, generation.Progress{})
		}
		p.point.Prompts[i] = now
	}}
}

// checkpoint returns the encoded progress and its number of tokens. encoded is nil if too few
// tokens are new, or if the progress is larger than queue.MaxCheckpoint.
func (p *progress) checkpoint(fingerprint string) (encoded []byte, tokens int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tokens = p.point.Tokens()
	if tokens == p.stored || tokens-p.stored < tokens/checkpointGrowth {
		return nil, 0
	}
	p.point.Fingerprint = fingerprint
	return p.point.Encode(), tokens
}

func (p *progress) wasStored(tokens int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stored = tokens
}

// checkpointer stores the progress of long rows at intervals. If this worker dies, another worker
// continues from the stored progress.
type checkpointer struct {
	interval time.Duration
	model    *model
	log      *slog.Logger

	mu   sync.Mutex
	rows map[*progress]struct{}
}

func newCheckpointer(m *model, log *slog.Logger) *checkpointer {
	return &checkpointer{interval: checkpointInterval, model: m, log: log, rows: map[*progress]struct{}{}}
}

func (c *checkpointer) run(ctx context.Context) { every(ctx, c.interval, c.save) }

// track stores the progress of a delivery until untrack is called. The returned context ends if the
// row was taken from this worker.
func (c *checkpointer) track(ctx context.Context, d *queue.Delivery) (context.Context, *progress) {
	ctx, end := context.WithCancelCause(ctx)
	p := &progress{delivery: d, end: end, every: c.interval}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows[p] = struct{}{}
	return ctx, p
}

func (c *checkpointer) untrack(p *progress) {
	p.end(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.rows, p)
}

func (c *checkpointer) tracked() []*progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.rows))
}

func (c *checkpointer) save(ctx context.Context) {
	origin, ok := c.model.known()
	if !ok {
		return
	}
	left := maxCheckpointBytes
	for _, p := range c.tracked() {
		encoded, tokens := p.checkpoint(origin.Pin())
		if encoded == nil {
			continue
		}
		if left -= len(encoded); left < 0 {
			return
		}
		err := p.delivery.Save(ctx, encoded)
		switch {
		case err == nil:
			p.wasStored(tokens)
		case errors.Is(err, queue.ErrSuperseded):
			p.end(err)
		case ctx.Err() == nil:
			c.log.Debug("could not store the progress of a row", "batch", p.delivery.Batch, "line", p.delivery.Line, "error", err)
		}
	}
}

// read returns the progress of an earlier attempt at a row, or nil if there is none or this worker
// cannot continue from it.
func (c *checkpointer) read(ctx context.Context, d *queue.Delivery, log *slog.Logger) *queue.Checkpoint {
	if d.Checkpoint == nil {
		return nil
	}
	point, err := queue.DecodeCheckpoint(d.Checkpoint)
	if err != nil {
		log.Warn("could not use the checkpoint of a row: the row starts from the beginning", "error", err)
		return nil
	}
	if origin, err := c.model.wait(ctx); err != nil || point.Fingerprint != origin.Pin() {
		log.Info("a row starts from the beginning: its checkpoint is of another model, kind of backend or KV type, or this worker's model file could not be hashed",
			"tokens", point.Tokens())
		return nil
	}
	log.Info("a row continues from its checkpoint", "tokens", point.Tokens())
	return point
}
