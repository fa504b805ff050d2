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
	// defaultCheckpointInterval is the time before a row's first checkpoint and between two checkpoints of a row.
	defaultCheckpointInterval = 4 * time.Second
	// checkpointGrowth sets the minimum growth between two checkpoints of a row: 1/checkpointGrowth of the row's tokens must be new. All
	// checkpoints of a long row together are then about checkpointGrowth times as large as the last one, at most.
	checkpointGrowth = 8
	// maxCheckpointBytes is the maximum total size of the checkpoints that a worker stores in one interval. Checkpoints beyond that wait
	// for the next interval.
	maxCheckpointBytes = 1 << 20
)

// progress holds the tokens that the engine has generated for a delivery.
type progress struct {
	job *queue.Job
	end context.CancelFunc // ends the delivery
	// every is the interval between two reports of the engine.
	every time.Duration

	mu     sync.Mutex
	point  queue.Checkpoint
	stored int // number of tokens in the last stored checkpoint
}

// reporting returns the settings with which the engine reports the progress of prompt i.
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

// checkpoint returns the encoded progress and its number of tokens. encoded is nil if too few tokens are new, or if the progress is larger
// than queue.MaxCheckpoint.
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

// tracked holds the progress of the running deliveries.
type tracked struct {
	mu  sync.Mutex
	all map[*progress]struct{}
}

func (t *tracked) list() []*progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.all))
}

// track collects the progress of a delivery until untrack is called. The returned context ends if the row was taken from this worker.
func (w *Worker) track(ctx context.Context, j *queue.Job) (context.Context, *progress) {
	ctx, end := context.WithCancel(ctx)
	p := &progress{job: j, end: end, every: w.checkpointInterval}
	w.tracked.mu.Lock()
	defer w.tracked.mu.Unlock()
	if w.tracked.all == nil {
		w.tracked.all = map[*progress]struct{}{}
	}
	w.tracked.all[p] = struct{}{}
	return ctx, p
}

func (w *Worker) untrack(p *progress) {
	p.end()
	w.tracked.mu.Lock()
	defer w.tracked.mu.Unlock()
	delete(w.tracked.all, p)
}

// saveCheckpoints stores the progress of long rows at intervals, until ctx is done. If this worker dies, another worker continues from
// the stored progress.
func (w *Worker) saveCheckpoints(ctx context.Context) {
	tick := time.NewTicker(w.checkpointInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.saveCheckpointsOnce(ctx)
		}
	}
}

func (w *Worker) saveCheckpointsOnce(ctx context.Context) {
	fingerprint := w.fingerprint()
	if fingerprint == "" {
		return
	}
	left := maxCheckpointBytes
	for _, p := range w.tracked.list() {
		encoded, tokens := p.checkpoint(fingerprint)
		if encoded == nil {
			continue
		}
		if left -= len(encoded); left < 0 {
			return
		}
		err := w.queue.SaveCheckpoint(ctx, p.job, encoded)
		switch {
		case err == nil:
			p.wasStored(tokens)
		case errors.Is(err, queue.ErrSuperseded):
			p.end()
		case ctx.Err() == nil:
			w.log.Debug("could not store the progress of a row", "batch", p.job.Batch, "line", p.job.Line, "error", err)
		}
	}
}

// readCheckpoint returns the progress of an earlier attempt, or nil if this worker cannot continue from it.
func (w *Worker) readCheckpoint(ctx context.Context, encoded []byte, log *slog.Logger) *queue.Checkpoint {
	c, err := queue.DecodeCheckpoint(encoded)
	if err != nil {
		log.Warn("could not use the checkpoint of a row: the row starts from the beginning", "error", err)
		return nil
	}
	origin := w.origin
	if origin.ModelSHA256, err = w.sha256(ctx); err != nil || c.Fingerprint != origin.Fingerprint() {
		log.Info("a row starts from the beginning: its checkpoint is of another model or backend, or this worker's model file could not be hashed",
			"tokens", c.Tokens())
		return nil
	}
	log.Info("a row continues from its checkpoint", "tokens", c.Tokens())
	return c
}

// learnHash waits until the model file is hashed, and stores the hash in w.hash.
func (w *Worker) learnHash(ctx context.Context) {
	if hash, err := w.sha256(ctx); err == nil {
		w.hash.Store(&hash)
	}
}

// fingerprint returns a text that identifies the model and the kind of backend. It is empty until the model file is hashed.
func (w *Worker) fingerprint() string {
	hash := w.hash.Load()
	if hash == nil {
		return ""
	}
	origin := w.origin
	origin.ModelSHA256 = *hash
	return origin.Fingerprint()
}
