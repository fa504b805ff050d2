package memqueue

import (
	"context"
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/queue"
)

// Recorded implements queue.Store.
func (q *Queue) Recorded(_ context.Context, id string) (queue.Lines, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.find(id)
	if err != nil {
		return nil, nil
	}
	return slices.Clone(b.recorded), nil
}

// Begin implements queue.Store.
func (q *Queue) Begin(_ context.Context, j *queue.Job) (queue.Start, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.open(j.Batch, j.File, j.Line)
	if err != nil {
		return queue.Start{}, err
	}
	if b.recorded.Has(j.Line) {
		return queue.Start{}, queue.ErrRecorded
	}
	if err := b.takes(b.aliasOf(j.Alias), j.Pin); err != nil {
		return queue.Start{}, err
	}
	if b.status.Started == nil {
		b.status.Started = new(now())
	}
	b.attempts[j.Line]++
	return queue.Start{Attempt: b.attempts[j.Line], Checkpoint: b.checkpoints[j.Line]}, nil
}

// Release implements queue.Store.
func (q *Queue) Release(_ context.Context, j *queue.Job) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.find(j.Batch)
	if err != nil {
		return nil
	}
	if b.attempts[j.Line]--; b.attempts[j.Line] <= 0 {
		delete(b.attempts, j.Line)
	}
	return nil
}

// SaveCheckpoint implements queue.Store. A worker dies only together with this queue. So a checkpoint is used only after the row was handed
// back or its attempt failed.
func (q *Queue) SaveCheckpoint(_ context.Context, j *queue.Job, checkpoint []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.open(j.Batch, "", j.Line)
	if err != nil {
		return err
	}
	if !b.recorded.Has(j.Line) {
		b.checkpoints[j.Line] = checkpoint
	}
	return nil
}

// Record implements queue.Store.
func (q *Queue) Record(_ context.Context, id string, r queue.Result) (first bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.open(id, r.File, r.Line)
	if err != nil {
		return false, fmt.Errorf("record line %d of batch %s: %w", r.Line, id, err)
	}
	if b.recorded.Has(r.Line) {
		return false, nil
	}
	alias := b.aliasOf(r.Alias)
	if err := b.takes(alias, r.Pin); err != nil {
		return false, fmt.Errorf("record line %d of batch %s: %w", r.Line, id, err)
	}
	if b.pins[alias] == "" {
		b.pins[alias] = r.Pin
	}
	b.recorded.Add(r.Line)
	delete(b.attempts, r.Line)
	delete(b.checkpoints, r.Line)
	b.last = now()
	s := &b.status
	if r.Failed {
		s.Failed++
	} else {
		s.Done++
	}
	s.PromptTokens += r.Stats.PromptTokens
	s.CachedTokens += r.Stats.CachedTokens
	s.CompletionTokens += r.Stats.CompletionTokens
	s.DraftTokens += r.Stats.DraftTokens
	s.AcceptedTokens += r.Stats.AcceptedTokens
	b.append(r)
	b.finish()
	return true, nil
}
