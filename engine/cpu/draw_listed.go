package cpu

// listed are the tokens of a row whose logits are between two limits, ascending by their ids.
type listed struct {
	values  []float32
	weights []float32
	ends    []int  // the index at which each part's tokens end
	n       int    // number of tokens
	inside  uint64 // sum of their weights
	above   uint64 // sum of the weights of all higher logits; scratch.sums has it for each part
	total   uint64 // sum of all weights
}

// written is the number of values that the kernels may write beyond a list's end.
const written = 16

// begin empties the list. It gets memory for a row.
func (l *listed) begin(vocab int) {
	l.values, l.weights = grow(l.values, vocab+written), grow(l.weights, vocab+written)
	l.ends = l.ends[:0]
	l.n, l.inside, l.above, l.total = 0, 0, 0, 0
}

// weighListed computes the weights of the listed tokens.
func (d *drawing) weighListed(lowest float32) {
	l := &d.memory.listed
	if l.n > 0 {
		l.inside = d.weigh(l.values[:l.n], lowest, d.highest, l.weights)
	}
}

// aboveLimit returns the sum of the weights of the values above a limit.
func (d *drawing) aboveLimit(values, weights []float32, limit float32) uint64 {
	if len(values) == 0 {
		return 0
	}
	a := &d.memory.above
	a.X, a.Weights, a.N, a.Limit = &values[0], &weights[0], int64(len(values)), float64(limit)
	d.kernels.Above(a)
	return a.Sum
}

// span is a range of logits above low, up to high, with the sums of the weights of a list's values
// above both.
type span struct {
	low, high           float32
	aboveLow, aboveHigh uint64
}

// point is a logit with the sum of the weights of a list's values above it.
type point struct {
	limit float32
	above uint64
}

// within makes the range smaller with points of it. It still has aboveHigh < goal <= aboveLow.
func (r *span) within(points []point, goal uint64) {
	for _, p := range points {
		switch {
		case p.above >= goal && p.limit > r.low:
			r.low, r.aboveLow = p.limit, p.above
		case p.above < goal && p.limit < r.high:
			r.high, r.aboveHigh = p.limit, p.above
		}
	}
}

// rounds is the maximum number of rounds in which a range is made smaller.
const rounds = 16

// narrow makes a range smaller in which the sum of the weights of values, from the highest down,
// reaches goal: aboveHigh < goal <= aboveLow. It stops when the range weighs at most tolerance. It
// interpolates by the Illinois method.
func (d *drawing) narrow(r *span, values, weights []float32, goal, tolerance uint64) {
	side := 0
	low, high := float64(r.aboveLow-goal), float64(goal-r.aboveHigh)
	for range rounds {
		limit := float32(float64(r.low) + low/(low+high)*(float64(r.high)-float64(r.low)))
		if r.aboveLow-r.aboveHigh <= tolerance || !(limit > r.low && limit < r.high) {
			return
		}
		if sum := d.aboveLimit(values, weights, limit); sum >= goal {
			r.low, r.aboveLow, low = limit, sum, float64(sum-goal)
			if side == 1 {
				high /= 2
			}
			side = 1
		} else {
			r.high, r.aboveHigh, high = limit, sum, float64(goal-sum)
			if side == -1 {
				low /= 2
			}
			side = -1
		}
	}
}

// halve is like narrow, but halves the range: for one that is large and has most values in a small
// part. It records where it added up weights.
func (d *drawing) halve(r *span, values, weights []float32, goal, tolerance uint64) {
	m := d.memory
	for range rounds {
		limit := float32((float64(r.low) + float64(r.high)) / 2)
		if r.aboveLow-r.aboveHigh <= tolerance || !(limit > r.low && limit < r.high) {
			return
		}
		p := point{limit, d.aboveLimit(values, weights, limit)}
		m.points = append(m.points, p)
		r.within([]point{p}, goal)
	}
}
