package draft

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/internal/cache"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/model"
)

// Kinds of simulated texts.
var texts = map[string]func(r *rand.Rand, n int) []int32{
	"repetitive": func(r *rand.Rand, n int) []int32 { return repeat(random(r, 23, 1000), n) },
	"random":     func(r *rand.Rand, n int) []int32 { return random(r, n, 1000) },
	// n-grams recur, but what follows them does not.
	"deceptive": func(r *rand.Rand, n int) []int32 { return random(r, n, 6) },
	"changing": func(r *rand.Rand, n int) (text []int32) {
		for len(text) < n {
			text = append(append(text, repeat(random(r, 11, 1000), 90)...), random(r, 90, 5)...)
		}
		return text[:n]
	},
	"records": func(r *rand.Rand, n int) (text []int32) {
		frame := random(r, 12, 1000)
		for len(text) < n {
			text = append(append(text, frame...), random(r, 6, 1000)...)
		}
		return text[:n]
	},
	// Lines of a few forms with a few names, like those of a program.
	"code": func(r *rand.Rand, n int) (text []int32) {
		forms, names := [][]int32{random(r, 7, 1000), random(r, 4, 1000), random(r, 11, 1000)}, random(r, 12, 1000)
		for len(text) < n {
			line := slices.Clone(forms[r.IntN(len(forms))])
			for range 2 {
				line[1+r.IntN(len(line)-1)] = names[r.IntN(len(names))]
			}
			text = append(text, line...)
		}
		return text[:n]
	},
	// A repetitive text that is drawn: every other token is another one.
	"drawn": func(r *rand.Rand, n int) []int32 {
		text := repeat(random(r, 23, 1000), n)
		for i := range text {
			if r.IntN(2) == 0 {
				text[i] = r.Int32N(1000)
			}
		}
		return text
	},
}

func init() {
	kinds := slices.Sorted(maps.Keys(texts))
	// Texts of all kinds at once.
	texts["mixed"] = func(r *rand.Rand, n int) []int32 { return texts[kinds[r.IntN(len(kinds))]](r, n) }
}

func random(r *rand.Rand, n int, vocab int32) []int32 {
	text := make([]int32, n)
	for i := range text {
		text[i] = r.Int32N(vocab)
	}
	return text
}

func repeat(part []int32, n int) (text []int32) {
	for len(text) < n {
		text = append(text, part...)
	}
	return text[:n]
}

// machine has the true durations of steps, of which a Speculator has an estimate.
type machine struct {
	estimate *cost.Steps
	slow     float64 // factor of a step with drafts and of the steps shortly after it; 0 for 1
	output   float64 // seconds per output that the estimate does not know
	// Steps without drafts are in flight together, up to the number inFlight; 0 for 1. The estimate
	// is that of single steps, of which a processor takes the time host to prepare them. It
	// prepares all but the first of the steps in flight while the device computes the one before.
	inFlight int
	host     float64
	// fresh is the additional time to prepare the first steps with a number of rows: the first
	// entry is that of the first step. Inputs alternate between a number of places, and the steps
	// of each place are counted apart. Devices with graphs have such steps.
	fresh  []float64
	places int
	// prompts reports whether a step computes the prompts of the texts that begin with it.
	prompts bool
	// uneven is the additional time of a step with drafts or prompts, whose number of rows is
	// seldom that of an earlier step.
	uneven float64
	// waste is the share of a step that the rows of texts that have ended may take before the steps
	// in flight are the last ones; 0 if no step may have such rows.
	waste float64
}

// device is a machine with the steps that it has run.
type device struct {
	*machine
	runs  map[[2]int]int // by number of rows and place
	steps int
	since int // steps since the last step with drafts
}

// run returns the seconds of a number of steps in flight together. The first one also has rows of
// prompts.
func (d *device) run(size cost.Size, prompts, steps int, drafts bool) (seconds float64) {
	further := size
	size.Rows += prompts
	for i := range steps {
		if i > 0 {
			size = further
		}
		s := d.estimate.Seconds(size) + d.output*float64(size.Outputs)
		d.since++
		if drafts {
			d.since = 0
		}
		if d.since < 4 && d.slow > 0 {
			s *= d.slow
		}
		if drafts || i == 0 && prompts > 0 {
			s += d.uneven
		}
		key, fresh := [2]int{size.Rows, d.steps % max(d.places, 1)}, 0.0
		if n := d.runs[key]; n < len(d.fresh) {
			fresh = d.fresh[n]
		}
		d.runs[key]++
		d.steps++
		if i == 0 {
			seconds += s + fresh
		} else {
			seconds += max(s-d.host, d.host+fresh)
		}
	}
	return seconds
}

// simulate generates texts and returns the seconds that it takes. Without a Speculator, nothing is
// drafted. temperature returns that of each row.
func simulate(m *machine, sp *Speculator, all [][]int32, streams int, temperature func(row int) float64) (seconds float64) {
	const prompt = 40
	pool := cache.NewPool(1<<16, 16, cache.Groups{})
	d := device{machine: m, runs: map[[2]int]int{}, since: 100}
	var running []*Sequence
	whole := map[*Sequence][]int32{}
	begun, before := 0, 0
	for len(all) > 0 || len(running) > 0 {
		for len(running) < streams && len(all) > 0 {
			s := &Sequence{Tokens: append([]int32(nil), all[0][:prompt]...), Limit: len(all[0]), Temperature: temperature(begun), Table: pool.NewTable()}
			s.Table.Grow(len(all[0]))
			begun++
			whole[s], running, all = all[0], append(running, s), all[1:]
		}
		if sp != nil {
			if err := sp.Draft(nil, Next{Running: len(running), Decode: running}); err != nil {
				panic(err)
			}
		}
		rows, drafted, steps := len(running), 0, max(m.inFlight, 1)
		if sp != nil {
			steps = min(steps, sp.MaxRun())
		}
		for _, s := range running {
			drafted += len(s.Drafts)
		}
		steps = min(steps, useful(running, int(m.waste*float64(rows))))
		if rows += drafted; drafted > 0 {
			steps = 1
		}
		prompts := 0
		if m.prompts {
			prompts = prompt * (begun - before)
		}
		before = begun
		took := Step{Size: cost.Size{Rows: rows + prompts/steps, Outputs: rows}, Steps: steps, Waiting: len(all) > 0}
		run := d.run(cost.Size{Rows: rows, Outputs: rows}, prompts, steps, drafted > 0)
		took.Seconds = run / float64(steps)
		seconds += run
		for _, s := range running {
			text := whole[s]
			for range steps {
				for more := true; more && len(s.Tokens) < len(text); {
					token, before := text[len(s.Tokens)], s.Accepted
					s.Verify(token)
					s.Tokens, more = append(s.Tokens, token), s.Accepted > before
				}
			}
		}
		if sp != nil {
			sp.Observe(running, took)
		}
		var left []*Sequence
		for _, s := range running {
			if len(s.Tokens) < len(whole[s]) {
				left = append(left, s)
			} else {
				s.Table.Release()
			}
		}
		running = left
	}
	return seconds
}

// useful returns the number of steps after which the rows of texts that have ended are more than
// allowed.
func useful(running []*Sequence, wasted int) (steps int) {
	for wasted >= 0 {
		steps++
		for _, s := range running {
			if s.remaining() <= steps {
				wasted--
			}
		}
	}
	return steps
}

// TestRegret generates simulated texts with drafts and without, on machines whose steps take as
// long as estimated, longer or, with several in flight, shorter. With drafts, no run may take over
// 2 % longer, whatever the text, and repetitive texts must take much less time where rows are
// cheap.
func TestRegret(t *testing.T) {
	t.Parallel()
	cheap := cost.NewSteps(cost.NewCurve([]int{1, 64, 512}, []float64{1, 1.5, 6}), 0, 0.002, 0)
	dear := cost.NewSteps(cost.NewCurve([]int{1, 8, 64, 512}, []float64{1, 1.2, 8, 64}), 0, 0, 0)
	tiles := cost.NewSteps(cost.NewCurve([]int{1, 16, 17, 32, 33, 512}, []float64{1, 1.1, 1.6, 1.7, 2.2, 20}), 0, 0, 0)
	// A small model on an H100. The durations are those of its steps, in ms.
	gpu := cost.NewSteps(cost.NewCurve([]int{1, 64, 128, 256, 512}, []float64{1, 1.6, 1.8, 2.5, 4}), 0, 0, 0)
	machines := map[string]machine{
		"cheap rows": {estimate: cheap}, "dear rows": {estimate: dear}, "rows in tiles": {estimate: tiles},
		"slow with drafts": {estimate: cheap, slow: 1.3}, "slow drawing": {estimate: cheap, output: 0.03},
		"steps in flight": {estimate: gpu, inFlight: 8, host: 0.45},
		"graphs":          {estimate: gpu, inFlight: 8, host: 0.45, fresh: []float64{0.3, 0.3, 0.3, 0.3, 1.5}, places: 8},
		"prompts":         {estimate: gpu, inFlight: 8, host: 0.45, fresh: []float64{0.3, 0.3, 0.3, 0.3, 1.5}, places: 8, prompts: true},
		"long runs":       {estimate: gpu, inFlight: 32, host: 0.5, prompts: true, uneven: 0.7, waste: 0.25},
	}
	// The maximum time with drafts of repetitive texts, by streams.
	gains := map[string]map[int]float64{
		"cheap rows":      {1: 0.25, 16: 0.35, 64: 0.6},
		"steps in flight": {1: 0.3, 16: 0.45, 64: 0.6},
		"graphs":          {1: 0.4, 16: 0.45, 64: 0.6},
		"prompts":         {1: 0.4, 16: 0.5, 64: 0.65},
		"long runs":       {1: 0.5, 16: 0.7, 64: 0.72},
	}
	worst := 0.0
	for name, m := range machines {
		for kind, text := range texts {
			for _, streams := range []int{1, 16, 64} {
				r := rand.New(rand.NewPCG(2, uint64(streams)))
				var all [][]int32
				for range 6*streams + 9 {
					all = append(all, text(r, 60+r.IntN(500)))
				}
				temperature := func(i int) float64 { return 0 }
				if kind == "mixed" { // greedy rows and drawn ones
					temperature = func(i int) float64 { return float64(i % 2) }
				}
				sp, err := New(Options{NGram: true, Steps: m.estimate, Limits: model.Limits{Rows: 512}, MaxInFlight: min(max(m.inFlight, 1), 3), Sequences: streams})
				require.NoError(t, err)
				without, with := simulate(&m, nil, all, streams, temperature), simulate(&m, sp, all, streams, temperature)
				worst = max(worst, with/without)
				t.Logf("%s, %s, %d streams: %.3f", name, kind, streams, with/without)
				require.LessOrEqual(t, with/without, 1.02, "%s, %s, %d streams", name, kind, streams)
				if most, ok := gains[name]; ok && kind == "repetitive" {
					require.Less(t, with/without, most[streams], "%s, %d streams", name, streams)
				}
			}
		}
	}
	t.Logf("worst: %.3f", worst)
}

// TestKindsLearnApart checks that drafts of drawn sequences that are mostly wrong do not keep
// greedy sequences from drafting.
func TestKindsLearnApart(t *testing.T) {
	t.Parallel()
	steps := cost.NewSteps(cost.NewCurve([]int{1, 64}, []float64{1, 4}), 0, 0, 0)
	sp, err := New(Options{NGram: true, Steps: steps, Limits: model.Limits{Rows: 512}, MaxInFlight: 1})
	require.NoError(t, err)
	m := machine{estimate: steps}
	r := rand.New(rand.NewPCG(1, 1))
	generate := func(text func(r *rand.Rand, n int) []int32, temperature float64) float64 {
		var all [][]int32
		for range 40 {
			all = append(all, text(r, 300))
		}
		of := func(int) float64 { return temperature }
		return simulate(&m, nil, all, 8, of) / simulate(&m, sp, all, 8, of)
	}
	generate(texts["deceptive"], 1)
	require.Greater(t, generate(texts["repetitive"], 0), 1.5)
	require.Greater(t, sp.learned[0].ngram.share[0], 0.9)
	require.Less(t, sp.learned[kinds-1].ngram.share[0], 0.5)
}
