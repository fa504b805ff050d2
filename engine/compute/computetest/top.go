package computetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
)

// checkTop finds the highest logits of rows of odd lengths with many equal values, of rows in which
// a value is -Inf, and of rows with values that are not logits. It requests more logits than a
// GPU's SIMD group has lanes, or all logits. One row is longer than the square of the number of
// threads in a GPU's threadgroup.
func checkTop(r *rig) {
	for _, c := range []struct{ rows, cols, k int }{{1, 1, 1}, {3, 33, 33}, {4, 1000, 1}, {9, 2047, 20}, {2, 5001, 41}, {1, 263_000, 3}} {
		logits := r.normal(c.rows, c.cols)
		for i, row := range logits {
			for j := range row {
				if i%2 == 0 {
					row[j] = float32(math.Round(float64(4 * row[j]))) // many values are equal
				}
			}
		}
		if c.k < c.cols {
			logits[0][r.rand.IntN(c.cols)] = float32(math.Inf(-1))
		}
		r.top(logits, c.k)
		r.sameSum(logits, c.k)
		broken := r.broken(c.cols)
		r.topOfBroken(broken, c.k)
	}
}

// broken returns rows without a result: two with a value that is not finite, two in which all are
// not.
func (r *rig) broken(cols int) [][]float32 {
	rows := r.normal(4, cols)
	rows[0][r.rand.IntN(cols)], rows[1][r.rand.IntN(cols)] = float32(math.NaN()), float32(math.Inf(1))
	for j := range cols {
		rows[2][j], rows[3][j] = float32(math.Inf(-1)), float32(math.NaN())
	}
	return rows
}

func (r *rig) top(logits [][]float32, k int) {
	r.verify(operation{
		what:    fmt.Sprintf("the highest %d of %d rows of %d logits", k, len(logits), len(logits[0])),
		groups:  separate(len(logits)),
		compute: func(rows []int) [][]float32 { return r.computeTop(pick(logits, rows), k) },
		compare: func(row int, got []float32) error { return within(got, topOf(logits[row], k)) },
	})
}

// sameSum checks that log Σ exp has the same bits for any number of highest logits, since another
// row of the batch may request more.
func (r *rig) sameSum(logits [][]float32, k int) {
	one, some := r.computeTop(logits, 1), r.computeTop(logits, k)
	for i := range logits {
		if a, b := one[i][2], some[i][2*k]; math.Float32bits(a) != math.Float32bits(b) {
			r.tb.Fatalf("row %d: log Σ exp is %g with one highest logit, but %g with %d", i, a, b, k)
		}
	}
}

// topOfBroken checks that for logits that are not finite, the last value is not finite and the ids
// are in range.
func (r *rig) topOfBroken(logits [][]float32, k int) {
	for i, row := range r.computeTop(logits, k) {
		if sum := float64(row[2*k]); !math.IsNaN(sum) && !math.IsInf(sum, 0) {
			r.tb.Fatalf("row %d has logits that are not finite, but its log Σ exp is %g", i, sum)
		}
		for _, id := range row[:k] {
			if !(id >= 0 && int(id) < len(logits[i])) {
				r.tb.Fatalf("row %d has logits that are not finite; the backend returned the id %g, but ids must be from 0 to %d", i, id, len(logits[i])-1)
			}
		}
	}
}

func (r *rig) computeTop(logits [][]float32, k int) [][]float32 {
	in, out := r.sheet(logits), r.blank(len(logits), 2*k+1)
	return r.run(r.flat(len(logits), 1), func(s compute.Step) { s.Top(out.Tensor, in.Tensor, k) }, out, in)
}

func topOf(logits []float32, k int) []approx {
	ids := make([]int, len(logits))
	for i := range ids {
		ids[i] = i
	}
	slices.SortStableFunc(ids, func(a, b int) int { return cmp.Compare(logits[b], logits[a]) })
	var want, values []approx
	for _, id := range ids[:k] {
		want = append(want, approx{value: float64(id)})
		values = append(values, approx{value: float64(logits[id])})
	}
	best, sum := float64(logits[ids[0]]), 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v) - best)
	}
	total := best + math.Log(sum)
	// A relative error of the sum is an absolute error of its logarithm.
	tol := float64(len(logits)+16)*float32Step + 2*expStep + 4*float32Step*(math.Abs(best)+math.Abs(total))
	return append(append(want, values...), approx{total, tol})
}

// manyRows is the number of additional rows that one of the steps gathers. No backend reserves
// memory for so many row numbers in advance. A backend must therefore allocate more while it
// records the step, after earlier operations of the step and while another step is in flight.
const manyRows = 1 << 17

// checkInFlight starts more steps than can be in flight. Each step takes its tokens from the
// previous step and gathers different rows. Row t of the embedding table has its highest value at
// the token that must follow t.
func checkInFlight(r *rig) {
	const vocab, rows = 37, 5
	follows := r.rand.Perm(vocab)
	values := r.normal(vocab, vocab)
	for t, next := range follows {
		values[t][next] = 100
	}
	table := r.weight(floats(values))
	require.GreaterOrEqual(r.tb, r.be.MaxInFlight(), 1)
	n := r.be.MaxInFlight() + 3
	x, tops, chosen, batches := r.newBuffer(rows, vocab), make([]compute.Tensor, n), make([]compute.Tensor, n), make([]*compute.Batch, n)
	lists := make([][]int32, n)
	tokens := make([]int, rows)
	for i := range n {
		tops[i], chosen[i], batches[i] = r.newBuffer(rows, 3), r.newBuffer(rows, vocab), r.flat(rows, 1)
		for j := range tokens {
			if i == 0 {
				tokens[j] = r.rand.IntN(vocab)
				batches[0].Tokens[j] = int32(tokens[j])
			}
			lists[i] = append(lists[i], int32(r.rand.IntN(rows)))
		}
		if i > 0 {
			batches[i].From = tops[i-1]
		}
	}
	many, large := make([]int32, manyRows), r.newBuffer(manyRows, vocab)
	for i, b := range batches {
		s := r.be.Begin(b)
		s.Embed(x, table)
		s.Gather(chosen[i], x, lists[i])
		if i == 1 {
			s.Gather(large, x, many)
		}
		s.Top(tops[i], x, 1)
		done := s.Submit
		if (i+1)%r.be.MaxInFlight() == 0 || i == n-1 {
			done = s.Run
		}
		require.NoError(r.tb, done())
		clear(b.Tokens) // a submitted step must not read its batch any more
	}
	for i := range n {
		top, copies := r.be.Floats(tops[i]), r.be.Floats(chosen[i])
		for j, t := range tokens {
			tokens[j] = follows[t]
			if got := int(top[j][0]); got != tokens[j] {
				r.tb.Fatalf("step %d of %d, row %d: the next token must be %d, but is %d", i, n, j, tokens[j], got)
			}
		}
		for j, from := range lists[i] {
			if copies[j][tokens[from]] != 100 {
				r.tb.Fatalf("step %d of %d: gathered row %d does not have the values of row %d", i, n, j, from)
			}
		}
	}
}

// checkAwait reads the results of each step while the next step is in flight, which takes its
// tokens from these results. The steps write to two buffers in turn.
func checkAwait(r *rig) {
	const vocab, rows = 1000, 5
	follows := r.rand.Perm(vocab)
	values := r.normal(vocab, vocab)
	for t, next := range follows {
		values[t][next] = 100
	}
	table, x := r.weight(floats(values)), r.newBuffer(rows, vocab)
	chosen := []compute.Tensor{r.newBuffer(rows, compute.DrawCols), r.newBuffer(rows, compute.DrawCols)}
	tokens := make([]int, rows)
	n := 2*r.be.MaxInFlight() + 3
	for i := range n {
		b := r.flat(rows, 1)
		if i > 0 {
			b.From = chosen[1-i%2]
		}
		for j := range tokens {
			if i == 0 {
				tokens[j] = r.rand.IntN(vocab)
				b.Tokens[j] = int32(tokens[j])
			}
		}
		s := r.be.Begin(b)
		s.Embed(x, table)
		s.Draw(chosen[i%2], x, make([]compute.Draw, rows))
		if r.be.MaxInFlight() == 1 {
			require.NoError(r.tb, s.Run())
		} else {
			require.NoError(r.tb, s.Submit())
		}
		if i == 0 {
			continue
		}
		require.NoError(r.tb, r.be.Await(1))
		for j, row := range r.be.Floats(chosen[1-i%2]) {
			tokens[j] = follows[tokens[j]]
			if got := int(row[0]); got != tokens[j] {
				r.tb.Fatalf("step %d of %d, row %d: the next token must be %d, but is %d while the next step is in flight", i-1, n, j, tokens[j], got)
			}
		}
	}
	require.NoError(r.tb, r.be.Await(0))
	for j, row := range r.be.Floats(chosen[(n-1)%2]) {
		require.Equal(r.tb, follows[tokens[j]], int(row[0]), "row %d of the last step", j)
	}
}
