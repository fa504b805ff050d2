package computetest

import (
	"fmt"
	"math"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// checkMemory checks the shapes that a backend reports for its weights, buffers, tables and caches,
// and the errors for impossible requests.
func checkMemory(r *rig) {
	for _, t := range r.types {
		n := t.BlockSize()
		for _, shape := range [][]int{{n}, {n, 3}, {2 * n, 3, 2}} {
			w := r.weight(RandomTensor(r.rand, "weight", t, 1, shape...))
			require.Equal(r.tb, t, w.Type())
			require.Equal(r.tb, shape, w.Shape(), "type %v", t)
		}
	}
	buffer := r.newBuffer(3, 5)
	require.Equal(r.tb, []int{3, 5}, []int{buffer.Rows, buffer.Cols})
	require.GreaterOrEqual(r.tb, buffer.Stride, 5)
	require.Equal(r.tb, 8, r.newRope(compute.RopeFreqs{Freqs: make([]float32, 4), Scale: 1}, 10).Dims(), "a table of 4 rotations")
	shape := compute.CacheShape{Layers: 2, Pages: 3, PageSize: 4, KeyCols: 5}
	require.Equal(r.tb, shape, r.newCache(shape).Shape())
	require.NotEmpty(r.tb, r.be.Name())
	require.NotEmpty(r.tb, r.be.Device())
	r.checkRefusals()
}

// checkRefusals makes impossible requests for memory, as a model file can. A backend must return
// errors and not panic.
func (r *rig) checkRefusals() {
	refused := func(request string, err error) { require.Error(r.tb, err, "%s must be refused", request) }
	for _, size := range [][2]int{{0, 1}, {1, 0}, {-1, 4}} {
		_, err := r.be.Buffer(size[0], size[1])
		refused(fmt.Sprintf("a buffer of %d by %d", size[0], size[1]), err)
	}
	_, err := r.be.Rope(compute.RopeFreqs{Freqs: []float32{1}, Scale: 1}, 0)
	refused("a RoPE table of no positions", err)
	_, err = r.be.Rope(compute.RopeFreqs{Scale: 1}, 10)
	refused("a RoPE table of no rotations", err)
	whole := compute.CacheShape{Layers: 1, Pages: 1, PageSize: 1, KeyCols: 1, ValueCols: 1}
	for _, change := range []func(s *compute.CacheShape){
		func(s *compute.CacheShape) { s.Layers = 0 },
		func(s *compute.CacheShape) { s.Pages = 0 },
		func(s *compute.CacheShape) { s.PageSize = 0 },
		func(s *compute.CacheShape) { s.KeyCols = 0 },
		func(s *compute.CacheShape) { s.ValueCols = -1 },
		func(s *compute.CacheShape) { s.KeyCols, s.Type = 33, gguf.TypeQ80 },
		func(s *compute.CacheShape) { s.KeyCols, s.ValueCols, s.Type = 256, 0, gguf.TypeQ6K },
	} {
		shape := whole
		change(&shape)
		_, err := r.be.Cache(shape)
		refused(fmt.Sprintf("a cache of shape %+v", shape), err)
	}
	_, err = r.be.Weight(RandomTensor(r.rand, "weight", gguf.TypeF32, 1, 2, 2, 2, 2))
	refused("a weight of four dimensions", err)
	_, err = r.be.Weight(gguf.Tensor{Name: "weight", Type: gguf.TypeQ80, Shape: []int{33}, Data: make([]byte, 68)})
	refused("a weight of 33 values in blocks of 32", err)
}

// checkCheckpoint compares the order, sums and norms of checkpoints with the calls of Checkpoint.
// Some tensors are views.
func checkCheckpoint(r *rig) {
	a, b := r.sheet(r.normal(5, 33)), r.sheet(r.normal(2, 700))
	var got []compute.Checkpoint
	batch := r.flat(5, 1)
	record := func(s compute.Step) {
		s.Checkpoint(-1, "a", a.Tensor)
		s.Checkpoint(7, "b", b.Tensor)
	}
	r.run(batch, record, a, b) // a step without a trace
	batch.Trace = func(p compute.Checkpoint) { got = append(got, p) }
	r.run(batch, record, a, b)
	var want []compute.Checkpoint
	for i, s := range []*sheet{a, b} {
		for row := range s.Rows {
			p := compute.Checkpoint{Layer: []int{-1, 7}[i], Stage: []string{"a", "b"}[i], Row: row}
			for _, v := range s.values[s.row+row][s.col : s.col+s.Cols] {
				p.Sum += float64(v)
				p.Norm += float64(v) * float64(v)
			}
			p.Norm = math.Sqrt(p.Norm)
			want = append(want, p)
		}
	}
	require.Len(r.tb, got, len(want))
	for i, w := range want {
		g, tol := got[i], 1e-4*w.Norm
		if g.Layer != w.Layer || g.Stage != w.Stage || g.Row != w.Row || !(math.Abs(g.Sum-w.Sum) <= tol) || !(math.Abs(g.Norm-w.Norm) <= tol) {
			r.tb.Fatalf("checkpoint %d is %+v, but must be %+v", i, g, w)
		}
	}
}

// checkSequence runs the layers of a small model in one step, and again with one step per
// operation.
func checkSequence(r *rig) {
	const hidden, ffn, rows = 64, 96, 11
	c := r.grouped(4, 2, 16, 16, 16, 4, 6, 4, 1)
	gain := r.matrix(gguf.TypeF32, hidden)
	wq, wk, wv := r.matrix(gguf.TypeQ40, hidden, 64), r.matrix(gguf.TypeF16, hidden, 32), r.matrix(gguf.TypeQ80, hidden, 32)
	wo, gate := r.matrix(gguf.TypeQ80, 64, hidden), r.matrix(gguf.TypeQ40, hidden, ffn)
	up, down := r.matrix(gguf.TypeQ40, hidden, ffn), r.matrix(gguf.TypeQ50, ffn, hidden)
	table := r.matrix(gguf.TypeF16, hidden, rows)
	var seqRows []seqRow
	for i, lines := range c.lines {
		for p := range lines {
			seqRows = append(seqRows, seqRow{i, p})
		}
	}
	rope := r.rope(c)
	pages := [][]int32{{5, 0}, {3}, {1}}

	// forward returns the operations, on new memory, and the buffer of their result.
	forward := func() ([]func(s compute.Step), *sheet) {
		cache := r.newCache(compute.CacheShape{Layers: 2, Pages: 6, PageSize: 4, KeyCols: c.keyCols, ValueCols: c.valCols})
		x, h, out := r.blank(rows, hidden), r.blank(rows, hidden), r.blank(3, hidden)
		qkv, attn, act := r.blank(rows, 128), r.blank(rows, 64), r.blank(rows, ffn)
		ops := []func(s compute.Step){func(s compute.Step) { s.Embed(x.Tensor, table.weight) }}
		norm := func(s compute.Step) { s.RMSNorm(h.Tensor, x.Tensor, gain.weight, 1e-5) }
		for layer := range 2 {
			attention := []func(s compute.Step){
				norm,
				func(s compute.Step) { s.MatMul(qkv.Tensor, h.Tensor, wq.weight, wk.weight, wv.weight) },
				func(s compute.Step) { s.RopeStore(qkv.Tensor, compute.Projection{}, c.shape, rope, cache, layer) },
				func(s compute.Step) { s.Attention(attn.Tensor, qkv.Tensor, c.shape, cache, layer) },
				func(s compute.Step) { s.MatMulAdd(x.Tensor, attn.Tensor, wo.weight) },
			}
			feedForward := []func(s compute.Step){
				norm,
				func(s compute.Step) { s.GatedMatMul(act.Tensor, h.Tensor, gate.weight, up.weight, compute.SiLU) },
				func(s compute.Step) { s.MatMulAdd(x.Tensor, act.Tensor, down.weight) },
			}
			ops = slices.Concat(ops, attention, feedForward)
		}
		return append(ops,
			func(s compute.Step) { s.RMSNorm(x.Tensor, x.Tensor, gain.weight, 1e-5) },
			func(s compute.Step) { s.Gather(out.Tensor, x.Tensor, []int32{5, 9, 10}) },
		), out
	}

	together, first := forward()
	b := batch(seqRows, pages)
	one := r.run(b, func(s compute.Step) {
		for _, op := range together {
			op(s)
		}
	}, first)
	apart, second := forward()
	var many [][]float32
	for _, op := range apart {
		many = r.run(b, op, second)
	}
	for i := range one {
		if err := sameBits(one[i], many[i]); err != nil {
			r.tb.Fatalf("two layers: between one step and %d steps, row %d of the output differs: %v", len(apart), i, err)
		}
	}
}
