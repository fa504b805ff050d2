package statistics

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Observation is the difference between two runs on a row, or the sum of the differences on a
// cluster of rows.
type Observation struct {
	Unit       string // names the row or cluster; tests on the same rows have the same names
	Difference float64
}

// MaxT returns the one-sided p-value of a loss for each of several tests, adjusted for their
// number: if all are compared with a level, the probability of any false alarm is at most that
// level. It is the step-down procedure maxT of P. Westfall and S. Young (Resampling-Based Multiple
// Testing, 1993).
//
// If two runs are equally good, the difference of a row is as likely negative as positive. The
// signs of the differences are therefore drawn at random, 10,000 times, or all combinations are
// computed for a few rows. All tests of a row get the same sign, so that tests that mostly agree,
// such as two metrics of the same answers, cost hardly more than one. Equal arguments give equal
// results.
func MaxT(tests [][]Observation) []float64 {
	f := newFlips(tests)
	order := make([]int, len(tests)) // the largest loss first
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(f.observed[b], f.observed[a]) })
	reached := make([]int, len(tests)) // draws in which a test of this or a later rank lost as much
	n := f.draw(func(lost []float64) {
		highest := math.Inf(-1)
		for rank, k := range slices.Backward(order) {
			highest = max(highest, lost[k])
			if highest >= f.observed[k]-rounding*float64(f.units) {
				reached[rank]++
			}
		}
	})
	p := make([]float64, len(tests))
	lowest := 0.0
	for rank, k := range order {
		lowest = max(lowest, float64(reached[rank])/float64(n))
		p[k] = lowest
	}
	return p
}

// flips holds the differences of tests by unit, without units that do not differ.
type flips struct {
	units    int          // their number
	tests    [][]unitLoss // the losses of each test, in ascending order of units
	observed []float64    // the loss of each test, as in draw
}

// unitLoss is a unit's part of the loss of a test. The squares of all parts of a test sum to 1,
// which makes the losses of tests comparable.
type unitLoss struct {
	unit int
	part float64
}

func newFlips(tests [][]Observation) *flips {
	f := &flips{tests: make([][]unitLoss, len(tests)), observed: make([]float64, len(tests))}
	at := map[string]int{}
	for k, test := range tests {
		squares := 0.0
		for _, o := range test {
			squares += o.Difference * o.Difference
		}
		for _, o := range test {
			if o.Difference == 0 {
				continue
			}
			i, known := at[o.Unit]
			if !known {
				i = f.units
				at[o.Unit] = i
				f.units++
			}
			part := -o.Difference / math.Sqrt(squares)
			f.tests[k] = append(f.tests[k], unitLoss{i, part})
			f.observed[k] += part
		}
		slices.SortStableFunc(f.tests[k], func(a, b unitLoss) int { return cmp.Compare(a.unit, b.unit) })
	}
	return f
}

// exhaustive is the maximum number of units for which all combinations of signs are computed.
const exhaustive = 13

// draw calls visit with the loss of each test for many combinations of signs, one of which is the
// observed one. It returns their number.
func (f *flips) draw(visit func(lost []float64)) int {
	lost := make([]float64, len(f.observed))
	signs := make([]uint64, (f.units+63)/64) // a bit for each unit: whether it has the other sign
	if f.units <= exhaustive {
		for i := range 1 << f.units {
			copy(signs, []uint64{uint64(i)}) //nolint:gosec // not negative
			f.sum(lost, signs)
			visit(lost)
		}
		return 1 << f.units
	}
	random := rand.New(rand.NewPCG(1, 0)) //nolint:gosec // a simulation
	visit(f.observed)
	for range draws - 1 {
		for i := range signs {
			signs[i] = random.Uint64()
		}
		f.sum(lost, signs)
		visit(lost)
	}
	return draws
}

func (f *flips) sum(lost []float64, signs []uint64) {
	for k, test := range f.tests {
		sum := 0.0
		for _, l := range test {
			sign := signs[l.unit/64] >> (l.unit % 64) << 63
			sum += math.Float64frombits(math.Float64bits(l.part) ^ sign)
		}
		lost[k] = sum
	}
}
