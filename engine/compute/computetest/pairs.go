package computetest

import (
	"fmt"
	"slices"

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
	for _, cols := range []int{96, 704, 2080} {
		r.normsThenProduct(1, cols)
	}
	for _, cols := range []int{96, 2080} { // shorter and longer rows than products take that read them in float32
		r.gateThenProduct(1, cols)
	}
	r.gatedExperts(1)
	r.recurrentThenProduct(1)
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
	r.normsThenProduct(3, 96)
	r.normsThenProduct(3, 2080)
	r.gateThenProduct(5, 96)
	for _, rows := range []int{3, 40, 260} {
		r.gatedExperts(rows)
	}
	r.recurrentThenProduct(3)
	r.recurrentThenProduct(34)
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

// normsThenProduct runs norms that read each other's results, or that are independent of each
// other, before a product of the last one's result.
func (r *rig) normsThenProduct(rows, cols int) {
	const out = 80
	x, h, d, e, y := r.blank(rows, cols), r.blank(rows, cols), r.blank(rows, cols), r.blank(rows, cols), r.blank(rows, out)
	gain, other, short, w := r.matrix(gguf.TypeF32, cols), r.matrix(gguf.TypeF32, cols), r.matrix(gguf.TypeF32, 32), r.matrix(gguf.TypeQ80, cols, out)
	norm := func(dst, src *sheet) func(s compute.Step) {
		return func(s compute.Step) { s.RMSNorm(dst.Tensor, src.Tensor, gain.weight, 1e-5) }
	}
	add := func(dst, src *sheet) func(s compute.Step) {
		return func(s compute.Step) { s.RMSNormAdd(dst.Tensor, src.Tensor, other.weight, 1e-5) }
	}
	scale := func(dst *sheet) func(s compute.Step) { return func(s compute.Step) { s.Affine(dst.Tensor, 0.7, nil) } }
	for _, c := range []struct {
		what string
		ops  []func(s compute.Step)
	}{
		{"the norm of a sum", []func(s compute.Step){add(x, h), norm(h, x)}},
		{"independent norms", []func(s compute.Step){norm(d, d), norm(e, x), norm(h, x)}},
		{"the norm of a scaled sum of sums", []func(s compute.Step){add(d, e), add(x, d), scale(x), norm(h, x)}},
		{"a norm that is scaled", []func(s compute.Step){norm(h, x), scale(h)}},
		{"a sum that is scaled", []func(s compute.Step){norm(h, e), add(x, h), scale(x)}},
		{"two sums to the same rows", []func(s compute.Step){add(x, d), add(x, e), norm(h, x)}},
		{"a norm of the last but one's result", []func(s compute.Step){norm(d, x), norm(e, h), norm(h, d)}},
		{"a norm that replaces the rows of others", []func(s compute.Step){norm(h, x), norm(x, d), norm(d, e)}},
		{"a norm of rows that were replaced", []func(s compute.Step){norm(x, d), norm(e, x), norm(h, x)}},
		{"four norms", []func(s compute.Step){norm(d, x), norm(e, d), norm(h, e), norm(h, h)}},
		{"norms of another length", []func(s compute.Step){norm(d, x), func(s compute.Step) { s.RMSNorm(e.Slice(0, 32), x.Slice(0, 32), short.weight, 1e-5) }, norm(h, d)}},
	} {
		product := func(s compute.Step) { s.MatMul(y.Tensor, h.Tensor, w.weight) }
		r.together(fmt.Sprintf("%s of %d values, %d rows, and a product", c.what, cols, rows), r.flat(rows, 1), []*sheet{x, h, d, e, y}, append(slices.Clone(c.ops), product)...)
	}
}

func (r *rig) gateThenProduct(rows, cols int) {
	const out = 80
	x, gate, y, w := r.blank(rows, cols), r.blank(rows, cols), r.blank(rows, out), r.matrix(gguf.TypeQ80, cols, out)
	r.together(fmt.Sprintf("a gate of %d rows of %d values and a product", rows, cols), r.flat(rows, 1), []*sheet{x, gate, y},
		func(s compute.Step) { s.Gate(x.Tensor, gate.Tensor) },
		func(s compute.Step) { s.MatMul(y.Tensor, x.Tensor, w.weight) },
	)
}

// gatedExperts runs experts of which the shared one has a gate.
func (r *rig) gatedExperts(rows int) {
	const cols, ffn, shared = 64, 32, 64
	shape := compute.RouteShape{Experts: 12, Used: 2, Gating: compute.GatingSoftmax, Normalise: true, Scale: 1}
	kind := gguf.TypeQ80
	experts := compute.Experts{
		Gate: r.matrix(kind, cols, ffn, shape.Experts).weight, Up: r.matrix(kind, cols, ffn, shape.Experts).weight, Down: r.matrix(kind, ffn, cols, shape.Experts).weight,
		SharedGate: r.matrix(kind, cols, shared).weight, SharedUp: r.matrix(kind, cols, shared).weight, SharedDown: r.matrix(kind, shared, cols).weight,
	}
	width := shape.Used*ffn + shared
	x, h, routing, act, gate := r.blank(rows, cols), r.blank(rows, cols), r.blank(rows, 2*shape.Used), r.blank(rows, width), r.blank(rows, 1)
	gain, router, w := r.matrix(gguf.TypeF32, cols), r.matrix(gguf.TypeF32, cols, shape.Experts), r.matrix(gguf.TypeF32, cols, 1)
	norm := func(s compute.Step) { s.RMSNorm(h.Tensor, x.Tensor, gain.weight, 1e-5) }
	route := func(s compute.Step) { s.Route(routing.Tensor, h.Tensor, router.weight, nil, shape) }
	gated := func(s compute.Step) { s.GatedExperts(act.Tensor, h.Tensor, routing.Tensor, experts) }
	logit := func(s compute.Step) { s.MatMul(gate.Tensor, h.Tensor, w.weight) }
	open := func(s compute.Step) { s.Gate(act.Slice(shape.Used*ffn, shared), gate.Tensor) }
	add := func(s compute.Step) { s.ExpertsAdd(x.Tensor, act.Tensor, routing.Tensor, experts) }
	other := func(s compute.Step) { s.Gate(act.Slice(0, shared), gate.Tensor) } // not the shared expert's result
	for _, ops := range [][]func(s compute.Step){{norm, route, gated, logit, open, add}, {route, gated, logit, open, add}, {norm, route, gated, logit, other, add}} {
		r.together(fmt.Sprintf("%d operations on %d rows for experts with a gate", len(ops), rows), r.flat(rows, 1), []*sheet{x, h, routing, act, gate}, ops...)
	}
}

// recurrentThenProduct runs a recurrent layer on a generated row of each sequence. The states that
// it continues are in other slots than those that it leaves.
func (r *rig) recurrentThenProduct(rows int) {
	const heads, keyHeads, dim, out = 2, 1, 128, 80
	shape := compute.StateShape{Layers: 1, Slots: 2 * rows, ConvRows: 3, ConvCols: (2*keyHeads + heads) * dim, Heads: heads, KeyDim: dim, ValueDim: dim}
	states := r.newStates(shape)
	conv, decay, gain, w := r.matrix(gguf.TypeF32, 4*shape.ConvCols), r.matrix(gguf.TypeF32, heads), r.matrix(gguf.TypeF32, dim), r.matrix(gguf.TypeQ80, heads*dim, out)
	d := compute.Delta{KeyHeads: keyHeads, Eps: 1e-6, Decay: decay.weight, Bias: decay.weight}
	in, qkv, o, y := r.blank(rows, shape.ConvCols+heads*dim+2*heads), r.blank(rows, shape.ConvCols), r.blank(rows, heads*dim), r.blank(rows, out)
	ops := []func(s compute.Step){
		func(s compute.Step) { s.Convolve(qkv.Tensor, in.Slice(0, shape.ConvCols), conv.weight, nil, states, 0) },
		func(s compute.Step) {
			s.DeltaNet(o.Tensor, qkv.Tensor, in.Slice(shape.ConvCols+heads*dim, 2*heads), d, states, 0)
		},
		func(s compute.Step) {
			s.GatedNorm(o.Tensor, o.Tensor, in.Slice(shape.ConvCols, heads*dim), compute.GatedNorm{Gain: gain.weight, Dims: dim, Eps: 1e-5})
		},
		func(s compute.Step) { s.MatMulAdd(y.Tensor, o.Tensor, w.weight) },
	}
	b := r.flat(rows, 1)
	for i := range b.Seqs {
		b.Seqs[i].State = compute.SeqState{From: -1, Slot: i}
	}
	r.together(fmt.Sprintf("a recurrent layer on the first rows of %d sequences and a product", rows), b, []*sheet{in, qkv, o, y}, ops...)
	for i := range b.Seqs {
		b.Seqs[i].State = compute.SeqState{From: i, Slot: rows + i}
	}
	r.together(fmt.Sprintf("a recurrent layer on the next rows of %d sequences and a product", rows), b, []*sheet{in, qkv, o, y}, ops...)
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
