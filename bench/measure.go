package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
)

// Bench measures cases on one engine.
type Bench struct {
	engine    *engine.Engine
	traffic   Traffic
	bandwidth float64 // bandwidth of the machine's memory, bytes per second
	runs      int     // number of timed runs of a case
	seed      uint64  // seed of the next run's random tokens
	count     func() *Counts
}

// New returns a Bench that times the given number of runs of each case. bandwidth is the bandwidth
// of the memory that has the weights, in bytes per second. It first waits until the engine has
// hashed its model file, because hashing occupies a processor.
func New(ctx context.Context, e *engine.Engine, t Traffic, bandwidth float64, runs int) (*Bench, error) {
	if runs < 1 {
		return nil, fmt.Errorf("the number of runs is %d, but must be at least 1 (--repeat)", runs)
	}
	if _, err := e.SHA256(ctx); err != nil {
		return nil, err
	}
	return &Bench{engine: e, traffic: t, bandwidth: bandwidth, runs: runs}, nil
}

// Measure measures a case: one run to warm up, then the timed runs. The speed is the median of the
// timed runs. The latencies are quantiles over the requests of all timed runs.
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
	before, stepsBefore := b.counts()
	runs := make([]run, b.runs)
	for i := range runs {
		var err error
		if runs[i], err = b.run(ctx, c); err != nil {
			return Record{}, fmt.Errorf("run %d of %d: %w", i+1, b.runs, err)
		}
	}
	r, err := b.record(c, runs)
	after, steps := b.counts()
	r.PerStep = after.per(steps-stepsBefore, before)
	return r, err
}

// prepare computes the contexts of the streams, so that they are in the cache, and then runs a
// short round that is not timed.
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

type run struct {
	rounds  []round
	elapsed time.Duration
}

type round struct {
	start   time.Time
	end     time.Time
	answers []answer
}

type answer struct {
	start time.Time
	times []time.Time
	stats generation.Stats
}

// run runs a case once. In mode full, all requests are one round: Batch requests run at a time, and
// the next request starts as soon as one ends. In the other modes, a round has Batch requests, and
// the next round begins when all of them have ended.
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
		// A page is shared only if the token after it is known. The last page of a context
		// therefore need not be in the cache.
		if one.cached() < (c.Context-1)/engine.DefaultPageSize*engine.DefaultPageSize {
			return run{}, fmt.Errorf("the KV cache is too small for %d contexts of %d tokens: allow more memory (--memory)", c.Batch, c.Context)
		}
		r.rounds = append(r.rounds, one)
		r.elapsed += one.end.Sub(one.start)
	}
	return r, nil
}

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

// cached returns the number of prompt tokens that were in the cache, for the request with the
// fewest.
func (r *round) cached() int {
	fewest := r.answers[0].stats.CachedTokens
	for i := range r.answers {
		fewest = min(fewest, r.answers[i].stats.CachedTokens)
	}
	return fewest
}
