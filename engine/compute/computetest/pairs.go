package computetest

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// manyCols is the maximum number of columns of checks with several rows, of square weights, and of
// all checks in a brief suite. With more columns, these checks would take most of the suite's time
// on the emulator, where kernels for tiles are slow.
const manyCols = 1056

// checkPairs runs operations on one row that read each other's results. They run in one step, where
// a backend may fuse several of them into one kernel, and in a separate step each. After both runs,
// all tensors must have the same bits, including the results in between.
func checkPairs(r *rig) {
	for _, cols := range []int{32, 576, 1024, 1056, 2048, 4096, 4352} {
		if cols <= manyCols || !r.brief {
			r.normThenProduct(1, cols)
			r.normThenExperts(1, cols, r.among(4, 70))
		}
	}
	for _, q := range []int{32, 768, 1536, 2080} {
		for _, rank := range []int{32, 512} {
			r.latentsThenProduct(q, rank)
		}
	}
	for _, length := range []int{1, 128, 129, 700, 1100} {
		r.attentionThenProduct(length)
		r.attentionThenExpand(length, 64)
	}
	for _, length := range []int{129, 1100} {
		r.attentionThenExpand(length, 512)
	}
}

// checkPairsOfRows is checkPairs for several rows.
func checkPairsOfRows(r *rig) {
	for _, cols := range []int{32, 576, 1024, manyCols} {
		r.normThenProduct(3, cols)
		r.normThenExperts(3, cols, r.among(4, 70))
	}
	for _, c := range []struct{ rows, experts int }{{2, 256}, {33, 128}, {64, 5}, {65, 33}, {7, 257}} {
		r.normThenExperts(c.rows, 64, c.experts)
	}
}

// together runs each operation in a separate step, restores the values of the sheets, and runs all
// operations in one step. The sheets must have the same bits after both runs.
func (r *rig) together(what string, b *compute.Batch, sheets []*sheet, ops ...func(s compute.Step)) {
	r.what = what
	for _, s := range sheets {
		r.load(s)
	}
	for _, op := range ops {
		r.step(b, op)
	}
	var want [][][]float32
	for _, s := range sheets {
		want = append(want, r.read(s))
		r.load(s)
	}
	r.step(b, ops...)
	for i, s := range sheets {
		for row, got := range r.read(s) {
			if err := sameBits(got, want[i][row]); err != nil {
				r.fail("tensor %d, row %d differs between one step and %d steps: %v", i, row, len(ops), err)
			}
		}
	}
}

func (r *rig) normThenProduct(rows, cols int) {
	const out = 80
	added := min(cols, manyCols) // number of columns of the product that is added to x
	kind := []gguf.Type{gguf.TypeQ80, gguf.TypeQ40, gguf.TypeF16}[r.rand.IntN(3)]
	if cols%256 == 0 && r.rand.IntN(2) == 0 {
		kind = gguf.TypeQ4K
	}
	x, h, y, z := r.blank(rows, cols), r.blank(rows, cols), r.blank(rows, out), r.blank(rows, 2*out)
	sheets := []*sheet{x, h, y, z}
	gain, w, v := r.matrix(gguf.TypeF32, cols), r.matrix(kind, cols, out), r.matrix(kind, cols, added)
	b := r.flat(rows, 1)
	norm := func(s compute.Step) { s.RMSNorm(h.Tensor, x.Tensor, gain.weight, 1e-5) }
	first := func(s compute.Step) { s.MatMul(y.Tensor, h.Tensor, w.weight) }
	for _, c := range []struct {
		what string
		ops  []func(s compute.Step)
	}{
		{"a product", []func(s compute.Step){norm, first}},
		{"two products", []func(s compute.Step){norm, first, func(s compute.Step) { s.MatMul(z.Tensor, h.Tensor, w.weight, w.weight) }}},
		{"a product that is added to the input of the norm", []func(s compute.Step){norm, func(s compute.Step) { s.MatMulAdd(x.Slice(0, added), h.Tensor, v.weight) }}},
		{"a product of the input of the norm", []func(s compute.Step){norm, func(s compute.Step) { s.MatMul(y.Tensor, x.Tensor, w.weight) }, first}},
		{"a gated product", []func(s compute.Step){norm, func(s compute.Step) { s.GatedMatMul(y.Tensor, h.Tensor, w.weight, w.weight, compute.SiLU) }}},
		{"a norm in place", []func(s compute.Step){func(s compute.Step) { s.RMSNorm(x.Tensor, x.Tensor, gain.weight, 1e-5) }, func(s compute.Step) { s.MatMul(y.Tensor, x.Tensor, w.weight) }}},
		{"two norms", []func(s compute.Step){norm, func(s compute.Step) { s.RMSNorm(x.Tensor, h.Tensor, gain.weight, 1e-5) }, first}},
		{"nothing", []func(s compute.Step){norm}},
	} {
		r.together(fmt.Sprintf("a norm of %d rows of %d values and %s of %v", rows, cols, c.what, kind), b, sheets, c.ops...)
	}
}

func (r *rig) normThenExperts(rows, cols, count int) {
	shape := compute.RouteShape{Experts: count, Used: r.among(1, 4), Gating: compute.GatingSigmoid, Normalise: true, Scale: 1.8}
	const ffn = 64
	kind := []gguf.Type{gguf.TypeQ80, gguf.TypeF16}[r.rand.IntN(2)]
	width := shape.Used * ffn
	experts := compute.Experts{
		Gate: r.matrix(kind, cols, ffn, shape.Experts).weight, Up: r.matrix(kind, cols, ffn, shape.Experts).weight,
		Down: r.matrix(kind, ffn, cols, shape.Experts).weight,
	}
	if r.rand.IntN(2) == 0 {
		kind := []gguf.Type{kind, gguf.TypeQ50}[r.rand.IntN(2)]
		experts.SharedGate, experts.SharedUp = r.matrix(kind, cols, ffn).weight, r.matrix(kind, cols, ffn).weight
		experts.SharedDown = r.matrix(kind, ffn, cols).weight
		width += ffn
	}
	x, h, routing, act := r.blank(rows, cols), r.blank(rows, cols), r.blank(rows, 2*shape.Used), r.blank(rows, width)
	other := r.blank(rows, cols)
	gain, router := r.matrix(gguf.TypeF32, cols), r.matrix([]gguf.Type{gguf.TypeF32, gguf.TypeF16}[r.rand.IntN(2)], cols, shape.Experts)
	var bias compute.Weight
	if r.rand.IntN(2) == 0 {
		bias = r.matrix(gguf.TypeF32, shape.Experts).weight
	}
	norm := func(s compute.Step) { s.RMSNorm(h.Tensor, x.Tensor, gain.weight, 1e-5) }
	route := func(s compute.Step) { s.Route(routing.Tensor, h.Tensor, router.weight, bias, shape) }
	gated := func(s compute.Step) { s.GatedExperts(act.Tensor, h.Tensor, routing.Tensor, experts) }
	normOther := func(s compute.Step) { s.RMSNorm(other.Tensor, x.Tensor, gain.weight, 1e-5) }
	gatedOther := func(s compute.Step) { s.GatedExperts(act.Tensor, other.Tensor, routing.Tensor, experts) }
	add := func(s compute.Step) { s.ExpertsAdd(x.Tensor, act.Tensor, routing.Tensor, experts) }
	sequences := [][]func(s compute.Step){{norm, route, gated, add}, {norm, route, add}, {norm, route}, {norm, route, gated, norm, route, add}, {normOther, norm, route, gatedOther, add}}
	if cols > 576 {
		sequences = sequences[:1]
	}
	for _, ops := range sequences {
		what := fmt.Sprintf("the first operations of a norm of %d rows of %d values, the routing %+v and experts of %v", rows, cols, shape, kind)
		r.together(what, r.flat(rows, 1), []*sheet{x, h, other, routing, act}, ops...)
	}
}

// latentsThenProduct stores a sequence of one position. Attention to this position then reads the
// stored values. Each of the two runs stores the position in a different layer of the cache.
func (r *rig) latentsThenProduct(q, rank int) {
	const dims, out, heads, layers = 16, 80, 2, 2
	keyDim := rank + dims
	cache := r.newCache(compute.CacheShape{Layers: layers, Pages: 1, PageSize: 4, KeyCols: keyDim})
	rope := r.newRope(r.freqs(dims), 4)
	shape := compute.AttentionShape{Heads: heads, KVHeads: 1, KeyDim: keyDim, ValueDim: rank, Scale: 0.1}
	qGain, kvGain, w := r.matrix(gguf.TypeF32, q), r.matrix(gguf.TypeF32, rank), r.matrix(gguf.TypeQ80, q, out)
	a, normed, y := r.blank(1, q+keyDim), r.blank(1, q), r.blank(1, out)
	queries, ctx := r.blank(1, heads*keyDim), r.blank(1, heads*rank)
	layer := 0
	r.together(fmt.Sprintf("latents of %d values and a product of %d", rank, q), batch([]seqRow{{0, 0}}, [][]int32{{0}}), []*sheet{a, normed, y, queries, ctx},
		func(s compute.Step) {
			layer = (layer + 1) % layers
			s.Latents(normed.Tensor, a.Tensor, qGain.weight, kvGain.weight, latentEps, rope, cache, layer)
		},
		func(s compute.Step) { s.MatMul(y.Tensor, normed.Tensor, w.weight) },
		func(s compute.Step) { s.Attention(ctx.Tensor, queries.Tensor, shape, cache, layer) },
	)
}

func (r *rig) attentionThenProduct(length int) {
	const out = 96
	c := r.grouped(4, 2, 64, 64, 64, 16, length)
	m := r.storeAll(c, r.rope(c))
	w := r.matrix(gguf.TypeQ80, c.shape.Heads*c.shape.ValueDim, out)
	q, attn, y := r.blank(1, c.shape.Heads*c.shape.KeyDim), r.blank(1, c.shape.Heads*c.shape.ValueDim), r.blank(1, out)
	r.together(fmt.Sprintf("attention to %d positions and a product", length), m.batch([]seqRow{{0, length - 1}}), []*sheet{q, attn, y},
		func(s compute.Step) { s.Attention(attn.Tensor, q.Tensor, c.shape, m.cache, m.layer) },
		func(s compute.Step) { s.MatMulAdd(y.Tensor, attn.Tensor, w.weight) },
	)
}

func (r *rig) attentionThenExpand(length, rank int) {
	const dims, value = 32, 48
	c := r.latent(5, rank, dims, 48, 16, r.matrix(gguf.TypeF32, rank), length)
	m := r.storeAll(c, r.rope(c))
	w := r.matrix(gguf.TypeQ80, rank, value, c.shape.Heads)
	q, ctx, y := r.blank(1, c.shape.Heads*(rank+dims)), r.blank(1, c.shape.Heads*rank), r.blank(1, c.shape.Heads*value)
	r.together(fmt.Sprintf("attention to %d latents of %d values and their expansion", length, rank), m.batch([]seqRow{{0, length - 1}}), []*sheet{q, ctx, y},
		func(s compute.Step) { s.Attention(ctx.Tensor, q.Tensor, c.shape, m.cache, m.layer) },
		func(s compute.Step) { s.Expand(y.Tensor, ctx.Tensor, w.weight) },
	)
}
