package kernels

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/metal"
)

// Operation is an operation of a model over weights or pages of one type and shape. It has a kernel
// for few rows and, unless it is Route or Absorb, a kernel that works in tiles. A sweep can tune
// the geometry of both (metal.Geometry).
type Operation struct {
	Kernel   string // the kernel for few rows, a constant of package metal
	Type     gguf.Type
	In, Out  int                    // for attention, the length of a key and of a value
	Matrices int                    // number of experts or of MLA's heads; otherwise 1
	Used     int                    // number of experts per row
	Heads    compute.AttentionShape // only for attention
	Latent   bool                   // only for attention: the values are the first columns of the keys
}

// kernelsOf has the kernel that reads a tensor, by the last part of the tensor's name in GGUF files
// (without ".weight").
var kernelsOf = map[string]string{
	"attn_q": metal.Product, "attn_k": metal.Product, "attn_v": metal.Product, "attn_output": metal.Product,
	"attn_q_a": metal.Product, "attn_q_b": metal.Product, "attn_kv_a_mqa": metal.Product, "attn_v_b": metal.Product,
	"ffn_down": metal.Product, "ffn_down_shexp": metal.Product, "nextn.eh_proj": metal.Product, "output": metal.Product,
	"attn_k_b": metal.Absorb, "ffn_gate": metal.GatedProduct, "ffn_gate_shexp": metal.GatedProduct,
	"ffn_gate_inp": metal.Product, "ffn_gate_exps": metal.GatedExperts, "ffn_gate_up_exps": metal.GatedExperts, "ffn_down_exps": metal.ExpertsAdd,
}

// Operations lists the operations of a model's file on a GPU with a cache of type kv. Operations
// with the same kernel, type and shape are listed once.
func Operations(f *gguf.File, kv gguf.Type) ([]Operation, error) {
	c, err := model.ReadConfig(f)
	if err != nil {
		return nil, err
	}
	used, err := f.Meta().Uint(c.Architecture + ".expert_used_count")
	if err != nil {
		used = 0 // the model has no experts
	}
	heads, err := f.Meta().Uint(c.Architecture + ".attention.head_count")
	if err != nil {
		return nil, err
	}
	var list []Operation
	add := func(o Operation) {
		if !slices.Contains(list, o) {
			list = append(list, o)
		}
	}
	_, ownHead := f.Tensor("output.weight")
	for _, t := range f.Tensors() {
		kernel := kernelOf(t.Name)
		if t.Name == "token_embd.weight" && !ownHead {
			kernel = metal.Product
		}
		if kernel == "" || len(t.Shape) < 2 {
			continue
		}
		o := Operation{Kernel: kernel, Type: t.Type, In: t.Shape[0], Out: t.Shape[1], Matrices: 1}
		if len(t.Shape) == 3 {
			o.Matrices = t.Shape[2]
		}
		if strings.HasSuffix(t.Name, "ffn_gate_up_exps.weight") {
			o.Out /= 2 // the rows of the gate, then those of up
		}
		if kernel == metal.GatedExperts || kernel == metal.ExpertsAdd {
			o.Used = int(used)
		}
		add(o)
	}
	add(Operation{
		Kernel: metal.Attention, Type: kv, In: c.KeyDim, Out: c.ValueDim, Latent: c.ValueCols == 0,
		Heads: compute.AttentionShape{
			Heads: int(heads), KVHeads: c.KeyCols / c.KeyDim, KeyDim: c.KeyDim, ValueDim: c.ValueDim, Scale: 0.1,
		},
	})
	slices.SortStableFunc(list, func(a, b Operation) int {
		return cmp.Or(cmp.Compare(a.Kernel, b.Kernel), cmp.Compare(a.Type, b.Type), cmp.Compare(a.In, b.In), cmp.Compare(a.Out, b.Out))
	})
	return list, nil
}

func kernelOf(tensor string) string {
	name, ok := strings.CutSuffix(tensor, ".weight")
	if !ok {
		return ""
	}
	if rest, block := strings.CutPrefix(name, "blk."); block {
		_, name, _ = strings.Cut(rest, ".")
	}
	return kernelsOf[name]
}

// String describes the operation for messages.
func (o *Operation) String() string {
	return fmt.Sprintf("%s of %v, %d by %d", o.Kernel, o.Type, o.In, o.Out)
}

// work allocates the operation's weights and memory for up to maxRows rows and context positions.
// The function that it returns makes the work of a step with the given numbers of rows and
// positions. The rows of attention belong to one sequence.
func (o *Operation) work(r *rig, maxRows, context int) func(rows, context int) work {
	switch o.Kernel {
	case metal.GatedExperts, metal.ExpertsAdd:
		return o.experts(r, maxRows)
	case metal.Attention:
		return o.attention(r, maxRows, context)
	}
	return o.products(r, maxRows)
}

// products implements the method work for products with one matrix, with the two matrices of a
// gated product, or with the matrices of MLA's heads.
func (o *Operation) products(r *rig, maxRows int) func(rows, context int) work {
	const dims = 32 // number of rotated values of a head in Absorb
	shape := []int{o.In, o.Out}
	if o.Matrices > 1 {
		shape = append(shape, o.Matrices)
	}
	ws, _ := r.weights(o.Type, shape...)
	ws = append(ws, r.weight(o.Type, shape...)) // at least two
	rope := r.rope(dims, 1)
	x, dst := r.values(maxRows, o.Matrices*(o.In+dims)), r.buffer(maxRows, o.Matrices*(o.Out+dims))
	return func(rows, _ int) work {
		x, dst := x.Head(rows), dst.Head(rows)
		do := func(s compute.Step, i int) { s.MatMul(dst.Slice(0, o.Out), x, ws[i]) }
		times := len(ws)
		switch {
		case o.Kernel == metal.GatedProduct:
			times = len(ws) / 2
			do = func(s compute.Step, i int) { s.GatedMatMul(dst.Slice(0, o.Out), x, ws[2*i], ws[2*i+1], compute.SiLU) }
		case o.Kernel == metal.Absorb:
			do = func(s compute.Step, i int) { s.Absorb(dst, x, ws[i], rope) }
		case o.Matrices > 1:
			do = func(s compute.Step, i int) { s.Expand(dst.Slice(0, o.Matrices*o.Out), x, ws[i]) }
		}
		return repeat(times, separate(rows, nil), do)
	}
}

// repeat returns the work of a step that repeats an operation. Operations on many rows take longer
// and are repeated less often.
func repeat(times int, b *compute.Batch, do func(s compute.Step, i int)) work {
	const few = 8
	times = max(times*few/max(len(b.Tokens), few), 1)
	return work{times: times, batch: b, step: func(s compute.Step) {
		for i := range times {
			do(s, i)
		}
	}}
}

// experts implements the method work for GatedExperts and ExpertsAdd. Each row and each repetition
// chooses different experts.
func (o *Operation) experts(r *rig, maxRows int) func(rows, context int) work {
	w, router := r.weight(o.Type, o.In, o.Out, o.Matrices), r.weight(gguf.TypeF32, o.In, o.Matrices)
	e := compute.Experts{Gate: w, Up: w, Down: w}
	x, routing := r.values(maxRows, o.In), r.buffer(maxRows, 2*o.Used)
	h, dst := r.values(maxRows, o.Used*o.In), r.buffer(maxRows, o.Used*o.Out)
	if r.err == nil {
		s := r.be.Begin(separate(maxRows, nil))
		s.Route(routing, x, router, nil, compute.RouteShape{Experts: o.Matrices, Used: o.Used, Gating: compute.GatingSigmoid, Scale: 1})
		r.fail(s.Run())
	}
	return func(rows, _ int) work {
		return repeat(max(maxRows/rows, 1), separate(rows, nil), func(s compute.Step, i int) {
			routing := routing
			routing.Offset = i * rows * routing.Stride
			routing = routing.Head(rows)
			if o.Kernel == metal.GatedExperts {
				s.GatedExperts(dst.Head(rows), x.Head(rows), routing, e)
			} else {
				s.ExpertsAdd(dst.Head(rows).Slice(0, o.Out), h.Head(rows), routing, e)
			}
		})
	}
}

// attention implements the method work for Attention: the last rows of a sequence attend to pages
// of zeros.
func (o *Operation) attention(r *rig, maxRows, context int) func(rows, context int) work {
	shape := compute.CacheShape{PageSize: pageSize, Pages: context / pageSize, KeyCols: o.Heads.KVHeads * o.In, Type: o.Type}
	if !o.Latent {
		shape.ValueCols = o.Heads.KVHeads * o.Out
	}
	bytes, err := o.Type.RowBytes(shape.KeyCols + shape.ValueCols)
	r.fail(err)
	shape.Layers = r.repetitions(max(bytes, 1) * context)
	cache, err := r.be.Cache(shape)
	r.fail(err)
	q, dst, table := r.values(maxRows, o.Heads.Heads*o.In), r.buffer(maxRows, o.Heads.Heads*o.Out), pages(1, context)
	return func(rows, context int) work {
		b := &compute.Batch{Tokens: make([]int32, rows), Seqs: []compute.Seq{{Rows: rows, Pages: table[0]}}}
		for i := range rows {
			b.Positions = append(b.Positions, int32(context-rows+i))
		}
		return repeat(shape.Layers, b, func(s compute.Step, layer int) { s.Attention(dst.Head(rows), q.Head(rows), o.Heads, cache, layer) })
	}
}
