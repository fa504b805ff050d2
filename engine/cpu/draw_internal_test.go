package cpu

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
)

// keptSorted draws with TopK, MinP and TopP. order has the tokens from the highest logit down.
func keptSorted(logits []float32, order []int, d compute.Draw) int {
	type token struct {
		id     int
		weight uint64
	}
	best := logits[order[0]]
	lowest := best + d.Margin()
	if d.TopK > 0 && d.TopK < len(order) {
		lowest = max(lowest, logits[order[d.TopK-1]])
	}
	_, top := compute.Weigh(best, d.Scale())
	var kept []token
	total := uint64(0)
	for _, id := range order {
		if logits[id] >= lowest && logits[id] > -compute.MaxLogit {
			mantissa, exponent := compute.Weigh(logits[id], d.Scale())
			kept = append(kept, token{id, compute.FixedWeight(mantissa, exponent, top)})
			total += kept[len(kept)-1].weight
		}
	}
	if share := d.Share(); share > 0 {
		mass := compute.Mass(share, total)
		total = 0
		for i := range kept {
			if total += kept[i].weight; total >= mass {
				kept = kept[:i+1]
				break
			}
		}
	}
	slices.SortFunc(kept, func(a, b token) int { return a.id - b.id })
	target := d.Target(total)
	for _, t := range kept {
		if target < t.weight {
			return t.id
		}
		target -= t.weight
	}
	return -1
}

// Samples of tokens may be wrong about where TopP and TopK end. The tokens are those of a sorted
// list for every distribution of logits.
func TestDrawsFromKeptTokens(t *testing.T) {
	t.Parallel()
	const vocab = 40_000
	r := rand.New(rand.NewPCG(15, 16))
	ranks := r.Perm(vocab)
	for name, logit := range map[string]func(i int) float64{
		"flat":     func(int) float64 { return 0.3 * r.NormFloat64() },
		"normal":   func(int) float64 { return r.NormFloat64() },
		"steep":    func(int) float64 { return 3 * r.NormFloat64() },
		"words":    func(i int) float64 { return -1.4 * math.Log(float64(1+ranks[i])) },
		"sure":     func(i int) float64 { return -4 * math.Log(float64(1+ranks[i])) },
		"by index": func(i int) float64 { return -float64(i) / 5000 },
		"unlike the sample": func(i int) float64 {
			if i/sampleBlock%sampleShare == 0 {
				return -3 + 0.1*r.NormFloat64()
			}
			return r.NormFloat64()
		},
		"equal":    func(int) float64 { return 2 },
		"rounded":  func(int) float64 { return math.Round(2 * r.NormFloat64()) },
		"excluded": func(i int) float64 { return []float64{-compute.MaxLogit, math.Inf(-1), r.NormFloat64()}[i%3] },
		"one": func(i int) float64 {
			if i == 777 {
				return 40
			}
			return r.NormFloat64()
		},
	} {
		t.Run(name, func(t *testing.T) {
			be, err := New(1)
			require.NoError(t, err)
			in, err := be.Buffer(1, vocab)
			require.NoError(t, err)
			out, err := be.Buffer(1, compute.DrawCols)
			require.NoError(t, err)
			logits := be.Floats(in)[0]
			for i := range logits {
				logits[i] = float32(logit(i))
			}
			order := make([]int, vocab)
			for i := range order {
				order[i] = i
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(logits[b], logits[a]) })
			for i, d := range []compute.Draw{
				{TopP: 0.001}, {TopP: 0.3}, {TopP: 0.9}, {TopP: 0.999}, {TopP: 0.9999999}, {TopK: 1}, {TopK: 15}, {TopK: 100}, {TopK: 3000},
				{TopK: vocab - 1}, {MinP: 0.9}, {MinP: 0.05}, {MinP: 1e-6}, {TopK: 50, TopP: 0.8}, {MinP: 0.01, TopP: 0.8}, {TopK: 10, MinP: 0.3, TopP: 0.5},
			} {
				for position := range 4 {
					d.Temperature, d.Seed, d.Position = []float64{0.6, 1, 2, 1e-3}[position], uint64(i), position
					s := be.Begin(&compute.Batch{})
					s.Draw(out, in, []compute.Draw{d})
					require.NoError(t, s.Run())
					require.Equal(t, keptSorted(logits, order, d), int(be.Floats(out)[0][0]), "%+v", d)
				}
			}
			require.NoError(t, be.Close())
		})
	}
}
