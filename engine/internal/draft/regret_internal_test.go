package draft

import (
	"fmt"
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
	slow     float64 // factor of a step with drafts and of the steps shortly after it
	output   float64 // seconds per output that the estimate does not know
}

func (m *machine) seconds(size cost.Size, since int) float64 {
	s := m.estimate.Seconds(size) + m.output*float64(size.Outputs)
	if since < 4 {
		s *= m.slow
	}
	return s
}

// simulate generates texts and returns the seconds that it takes. Without a Speculator, nothing is
// drafted. temperature returns that of each row.
func simulate(m *machine, sp *Speculator, all [][]int32, streams int, temperature func(row int) float64) (seconds float64) {
	const prompt = 40
	pool := cache.NewPool(1<<16, 16, cache.Groups{})
	var running []*Sequence
	whole := map[*Sequence][]int32{}
	since, begun := 100, 0
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
		rows, drafted := len(running), 0
		for _, s := range running {
			drafted += len(s.Drafts)
		}
		rows += drafted
		since++
		if drafted > 0 {
			since = 0
		}
		took := Step{Size: cost.Size{Rows: rows, Outputs: rows}, Steps: 1, Waiting: len(all) > 0}
		took.Seconds = m.seconds(took.Size, since)
		seconds += took.Seconds
		for _, s := range running {
			text := whole[s]
			for more := true; more && len(s.Tokens) < len(text); {
				token, before := text[len(s.Tokens)], s.Accepted
				s.Verify(token)
				s.Tokens, more = append(s.Tokens, token), s.Accepted > before
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

// TestRegret generates simulated texts with drafts and without, on machines whose steps take as
// long as estimated or longer. With drafts, no run may take over 2 % longer, whatever the text, and
// repetitive texts must take much less time where rows are cheap.
func TestRegret(t *testing.T) {
	t.Parallel()
	cheap := cost.NewSteps(cost.NewCurve([]int{1, 64, 512}, []float64{1, 1.5, 6}), 0, 0.002, 0)
	dear := cost.NewSteps(cost.NewCurve([]int{1, 8, 64, 512}, []float64{1, 1.2, 8, 64}), 0, 0, 0)
	tiles := cost.NewSteps(cost.NewCurve([]int{1, 16, 17, 32, 33, 512}, []float64{1, 1.1, 1.6, 1.7, 2.2, 20}), 0, 0, 0)
	machines := map[string]machine{
		"cheap rows": {cheap, 1, 0}, "dear rows": {dear, 1, 0}, "rows in tiles": {tiles, 1, 0},
		"slow with drafts": {cheap, 1.3, 0}, "slow drawing": {cheap, 1, 0.03},
	}
	worst := 0.0
	for name, m := range machines {
		for kind, text := range texts {
			for _, streams := range []int{1, 16, 64} {
				r := rand.New(rand.NewPCG(2, uint64(streams)))
				var all [][]int32
				for range 3 * streams {
					all = append(all, text(r, 60+r.IntN(500)))
				}
				temperature := func(i int) float64 { return 0 }
				if kind == "mixed" { // greedy rows and drawn ones
					temperature = func(i int) float64 { return float64(i % 2) }
				}
				sp, err := New(Options{NGram: true, Steps: m.estimate, Limits: model.Limits{Rows: 512}, MaxInFlight: 3})
				require.NoError(t, err)
				without, with := simulate(&m, nil, all, streams, temperature), simulate(&m, sp, all, streams, temperature)
				worst = max(worst, with/without)
				t.Logf("%s, %s, %d streams: %.3f", name, kind, streams, with/without)
				require.LessOrEqual(t, with/without, 1.02, "%s, %s, %d streams", name, kind, streams)
				if kind == "repetitive" && name == "cheap rows" && streams < 64 {
					require.Less(t, with/without, 0.5, fmt.Sprint(streams))
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
	m := machine{steps, 1, 0}
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
