package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ingot-run/ingot/generation"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/engine"
)

// Bench measures cases on one engine.
type Bench struct {
	engine    *engine.Engine
	traffic   Traffic
	bandwidth float64 // of the machine's memory, bytes a second
	runs      int
	seed      uint64 // of the next run's random tokens
	count     func() *Counts
}

// New returns a Bench that times so many runs of a case. It waits until the engine has hashed its model file, which takes a
// processor.
func New(ctx context.Context, e *engine.Engine, t Traffic, bandwidth float64, runs int) (*Bench, error) {
	if runs < 1 {
		return nil, fmt.Errorf("%d runs: at least 1 has to be timed", runs)
	}
	if _, err := e.SHA256(ctx); err != nil {
		return nil, err
	}
	return &Bench{engine: e, traffic: t, bandwidth: bandwidth, runs: runs}, nil
}

// Measure measures a case: a run to warm up, and then the timed ones, whose median speed counts and whose latencies are put
// together.
func (b *Bench) Measure(ctx context.Context, c Case) (Record, error) {
	if c.Mode == Prefill {
		c.Gen = 1
	}
	if err := c.check(); err != nil {
		return Record{}, err
	}
	if err := b.prepare(ctx, c); err != nil {
		return Record{}, fmt.Errorf("warm up: %w", err)
	}
	before := b.tally()
	runs := make([]run, b.runs)
	for i := range runs {
		var err error
		if runs[i], err = b.run(ctx, c); err != nil {
			return Record{}, fmt.Errorf("run %d of %d: %w", i+1, b.runs, err)
		}
	}
	r, err := b.record(c, runs)
	r.PerStep = before.perStep(b.tally())
	return r, err
}

// prepare fills the cache with the contexts and runs a first round that does not count.
func (b *Bench) prepare(ctx context.Context, c Case) error {
	if c.Context > 0 {
		reqs := make([]generation.Request, c.Batch)
		for i := range reqs {
			reqs[i] = generation.Request{Tokens: c.context(i, b.engine.Info().Vocab), MaxTokens: 1, IgnoreEOS: true}
		}
		if _, err := b.round(ctx, reqs, c.Batch); err != nil {
			return err
		}
	}
	reqs := c.requests(b.nextSeed(), b.engine.Info().Vocab)
	reqs = reqs[:min(len(reqs), c.Batch)]
	for i := range reqs {
		reqs[i].MaxTokens = min(max(reqs[i].MaxTokens, 1), 16)
	}
	_, err := b.round(ctx, reqs, c.Batch)
	return err
}

func (b *Bench) nextSeed() uint64 {
	b.seed++
	return b.seed
}

// run is what a run gave.
type run struct {
	rounds  []round
	elapsed time.Duration
}

// round is requests that were in the engine together.
type round struct {
	start   time.Time
	end     time.Time
	answers []answer
}

// answer is what a request gave.
type answer struct {
	start time.Time
	times []time.Time // of its tokens
	stats generation.Stats
}

// run runs a case once. Where a part of the requests is measured, rounds of Batch of them follow each other; in mode full, each
// request that ends makes room for the next.
func (b *Bench) run(ctx context.Context, c Case) (run, error) {
	reqs := c.requests(b.nextSeed(), b.engine.Info().Vocab)
	size := c.Batch
	if c.Mode == Full {
		size = len(reqs)
	}
	var r run
	for part := range slices.Chunk(reqs, size) {
		one, err := b.round(ctx, part, c.Batch)
		if err != nil {
			return run{}, err
		}
		// A page is shared with the token after it, so the last one may be each prompt's own.
		if one.cached() < (c.Context-1)/engine.DefaultPageSize*engine.DefaultPageSize {
			return run{}, fmt.Errorf("the cache does not hold %d contexts of %d tokens: allow more memory", c.Batch, c.Context)
		}
		r.rounds = append(r.rounds, one)
		r.elapsed += one.end.Sub(one.start)
	}
	return r, nil
}

// round asks requests, so many at a time.
func (b *Bench) round(ctx context.Context, reqs []generation.Request, atOnce int) (round, error) {
	r := round{answers: make([]answer, len(reqs)), start: time.Now()}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, req := range reqs {
		group.Go(func() error {
			a := &r.answers[i]
			a.start = time.Now()
			c, err := b.engine.Generate(ctx, req)
			if err != nil {
				return err
			}
			a.times, a.stats = c.Choices[0].Times, c.Stats
			return nil
		})
	}
	err := group.Wait()
	r.end = time.Now()
	return r, err
}

// cached is the fewest prompt tokens that a request found in the cache.
func (r *round) cached() int {
	least := r.answers[0].stats.CachedTokens
	for i := range r.answers {
		least = min(least, r.answers[i].stats.CachedTokens)
	}
	return least
}
