package engine_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// TestFamiliesAreLikeLoneRows answers random rows of each family in batches, and compares each
// answer with that of the row alone, bit for bit. A case is a batch of 2 to 64 rows on an engine of
// random sizes: steps that cut prompts, pages for one row or little more, and one of the family's
// ways to draft. Rows arrive and are cancelled in random steps; cancelled rows are resumed.
//
// A family has few cases, and 1,000 with INGOT_LONG=1. INGOT_SEED repeats the cases of a seed.
func TestFamiliesAreLikeLoneRows(t *testing.T) {
	t.Parallel()
	seed, cases := uint64(time.Now().UnixNano()), 6
	if text := os.Getenv("INGOT_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	if os.Getenv("INGOT_LONG") == "1" {
		cases = 1000
	}
	for _, f := range modeltest.Archived(t) {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			lone := open(t, f.Files[0], engine.Options{Context: familyContext, MaxSequences: 1, Draft: engine.DraftOff, NoSharing: true})
			c := &familyCases{lone: lone, family: f, drafts: []engine.Drafting{engine.DraftOff, engine.DraftNGram, engine.DraftNGram}}
			if f.MTP != nil {
				c.drafts = append(c.drafts, engine.DraftMTP, engine.DraftMTP, engine.DraftAuto)
			}
			if f.Assistant != nil {
				c.drafts = append(c.drafts, engine.DraftModel, engine.DraftModel)
			}
			c.rows = c.drawRows(drawsOf(f.Name, seed, 0), 300)
			for n := 1; n <= cases; n++ {
				c.run(t, drawsOf(f.Name, seed, n), fmt.Sprintf("INGOT_SEED=%d, case %d", seed, n))
			}
			t.Logf("seed %d: %+v", seed, c.familyCounts)
			if cases < 1000 {
				return
			}
			for name, n := range map[string]int{
				"preempted": c.Preempted, "cancelled": c.Cancelled, "resumed": c.Resumed, "cached": c.Cached, "cut": c.Cut,
				"drafted": c.Drafted, "accepted": c.Accepted, "rejected": c.Drafted - c.Accepted,
			} {
				require.Positive(t, n, "%s: must occur at least once, or the test does not cover it", name)
			}
		})
	}
}

// drawsOf returns the draws of a family's case, which do not depend on other families.
func drawsOf(family string, seed uint64, number int) draws {
	h := fnv.New64a()
	h.Write([]byte(family))
	return draws{rand.New(rand.NewPCG(seed^h.Sum64(), uint64(number)))}
}

// familyContext has room for the longest row.
const familyContext = 760

// familyCounts has the numbers of cases, of rows and of what happened to them. Cut is the number of
// parts of prompts that a step computed without their end.
type familyCounts struct {
	Cases, Compared, Sampled, Cancelled, Resumed, Preempted, Cached, Cut, Drafted, Accepted int
	ByMTP, ByAssistant                                                                      int // tokens that were drafted
}

// familyCases runs the cases of a family.
type familyCases struct {
	lone   *engine.Engine // answers one row at a time
	family *modeltest.Family
	drafts []engine.Drafting
	rows   []*familyRow
	familyCounts
}

// familyRow is a row and its answer alone, which is computed when a case first compares it.
type familyRow struct {
	request generation.Request
	answer  *generation.Completion
}

func (r *familyRow) positions() int { return len(r.request.Tokens) + r.request.MaxTokens }

// drawRows draws rows, many of which share the beginning of their prompts with others.
func (c *familyCases) drawRows(d draws, n int) []*familyRow {
	vocabulary := int32(min(c.lone.Info().Vocab, 2000))
	var beginnings [2][]int32
	for i := range beginnings {
		beginnings[i] = c.tokens(d, vocabulary, 700)
	}
	rows := make([]*familyRow, n)
	for i := range rows {
		length := pick(d, d.between(1, 30), d.between(1, 60), d.between(30, 200), d.between(1, 700), d.between(63, 65), d.between(127, 129))
		tokens := c.tokens(d, vocabulary, length)
		if d.oneIn(2) {
			copy(tokens[:pick(d, length-1, length*3/4, min(length, 64))], beginnings[d.IntN(2)])
		}
		req := generation.Request{
			Tokens: tokens, N: pick(d, 0, 0, 0, 0, 0, 2), MaxTokens: d.between(1, pick(d, 8, 30, 80, 80)), IgnoreEOS: !d.oneIn(4),
			Interactive: d.oneIn(3), Logprobs: d.oneIn(3), TopLogprobs: pick(d, 0, 3), PromptLogprobs: d.oneIn(16),
		}
		if d.oneIn(2) {
			req.Sampling = generation.Sampling{Temperature: pick(d, 0.3, 0.8, 1.2), TopK: pick(d, 0, 20), TopP: pick(d, 0.8, 1), Seed: d.Uint64()}
			req.Sampling.RepetitionPenalty = pick(d, 0, 0, 1.1)
		}
		if d.oneIn(4) { // few tokens are likely, so that drafts are right
			req.Sampling.LogitBias = map[int32]float64{d.Int32N(vocabulary): 60, d.Int32N(vocabulary): 60}
		}
		rows[i] = &familyRow{request: req}
	}
	return rows
}

// tokens draws n ids, among them repeated ones from which n-grams can draft.
func (c *familyCases) tokens(d draws, vocabulary int32, n int) []int32 {
	ids := make([]int32, n)
	span := pick(d, 3, 20, vocabulary)
	from := d.Int32N(vocabulary - span + 1)
	for i := range ids {
		ids[i] = from + d.Int32N(span)
	}
	return ids
}

// options draws the sizes of an engine for a batch of rows. longest is the number of positions of
// the longest row, and inFlight the number of steps that may be in flight.
func (c *familyCases) options(t *testing.T, d draws, batch, longest, inFlight int) engine.Options {
	t.Helper()
	opts := engine.Options{
		Context: longest + d.IntN(20), MaxSequences: batch, PageSize: pick(d, 1, 5, 8, 16, 16, 64),
		PrefillChunk: d.between(1, pick(d, 20, 70, 300)), StepTime: wholeSteps,
		Draft: pick(d, c.drafts...), DraftTokens: pick(d, 0, 1, 2, 4), NoSharing: d.oneIn(8),
	}
	opts.StepTokens = batch + d.between(1, pick(d, 30, 100, 300))
	if opts.Draft == engine.DraftModel {
		opts.DraftModel = c.family.Assistant.File
	}
	if d.oneIn(4) {
		return opts
	}
	small := &paced{Backend: backend(t), inFlight: inFlight}
	fits := func(memory int64) (engine.Fit, error) {
		sized := opts
		sized.Memory = memory
		return engine.CheckFit(c.family.Files[0], small, sized)
	}
	fit, err := fits(1 << 40)
	require.NoError(t, err)
	const unit, most = 1 << 10, 1 << 20 // 1 KiB to 1 GiB
	least := sort.Search(most, func(n int) bool {
		_, err := fits(int64(n) * unit)
		return n > 0 && err == nil
	})
	require.NoError(t, small.Close())
	opts.Memory = int64(least)*unit + int64(opts.Context)*fit.PerToken*int64(d.between(0, 40))/100
	return opts
}

func (c *familyCases) run(t *testing.T, d draws, about string) {
	t.Helper()
	batch := pick(d, 2, d.between(2, 8), d.between(4, 12), d.between(4, 16), d.between(2, 64))
	limit := pick(d, 100, 100, 200, familyContext) // preemptions are frequent if rows are of like lengths
	longest := 0
	var rows []*familyRow
	var attempts []*attempt
	growing := d.oneIn(3) // prompts are short, so that many rows are admitted, and preempted when their answers grow
	for _, i := range d.Perm(len(c.rows)) {
		row := c.rows[i]
		if len(rows) == batch || row.positions() > limit || growing && (len(row.request.Tokens) > 40 || row.request.MaxTokens < 30) {
			continue
		}
		a := &attempt{request: row.request, arrives: int64(d.IntN(pick(d, 1, 20, 40)))}
		if d.oneIn(8) {
			a.cancels = a.arrives + 1 + int64(d.IntN(20))
		}
		rows, attempts = append(rows, row), append(attempts, a)
		longest = max(longest, row.positions())
	}
	attempts[0].arrives = 0
	be := &cutting{paced: paced{Backend: backend(t), inFlight: pick(d, 1, 1, 8)}}
	opts := c.options(t, d, batch, longest, be.inFlight)
	be.drafter = opts.Draft != engine.DraftOff && opts.Draft != engine.DraftNGram
	e, err := engine.Open(c.family.Files[0], be, opts)
	require.NoError(t, err, "%s: %+v", about, opts)
	be.parts = 0
	if opts.Memory > 0 {
		expectShort(t, e, nil)
	}
	before := e.Snapshot()
	gates := newSteps(&be.paced, attempts)
	var group sync.WaitGroup
	for i := range attempts {
		group.Go(func() {
			defer gates.release()
			attempts[i].run(t.Context(), e, gates, i)
		})
	}
	group.Wait()
	idle(t, e)
	s := e.Snapshot()
	require.NoError(t, e.Close())
	drafted := int(s.DraftTokens - before.DraftTokens)
	c.Cases++
	c.Preempted += int(s.Preemptions)
	c.Drafted += drafted
	c.Accepted += int(s.AcceptedTokens - before.AcceptedTokens)
	c.Cut += be.parts
	switch opts.Draft {
	case engine.DraftMTP:
		c.ByMTP += drafted
	case engine.DraftModel:
		c.ByAssistant += drafted
	}
	for i, row := range rows {
		c.compare(t, row, attempts[i], fmt.Sprintf("%s, %s, row %d, %+v", c.family.Name, about, i, opts))
	}
}

func (c *familyCases) compare(t *testing.T, row *familyRow, a *attempt, about string) {
	t.Helper()
	if a.cancelled {
		c.Cancelled++
	}
	if a.cancelled && a.progress == nil { // the row cannot be resumed
		require.ErrorIs(t, a.err, context.Canceled, about)
		return
	}
	require.NoError(t, a.err, about)
	if row.answer == nil {
		answer := generate(t, c.lone, row.request)
		row.answer = &answer
	}
	same(t, *row.answer, a.got, about)
	c.Compared++
	c.Cached += a.got.Stats.CachedTokens
	if a.got.Stats.ResumedTokens > 0 {
		c.Resumed++
	}
	if row.request.Sampling.Temperature > 0 {
		c.Sampled++
	}
}

// cutting counts parts of prompts without their end: the sequences of steps that have no output. If
// the model or an assistant drafts, some steps are those of the drafter, and none is counted.
type cutting struct {
	paced
	drafter bool
	parts   int
}

func (c *cutting) Begin(b *compute.Batch) compute.Step {
	row := int32(0)
	for _, s := range b.Seqs {
		next := row + int32(s.Rows)
		if !c.drafter && !slices.ContainsFunc(b.Outputs, func(o int32) bool { return row <= o && o < next }) {
			c.parts++
		}
		row = next
	}
	return c.paced.Begin(b)
}
