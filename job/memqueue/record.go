package memqueue

import (
	"context"
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/job"
)

// Recorded implements job.Store.
func (q *Queue) Recorded(_ context.Context, id string) (job.Lines, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.find(id)
	if err != nil {
		return nil, nil
	}
	return slices.Clone(b.recorded), nil
}

// Begin implements job.Store.
func (q *Queue) Begin(_ context.Context, id string, line int, file string) (attempt int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.open(id, file)
	if err != nil {
		return 0, err
	}
	if b.recorded.Has(line) {
		return 0, job.ErrRecorded
	}
	if b.status.Started == nil {
		b.status.Started = new(now())
	}
	b.attempts[line]++
	return b.attempts[line], nil
}

// Release implements job.Store.
func (q *Queue) Release(_ context.Context, id string, line int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.find(id)
	if err != nil {
		return nil
	}
	if b.attempts[line]--; b.attempts[line] <= 0 {
		delete(b.attempts, line)
	}
	return nil
}

// Record implements job.Store.
func (q *Queue) Record(_ context.Context, id string, r job.Result) (first bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := q.open(id, r.File)
	if err != nil {
		return false, fmt.Errorf("record line %d of batch %s: %w", r.Line, id, err)
	}
	if b.recorded.Has(r.Line) {
		return false, nil
	}
	b.recorded.Add(r.Line)
	delete(b.attempts, r.Line)
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
