package batch

import (
	"time"

	"github.com/ingot-run/ingot/progress"
)

// Progress is how far a batch is.
type Progress struct {
	Batch           Batch
	Tokens          Tokens  // of the finished rows; if Alone continues a batch after an interruption, only of the rows since then
	RowsPerSecond   float64 // over the last minute; 0 if the batch does not run
	TokensPerSecond float64 // generated ones
}

// Progress returns a page of the batches with their speed.
func (s *Store) Progress(q Query) (Page[Progress], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return page(s.batchIDs, batchPrefix, q, func(id string) (Progress, bool) { return s.batches[id].progress(), true })
}

// BatchProgress returns a batch with its speed, or ErrNoBatch.
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

// report is called with the tokens after results were written.
func (b *batch) report(t Tokens) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = t
	b.sample()
}

// sample adds the counts of this moment to the measured speed. b.mu is held.
func (b *batch) sample() {
	out := b.results.Load()
	if out == nil {
		return
	}
	held, failed := out.Counts()
	b.speed.Add(time.Now(), progress.Counts{Done: held - failed, Failed: failed, Tokens: b.tokens.Completion})
}
