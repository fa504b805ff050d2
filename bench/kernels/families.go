package kernels

import (
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// Sizes of the measured operations: a product as in models with a few billion weights, the
// attention of Llama 3 8B, and the MLA and experts of GLM-4.7-Flash.
const (
	productIn, productOut      = 2048, 8192
	heads, kvHeads, headDim    = 32, 8, 128
	mlaHeads, latent, mlaRope  = 20, 512, 64
	hidden, expertFFN, experts = 2048, 1536, 64
	expertsUsed                = 4
	pageSize                   = 16
	epsilon                    = 1e-5
	floatBytes                 = 4
)

var (
	rowCounts = []int{1, 8, 64}
	contexts  = []int{256, 2048, 8192}
)

func families() []family {
	var all []family
	add := func(name string, t gguf.Type, rows, context int, f func(*rig, *family) work) {
		all = append(all, family{Measurement{Family: name, Type: strings.ToLower(t.String()), Rows: rows, Context: context}, f, t})
	}
	for _, t := range gguf.Types() {
		for _, rows := range rowCounts {
			add("product", t, rows, 0, productWork)
		}
	}
	for _, rows := range rowCounts {
		add("experts", gguf.TypeQ40, rows, 0, expertsWork)
	}
	for _, t := range gguf.CacheTypes() {
		for _, context := range contexts {
			add("attention", t, 1, context, attentionWork)
		}
		add("attention", t, 8, 2048, attentionWork)
	}
	for _, t := range gguf.CacheTypes() {
		for _, context := range contexts {
			add("mla", t, 1, context, mlaWork)
		}
		add("mla", t, 8, 2048, mlaWork)
	}
	for _, rows := range rowCounts {
		add("rmsnorm", gguf.TypeF32, rows, 0, normWork)
	}
	for _, rows := range rowCounts {
		add("rope and store", gguf.TypeF16, rows, 0, ropeWork)
	}
	return append(all, stateFamilies()...)
}

func productWork(r *rig, f *family) work {
	ws, bytes := r.weights(f.t, productIn, productOut)
	x, dst := r.values(f.Rows, productIn), r.buffer(f.Rows, productOut)
	return work{
		bytes: float64(bytes), flops: 2 * productIn * productOut * float64(f.Rows),
		times: len(ws), batch: separate(f.Rows, nil),
		step: func(s compute.Step) {
			for i := range ws {
				s.MatMul(dst, x, ws[i:i+1]...)
			}
		},
	}
}

// expertsWork returns the work of a mixture of experts, including the router. It counts only the
// bytes of the experts that the rows use.
func expertsWork(r *rig, f *family) work {
	e := compute.Experts{
		Gate: r.weight(f.t, hidden, expertFFN, experts), Up: r.weight(f.t, hidden, expertFFN, experts),
		Down: r.weight(f.t, expertFFN, hidden, experts),
	}
	router := r.weight(gguf.TypeF32, hidden, experts)
	rule := compute.RouteShape{Experts: experts, Used: expertsUsed, Gating: compute.GatingSigmoid, Normalise: true, Scale: 1}
	// The rows of each repetition choose different experts, so that a step reads most experts.
	times := (experts/expertsUsed + f.Rows - 1) / f.Rows
	x, routing := r.values(times*f.Rows, hidden), r.buffer(times*f.Rows, 2*expertsUsed)
	ffn, dst := r.buffer(f.Rows, expertsUsed*expertFFN), r.buffer(f.Rows, hidden)
	if r.err != nil {
		return work{}
	}
	s := r.be.Begin(separate(times*f.Rows, nil))
	s.Route(routing, x, router, nil, rule)
	r.fail(s.Run())
	used := 0
	for part := range slices.Chunk(r.be.Floats(routing), f.Rows) {
		used += distinct(part)
	}
	matrix, err := f.t.RowBytes(hidden * expertFFN)
	r.fail(err)
	return work{
		bytes: float64(3*matrix*used) / float64(times), flops: 3 * 2 * hidden * expertFFN * expertsUsed * float64(f.Rows),
		times: times, batch: separate(f.Rows, nil),
		step: func(s compute.Step) {
			for i := range times {
				x, routing := x, routing
				x.Offset, routing.Offset = i*f.Rows*x.Stride, i*f.Rows*routing.Stride
				x, routing = x.Head(f.Rows), routing.Head(f.Rows)
				s.Route(routing, x, router, nil, rule)
				s.GatedExperts(ffn, x, routing, e)
				s.ExpertsAdd(dst, ffn, routing, e)
			}
		},
	}
}

func distinct(rows [][]float32) int {
	used := map[float32]bool{}
	for _, row := range rows {
		for _, expert := range row[:expertsUsed] {
			used[expert] = true
		}
	}
	return len(used)
}

func normWork(r *rig, f *family) work {
	const times = 64
	x, dst, gain := r.values(f.Rows, hidden), r.buffer(f.Rows, hidden), r.weight(gguf.TypeF32, hidden)
	return work{
		bytes: 2 * floatBytes * hidden * float64(f.Rows), times: times, batch: separate(f.Rows, nil),
		step: func(s compute.Step) {
			for range times {
				s.RMSNorm(dst, x, gain, epsilon)
			}
		},
	}
}

func pages(sequences, positions int) [][]int32 {
	tables := make([][]int32, sequences)
	next := int32(0)
	for i := range tables {
		for range positions / pageSize {
			tables[i] = append(tables[i], next)
			next++
		}
	}
	return tables
}

func (r *rig) fill(tables [][]int32, store func(s compute.Step)) {
	for _, table := range tables {
		for i := range table {
			if r.err != nil {
				return
			}
			b := &compute.Batch{Seqs: []compute.Seq{{Rows: pageSize, Pages: table}}}
			for slot := range pageSize {
				b.Tokens = append(b.Tokens, 0)
				b.Positions = append(b.Positions, int32(i*pageSize+slot))
			}
			s := r.be.Begin(b)
			store(s)
			r.fail(s.Run())
		}
	}
}

func (r *rig) rope(dims, positions int) compute.Rope {
	freqs := make([]float32, dims/2)
	for i := range freqs {
		freqs[i] = 1 / float32(1+i)
	}
	rope, err := r.be.Rope(compute.RopeFreqs{Freqs: freqs, Scale: 1}, positions)
	r.fail(err)
	return rope
}

func (r *rig) cache(f *family, c compute.CacheShape) (cache compute.Cache, layers, bytes int) {
	position, err := f.t.RowBytes(c.KeyCols + c.ValueCols)
	if r.fail(err) {
		return nil, 0, 0
	}
	bytes = position * f.Context * f.Rows
	c.Layers, c.PageSize, c.Pages, c.Type = r.repetitions(bytes), pageSize, f.Rows*f.Context/pageSize, f.t
	cache, err = r.be.Cache(c)
	r.fail(err)
	return cache, c.Layers, bytes
}

func attentionWork(r *rig, f *family) work {
	shape := compute.AttentionShape{Heads: heads, KVHeads: kvHeads, KeyDim: headDim, ValueDim: headDim, Scale: 0.1}
	cache, layers, bytes := r.cache(f, compute.CacheShape{KeyCols: kvHeads * headDim, ValueCols: kvHeads * headDim})
	rope, tables := r.rope(headDim, f.Context), pages(f.Rows, f.Context)
	qkv := r.values(max(pageSize, f.Rows), (heads+2*kvHeads)*headDim)
	r.fill(tables, func(s compute.Step) {
		for layer := range layers {
			s.RopeStore(qkv.Head(pageSize), compute.Projection{}, shape, rope, cache, layer)
		}
	})
	dst := r.buffer(f.Rows, heads*headDim)
	return work{
		bytes: float64(bytes), flops: 4 * heads * headDim * float64(f.Context*f.Rows), times: layers, batch: separate(f.Rows, tables),
		step: func(s compute.Step) {
			for layer := range layers {
				s.Attention(dst, qkv.Head(f.Rows), shape, cache, layer)
			}
		},
	}
}

func mlaWork(r *rig, f *family) work {
	const keyDim = latent + mlaRope
	shape := compute.AttentionShape{Heads: mlaHeads, KVHeads: 1, KeyDim: keyDim, ValueDim: latent, Scale: 0.1}
	cache, layers, bytes := r.cache(f, compute.CacheShape{KeyCols: keyDim})
	rope, gain, tables := r.rope(mlaRope, f.Context), r.weight(gguf.TypeF32, latent), pages(f.Rows, f.Context)
	values, a := r.values(pageSize, keyDim), r.buffer(pageSize, keyDim)
	rows := make([]int32, pageSize)
	r.fill(tables, func(s compute.Step) {
		for layer := range layers {
			s.Gather(a, values, rows) // a copy, because Latents changes its input
			s.Latents(compute.Tensor{}, a, nil, gain, epsilon, rope, cache, layer)
		}
	})
	q, dst := r.values(f.Rows, mlaHeads*keyDim), r.buffer(f.Rows, mlaHeads*latent)
	return work{
		bytes: float64(bytes), flops: 2 * mlaHeads * (keyDim + latent) * float64(f.Context*f.Rows), times: layers, batch: separate(f.Rows, tables),
		step: func(s compute.Step) {
			for layer := range layers {
				s.Attention(dst, q, shape, cache, layer)
			}
		},
	}
}

func ropeWork(r *rig, f *family) work {
	const times = 16
	shape := compute.AttentionShape{Heads: heads, KVHeads: kvHeads, KeyDim: headDim, ValueDim: headDim, Scale: 0.1}
	cache, err := r.be.Cache(compute.CacheShape{
		Layers: times, Pages: f.Rows, PageSize: pageSize, KeyCols: kvHeads * headDim, ValueCols: kvHeads * headDim, Type: f.t,
	})
	r.fail(err)
	rope, qkv := r.rope(headDim, pageSize), r.values(f.Rows, (heads+2*kvHeads)*headDim)
	return work{
		bytes: 2 * floatBytes * (heads + 2*kvHeads) * headDim * float64(f.Rows), times: times, batch: separate(f.Rows, pages(f.Rows, pageSize)),
		step: func(s compute.Step) {
			for layer := range times {
				s.RopeStore(qkv, compute.Projection{}, shape, rope, cache, layer)
			}
		},
	}
}
