package computetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
)

// checkDraw draws tokens with random options from rows of odd lengths, some with many equal logits,
// some with logits of -Inf and some with values that are not logits. One row is longer than a GPU's
// kernels divide evenly.
func checkDraw(r *rig) {
	for _, c := range []struct{ rows, cols int }{{1, 1}, {7, 33}, {40, 1000}, {12, 2049}, {9, 6007}, {3, 154_880}, {1, 263_000}} {
		r.draw(r.drawLogits(c.rows, c.cols), r.draws(c.rows, c.cols))
	}
	for range 5 {
		r.drawBroken(r.broken(5000))
	}
}

// drawLogits returns rows of logits like those of language models: a few are high, and many are
// almost equal.
func (r *rig) drawLogits(rows, cols int) [][]float32 {
	logits := r.normal(rows, cols)
	for i, row := range logits {
		scale := float32(math.Exp2(float64(r.rand.IntN(5))))
		for j := range row {
			switch i % 3 {
			case 0:
				row[j] = float32(math.Round(float64(4 * row[j]))) // many values are equal
			case 1:
				row[j] *= scale
			}
		}
		if i%4 == 1 {
			for range min(20, cols) {
				row[r.rand.IntN(cols)] += 20
			}
		}
		if i%5 == 2 {
			for id := 1; id < cols; id += 1 + r.rand.IntN(max(1, cols/8)) {
				row[id] = float32(math.Inf(-1))
			}
		}
	}
	return logits
}

// draws returns random options for rows. Each option alone and any combination occur.
func (r *rig) draws(rows, cols int) []compute.Draw {
	all := make([]compute.Draw, rows)
	maybe := func(v float64) float64 {
		if r.rand.IntN(3) == 0 {
			return v
		}
		return 0
	}
	for i := range all {
		d := &all[i]
		d.Seed, d.Position, d.Choice = r.rand.Uint64(), r.rand.IntN(5000), r.rand.IntN(4)
		if r.rand.IntN(8) > 0 {
			d.Temperature = math.Exp2(4*r.rand.Float64() - 2)
		}
		if r.rand.IntN(20) == 0 {
			d.Temperature = []float64{5e-324, 1e-9, 1e9, 1e35, math.MaxFloat64}[r.rand.IntN(5)]
		}
		d.MinP, d.TopP = maybe(r.rand.Float64()/2), maybe(r.rand.Float64())
		if r.rand.IntN(3) == 0 {
			d.TopK = 1 + r.rand.IntN(min(cols+2, []int{10, 300, 5000}[r.rand.IntN(3)]))
		}
		if r.rand.IntN(3) == 0 {
			d.Repetition, d.Presence, d.Frequency = float32(0.5+r.rand.Float64()), float32(maybe(r.rand.NormFloat64())), float32(maybe(r.rand.NormFloat64()))
		}
		if r.rand.IntN(3) == 0 {
			for _, id := range r.rand.Perm(cols)[:r.rand.IntN(min(cols, 1200))] {
				e := compute.Edit{Token: int32(id), Count: int32(r.rand.IntN(3)), Seen: r.rand.IntN(2) == 0, Excluded: r.rand.IntN(5) == 0}
				if r.rand.IntN(4) == 0 {
					e.Bias = float32(10 * r.rand.NormFloat64())
				}
				d.Edits = append(d.Edits, e)
			}
		}
		if r.rand.IntN(4) == 0 {
			d.Mask = make([]uint32, (cols+31)/32)
			for i := range d.Mask {
				d.Mask[i] = r.rand.Uint32()
			}
			d.Mask[0] |= 1
		}
		if r.rand.IntN(10) == 0 {
			d.Given, d.Token = true, int32(r.rand.IntN(cols))
		}
	}
	return all
}

func (r *rig) draw(logits [][]float32, draws []compute.Draw) {
	r.verify(operation{
		what:    fmt.Sprintf("tokens drawn from %d rows of %d logits", len(logits), len(logits[0])),
		groups:  separate(len(logits)),
		compute: func(rows []int) [][]float32 { return r.computeDraw(logits, draws, rows) },
		compare: func(row int, got []float32) error {
			want := drawn(logits[row], draws[row])
			if r.fast {
				return want.near(got)
			}
			if err := within(got, []approx{{value: float64(want.id)}, {value: float64(logits[row][want.id])}, {value: float64(want.best)}}); err != nil {
				return fmt.Errorf("%w, with %+v", err, draws[row])
			}
			return want.checkExact()
		},
	})
}

// drawBroken checks that the last value of a row with logits that are not finite is infinite, and
// that its id is in range.
func (r *rig) drawBroken(logits [][]float32) {
	rows := []int{0, 1, 2, 3}
	for i, row := range r.computeDraw(logits, r.draws(len(rows), len(logits[0])), rows) {
		if !math.IsInf(float64(row[2]), 0) {
			r.tb.Fatalf("row %d has logits that are not finite, but its highest logit is %g", i, row[2])
		}
		if id := row[0]; !(id >= 0 && int(id) < len(logits[i])) {
			r.tb.Fatalf("row %d has logits that are not finite; the backend returned the id %g, but ids must be from 0 to %d", i, id, len(logits[i])-1)
		}
	}
}

func (r *rig) computeDraw(logits [][]float32, draws []compute.Draw, rows []int) [][]float32 {
	in, out := r.sheet(pick(logits, rows)), r.blank(len(rows), compute.DrawCols)
	got := r.run(r.flat(len(rows), 1), func(s compute.Step) {
		s.Draw(out.Tensor, in.Tensor, pick(draws, rows))
	}, out)
	r.read(in) // checks that nothing outside of the view has changed
	return got
}

// choice is what Draw must choose from a row.
type choice struct {
	id     int
	best   float32   // the highest logit after the edits
	random float64   // the random number in [0, 1)
	ids    []int     // tokens that can be drawn, ascending
	exact  []float64 // their probabilities in float64
}

// candidate is a token with its logit after the edits and its weight.
type candidate struct {
	id     int
	logit  float32
	weight uint64
}

// drawn chooses a token by the definition of compute.Draw, with a sorted list of all tokens.
func drawn(logits []float32, d compute.Draw) choice {
	all := make([]candidate, len(logits))
	edits := map[int]compute.Edit{}
	for _, e := range d.Edits {
		edits[int(e.Token)] = e
	}
	for id, l := range logits {
		if e, ok := edits[id]; ok {
			l = d.Edited(l, e)
		}
		if len(d.Mask) > 0 && d.Mask[id/32]>>(id%32)&1 == 0 {
			l = -compute.MaxLogit
		}
		all[id] = candidate{id: id, logit: l}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.logit, a.logit) })
	best := all[0]
	c := choice{id: best.id, best: best.logit, random: float64(compute.Random(d.Seed, d.Position, d.Choice)>>11) * 0x1p-53}
	if d.Given {
		c.id = int(d.Token)
		return c
	}
	if d.Temperature == 0 || math.Abs(float64(best.logit)) >= compute.MaxLogit {
		return c
	}
	c.sample(all, d)
	return c
}

// sample draws from candidates, which are sorted by their logits.
func (c *choice) sample(all []candidate, d compute.Draw) {
	scale, best := d.Scale(), all[0].logit
	lowest := best + d.Margin()
	if d.TopK > 0 && d.TopK < len(all) {
		lowest = max(lowest, all[d.TopK-1].logit)
	}
	parts := 1
	if d.Whole() {
		parts = (len(all) + compute.DrawPart - 1) / compute.DrawPart
	}
	tops := make([]int32, parts)
	for i := range tops {
		tops[i] = math.MinInt32
	}
	part := func(id int) int {
		if parts == 1 {
			return 0
		}
		return id / compute.DrawPart
	}
	for _, t := range all {
		_, exponent := compute.Weigh(t.logit, scale)
		tops[part(t.id)] = max(tops[part(t.id)], exponent)
	}
	total := uint64(0)
	kept := 0
	for i := range all {
		if all[i].logit < lowest || all[i].logit <= -compute.MaxLogit {
			break
		}
		mantissa, exponent := compute.Weigh(all[i].logit, scale)
		all[i].weight = compute.FixedWeight(mantissa, exponent, tops[part(all[i].id)])
		total += all[i].weight
		kept++
	}
	all = all[:kept]
	if share := d.Share(); share > 0 {
		mass, sum := compute.Mass(share, total), uint64(0)
		for i, t := range all {
			if sum += t.weight; sum >= mass {
				all = all[:i+1]
				break
			}
		}
	}
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(a.id, b.id) })
	c.find(all, d, tops, part)
	sum := 0.0
	for _, t := range all {
		c.ids = append(c.ids, t.id)
		c.exact = append(c.exact, math.Exp((float64(t.logit)-float64(best))/max(d.Temperature, 1e-300)))
		sum += c.exact[len(c.exact)-1]
	}
	for i := range c.exact {
		c.exact[i] /= sum
	}
}

// find finds the token in two stages: the part, and the token in it.
func (c *choice) find(all []candidate, d compute.Draw, tops []int32, part func(id int) int) {
	top, sums, total := slices.Max(tops), make([]uint64, len(tops)), uint64(0)
	for _, t := range all {
		sums[part(t.id)] += t.weight
	}
	for p := range sums {
		total += sums[p] >> min(uint32(top-tops[p]), 63)
	}
	target, at := d.Target(total), 0
	for target >= sums[at]>>min(uint32(top-tops[at]), 63) {
		target -= sums[at] >> min(uint32(top-tops[at]), 63)
		at++
	}
	sum := uint64(0)
	for _, t := range all {
		if part(t.id) != at {
			continue
		}
		if sum += t.weight; sum>>min(uint32(top-tops[at]), 63) > target {
			c.id = t.id
			return
		}
	}
}

// intervalTolerance is the maximum distance of the random number from the interval of the drawn
// token, as float64 computes it.
const intervalTolerance = 3e-6

// checkExact checks that the random number is in the interval that the token's probability in
// float64 gives it, except for rounding.
func (c *choice) checkExact() error {
	from := 0.0
	for i, id := range c.ids {
		to := from + c.exact[i]
		if id == c.id && (c.random < from-intervalTolerance || c.random > to+intervalTolerance) {
			return fmt.Errorf("token %d has the interval [%g, %g) in float64, but the random number is %g", id, from, to, c.random)
		}
		from = to
	}
	return nil
}

// near checks a result of fast arithmetic: the token must be one that can be drawn.
func (c *choice) near(got []float32) error {
	if len(c.ids) > 0 && !slices.Contains(c.ids, int(got[0])) {
		return fmt.Errorf("token %g cannot be drawn", got[0])
	}
	return nil
}
