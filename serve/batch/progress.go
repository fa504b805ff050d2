package batch

import (
	"time"

	"github.com/ingot-run/ingot/internal/progress"
)

// Progress is a batch with its progress.
type Progress struct {
	Batch           Batch
	Tokens          Tokens  // token counts of the finished rows; Alone omits rows that were finished before an interruption
	RowsPerSecond   float64 // speed over the last minute; 0 if the batch is not running
	TokensPerSecond float64 // generated tokens per second over the last minute
}

// Progress returns a page of the batches with their progress.
func (s *Store) Progress(q Query) (Page[Progress], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return page(s.batchIDs, batchPrefix, q, func(id string) (Progress, bool) { return s.batches[id].progress(), true })
}

// BatchProgress returns a batch with its progress. The error is ErrNoBatch if there is none with
// this id.
func (s *Store) BatchProgress(id string) (Progress, error) {
	b, err := s.find(id)
	if err != nil {
		return Progress{}, err
	}
	return b.progress(), nil
}

func (b *batch) progress() Progress {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sample()
	p := Progress{Batch: b.view(), Tokens: b.tokens}
	if b.results.Load() != nil {
		p.RowsPerSecond, p.TokensPerSecond = b.speed.Speed()
	}
	return p
}

func (b *batch) report(t Tokens) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = t
	b.sample()
}

// sample adds the current counts to the speed measurement. b.mu must be held.
func (b *batch) sample() {
	out := b.results.Load()
	if out == nil {
		return
	}
	lines, failed := out.Counts()
	b.speed.Add(time.Now(), progress.Counts{Done: lines - failed, Failed: failed, Tokens: b.tokens.Completion})
}
