package metal_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/metal"
)

// BenchmarkDrawOnGPU measures the time to choose the tokens of a step, on the first GPU of each
// driver: with kinds of draws, and with Top for comparison. The logits are normally distributed.
func BenchmarkDrawOnGPU(b *testing.B) {
	const vocab, each = 154_880, 20 // operations per step
	for name, open := range gpus {
		dev, err := open()
		if err != nil {
			b.Skipf("needs a GPU: %v", err)
		}
		for _, rows := range []int{1, 64, 256} {
			be, err := metal.New(dev, metal.Options{})
			require.NoError(b, err)
			logits, step := filled(b, be, rows, vocab)
			dst, err := be.Buffer(rows, 129)
			require.NoError(b, err)
			top := func(k int) func(s compute.Step) {
				return func(s compute.Step) { s.Top(dst.Slice(0, 2*k+1), logits, k) }
			}
			draw := func(d compute.Draw) func(s compute.Step) {
				draws := make([]compute.Draw, rows)
				for i := range draws {
					draws[i] = d
					draws[i].Seed = uint64(i)
				}
				return func(s compute.Step) { s.Draw(dst.Slice(0, compute.DrawCols), logits, draws) }
			}
			edits := make([]compute.Edit, 500)
			for i := range edits {
				edits[i] = compute.Edit{Token: int32(i * 7), Count: 1}
			}
			for _, c := range []struct {
				name string
				op   func(s compute.Step)
			}{
				{"top 1", top(1)},
				{"top 5", top(5)},
				{"greedy", draw(compute.Draw{})},
				{"default", draw(compute.Draw{Temperature: 1})},
				{"min_p", draw(compute.Draw{Temperature: 1, MinP: 0.05})},
				{"top_p", draw(compute.Draw{Temperature: 1, TopP: 0.9})},
				{"top_k", draw(compute.Draw{Temperature: 1, TopK: 40})},
				{"penalties", draw(compute.Draw{Temperature: 1, Frequency: 0.5, Edits: edits})},
			} {
				b.Run(fmt.Sprintf("%s/%s/%d rows", name, c.name, rows), func(b *testing.B) {
					for b.Loop() {
						s := step()
						for range each {
							c.op(s)
						}
						require.NoError(b, s.Run())
					}
					b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*each), "us/op")
				})
			}
			require.NoError(b, be.Close())
		}
	}
}

// filled returns a buffer of normally distributed logits, and a function that begins a step.
func filled(tb testing.TB, be *metal.Backend, rows, cols int) (compute.Tensor, func() compute.Step) {
	tb.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	values := make([]float32, rows*cols)
	for i := range values {
		values[i] = float32(3 * r.NormFloat64())
	}
	data := unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 4*len(values))
	table, err := be.Weight(gguf.Tensor{Name: "logits", Type: gguf.TypeF32, Shape: []int{cols, rows}, Data: data})
	require.NoError(tb, err)
	logits, err := be.Buffer(rows, cols)
	require.NoError(tb, err)
	batch := &compute.Batch{}
	for i := range rows {
		batch.Tokens, batch.Positions = append(batch.Tokens, int32(i)), append(batch.Positions, 0)
		batch.Seqs = append(batch.Seqs, compute.Seq{Rows: 1, Pages: []int32{0}})
	}
	s := be.Begin(batch)
	s.Embed(logits, table)
	require.NoError(tb, s.Run())
	return logits, func() compute.Step { return be.Begin(batch) }
}
