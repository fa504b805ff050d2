package computetest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
)

const (
	minP          = 1e-4 // no test has a lower p value
	statisticRows = 250  // rows of a step
	// Tokens with few expected draws share bins: one for each of statisticParts parts of the
	// vocabulary.
	statisticParts = 16
)

// DrawStatistics draws many tokens with each option alone and with 40 random combinations from a
// vocabulary of 1,000, and with each option alone from one of 154,880. It compares their numbers
// with the probabilities in float64. No p value may be below 1e-4, and all together must be
// uniformly distributed. draws and manyDraws are the numbers of tokens for the two vocabularies.
func DrawStatistics(t *testing.T, open func(tb testing.TB) compute.Backend, draws, manyDraws int) {
	t.Helper()
	be := open(t)
	r := newRig(t, be, "statistics")
	small := r.options(1000)
	for i := range 40 {
		small[fmt.Sprintf("combination %d", i)] = r.draws(1, 1000)[0]
	}
	all := r.pValues(small, 1000, draws)
	require.Greater(t, len(all), 30)
	all = append(all, r.pValues(r.options(154_880), 154_880, manyDraws)...)
	slices.Sort(all)
	distance := 0.0
	for i, p := range all {
		distance = max(distance, math.Abs(p-float64(i)/float64(len(all))), math.Abs(p-float64(i+1)/float64(len(all))))
	}
	distance *= math.Sqrt(float64(len(all)))
	t.Logf("%d p values from %.2g to %.2g; scaled distance from the uniform distribution: %.2f", len(all), all[0], all[len(all)-1], distance)
	// Kolmogorov and Smirnov's test: a larger distance has a probability of 0.001.
	require.Less(t, distance, 1.95, "the p values are not uniform: %.3f", all)
	require.NoError(t, be.Close())
}

// options returns each option alone.
func (r *rig) options(vocab int) map[string]compute.Draw {
	options := map[string]compute.Draw{
		"temperature 1": {Temperature: 1}, "cold": {Temperature: 0.3}, "hot": {Temperature: 2.5}, "top_k": {Temperature: 1, TopK: 40},
		"min_p": {Temperature: 1, MinP: 0.02}, "top_p": {Temperature: 1, TopP: 0.9}, "repetition": {Temperature: 1, Repetition: 1.3},
		"presence": {Temperature: 1, Presence: 1.5}, "frequency": {Temperature: 1, Frequency: 0.7}, "bias": {Temperature: 1},
		"mask": {Temperature: 1},
	}
	for _, name := range []string{"repetition", "presence", "frequency", "bias"} {
		d := options[name]
		for id := range int32(300) {
			e := compute.Edit{Token: 3 * id, Count: id % 4, Seen: id%5 == 0}
			if name == "bias" {
				e.Bias = float32(id%7) - 3
			}
			d.Edits = append(d.Edits, e)
		}
		options[name] = d
	}
	mask := options["mask"]
	for range (vocab + 31) / 32 {
		mask.Mask = append(mask.Mask, r.rand.Uint32())
	}
	options["mask"] = mask
	return options
}

// pValues returns the p value of each set of options for which several outcomes are expected.
func (r *rig) pValues(options map[string]compute.Draw, vocab, draws int) (all []float64) {
	for n, name := range slices.Sorted(maps.Keys(options)) {
		d := options[name]
		d.Seed, d.Position, d.Choice, d.Given = uint64(vocab+n), 0, 0, false
		if d.Temperature == 0 || d.Temperature > 1e3 || d.Temperature < 1e-3 {
			d.Temperature = 0.8
		}
		p, ok := r.pValue(d, vocab, draws)
		if !ok {
			continue
		}
		if p < minP {
			r.tb.Fatalf("%d draws from %d tokens with %s have the p value %g", draws, vocab, name, p)
		}
		all = append(all, p)
	}
	return all
}

// pValue draws tokens and returns the p value of Pearson's test. ok is false if only one outcome is
// expected.
func (r *rig) pValue(d compute.Draw, vocab, draws int) (p float64, ok bool) {
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = float32(2 * r.rand.NormFloat64())
	}
	probabilities, possible := probabilitiesOf(logits, d), probabilitiesOf(logits, lenient(d))
	bins, rare, common := make([]int, len(logits)), make([]float64, statisticParts), []float64(nil)
	for id, q := range probabilities {
		if n := q * float64(draws); n >= 8 {
			bins[id] = len(rare) + len(common)
			common = append(common, n)
		} else {
			bins[id] = id * statisticParts / vocab
			rare[bins[id]] += n
		}
	}
	expected := slices.Concat(rare, common)
	seen := make([]float64, len(expected))
	table, in, out := r.weight(floats([][]float32{logits})), r.newBuffer(statisticRows, len(logits)), r.newBuffer(statisticRows, compute.DrawCols)
	batch := r.flat(statisticRows, 1)
	clear(batch.Tokens)
	list := make([]compute.Draw, statisticRows)
	for from := 0; from < draws; from += statisticRows {
		for i := range list {
			list[i] = d
			list[i].Position = from + i
		}
		r.step(batch, func(s compute.Step) {
			s.Embed(in, table)
			s.Draw(out, in, list)
		})
		for i, row := range r.be.Floats(out)[:min(statisticRows, draws-from)] {
			id := int(row[0])
			if possible[id] == 0 {
				r.tb.Fatalf("draw %d: token %d cannot be drawn with %+v", from+i, id, d)
			}
			seen[bins[id]]++
		}
	}
	sum, freedom := 0.0, -1
	for i, want := range expected {
		if want < 8 {
			continue // a bin with few expected draws is left out; its draws are rare
		}
		sum += (seen[i] - want) * (seen[i] - want) / want
		freedom++
	}
	if freedom < 1 {
		return 0, false
	}
	// Wilson and Hilferty's approximation of the chi-squared distribution.
	k := float64(freedom)
	z := (math.Cbrt(sum/k) - (1 - 2/(9*k))) / math.Sqrt(2/(9*k))
	return math.Erfc(z/math.Sqrt2) / 2, true
}

// lenient returns options that also allow the tokens at the limits of top_p and min_p, which
// rounding may decide in either way.
func lenient(d compute.Draw) compute.Draw {
	d.MinP *= 1 - 1e-5
	if d.TopP > 0 {
		d.TopP += intervalTolerance
	}
	return d
}

// probabilitiesOf returns the probabilities of all tokens, by the definition of each option in
// float64.
func probabilitiesOf(logits []float32, d compute.Draw) []float64 {
	type token struct {
		id int
		l  float64
		p  float64
	}
	var all []token
	for id, l := range logits {
		if len(d.Mask) > 0 && d.Mask[id/32]>>(id%32)&1 == 0 {
			continue
		}
		x, excluded := float64(l), false
		for _, e := range d.Edits {
			if int(e.Token) != id {
				continue
			}
			excluded = e.Excluded
			x += float64(e.Bias)
			if d.Repetition != 0 && (e.Seen || e.Count > 0) {
				if x > 0 {
					x /= float64(d.Repetition)
				} else {
					x *= float64(d.Repetition)
				}
			}
			x -= float64(d.Frequency)*float64(e.Count) + float64(d.Presence)*min(float64(e.Count), 1)
		}
		if !excluded {
			all = append(all, token{id: id, l: x})
		}
	}
	slices.SortStableFunc(all, func(a, b token) int { return cmp.Compare(b.l, a.l) })
	soften := func() {
		sum := 0.0
		for i := range all {
			all[i].p = math.Exp((all[i].l - all[0].l) / d.Temperature)
			sum += all[i].p
		}
		for i := range all {
			all[i].p /= sum
		}
	}
	soften()
	for d.MinP > 0 && all[len(all)-1].p < d.MinP*all[0].p {
		all = all[:len(all)-1]
	}
	if d.TopK > 0 && d.TopK < len(all) {
		all = all[:d.TopK] // logits are distinct
	}
	soften()
	if d.TopP > 0 && d.TopP < 1 {
		sum := 0.0
		for i := range all {
			if sum += all[i].p; sum >= d.TopP {
				all = all[:i+1]
				break
			}
		}
	}
	soften()
	out := make([]float64, len(logits))
	for _, t := range all {
		out[t.id] = t.p
	}
	return out
}
