package model

import (
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// deltaNet is a recurrent layer in place of attention: a gated delta net (Yang et al., "Gated Delta
// Networks: Improving Mamba2 with Delta Rule", 2024), as in Qwen3.5.
type deltaNet struct {
	*deltaBuffers
	norm compute.Weight // {hidden}
	// {hidden, convCols}, {hidden, inner}, {hidden, heads}, {hidden, heads}: queries, keys and
	// values; the gate of the output; b and a of compute.Step.DeltaNet. The first can be three
	// weights.
	weights []compute.Weight
	conv    compute.Weight // {taps*convCols}
	delta   compute.Delta
	gated   compute.GatedNorm
	stored  int              // number of the layer among the recurrent ones
	output  []compute.Weight // one weight {inner, hidden}
}

// deltaBuffers has the buffers of all recurrent layers. inner is heads*valueDim.
type deltaBuffers struct {
	states compute.States
	in     compute.Tensor // [rows, convCols + inner + gates] the products of weights
	qkv    compute.Tensor // [rows, convCols] queries, keys and values after the convolution
	out    compute.Tensor // [rows, inner]
}

func (d *deltaNet) attend(s compute.Step, t *trunk, layer int, x compute.Tensor) {
	in, qkv, out := d.in.Head(x.Rows), d.qkv.Head(x.Rows), d.out.Head(x.Rows)
	s.MatMul(in, t.normed(s, x, d.norm), d.weights...)
	s.Convolve(qkv, in.Slice(0, qkv.Cols), d.conv, nil, d.states, d.stored)
	gates := qkv.Cols + out.Cols
	s.DeltaNet(out, qkv, in.Slice(gates, in.Cols-gates), d.delta, d.states, d.stored)
	s.GatedNorm(out, out, in.Slice(qkv.Cols, out.Cols), d.gated)
	s.Checkpoint(layer, "attn", out)
	t.add(s, x, out, d.output, nil)
}

// store is not called: it is for MTP layers, which have attention.
func (d *deltaNet) store(compute.Step, *trunk, int, compute.Tensor) {}

// recurrence describes the recurrent layers of a file.
type recurrence struct {
	recurrent []bool // [layers] whether a layer is recurrent
	keyHeads  int    // key heads or, with scan, groups
	grouped   bool   // see compute.Delta
	scan      bool   // the layers are Mamba-2 instead of gated delta nets
	shape     compute.StateShape
}

func (r *recurrence) covers(layer int) bool {
	return r != nil && layer < len(r.recurrent) && r.recurrent[layer]
}

// gates returns the number of values per row that control the changes of the matrices.
func (r *recurrence) gates() int {
	if r.scan {
		return r.shape.Heads
	}
	return 2 * r.shape.Heads
}

func (r *recurrence) inner() int { return r.shape.Heads * r.shape.ValueDim }

// recurrence reads the sizes of recurrent layers.
func (l *loader) recurrence(layers int) *recurrence {
	r := &recurrence{recurrent: l.recurrentLayers(layers), keyHeads: l.size("ssm.group_count")}
	dim, inner := l.size("ssm.state_size"), l.size("ssm.inner_size")
	r.shape = compute.StateShape{ConvRows: l.size("ssm.conv_kernel") - 1, Heads: l.size("ssm.time_step_rank"), KeyDim: dim, ValueDim: dim}
	l.checkRecurrence(r, inner)
	return r
}

// checkRecurrence completes the shape of the states, and checks the sizes. inner is the number of
// values of all heads.
func (l *loader) checkRecurrence(r *recurrence, inner int) {
	if l.err != nil {
		return
	}
	for _, recurrent := range r.recurrent {
		if recurrent {
			r.shape.Layers++
		}
	}
	r.shape.ConvCols = 2*r.keyHeads*r.shape.KeyDim + inner
	switch s := r.shape; {
	case s.ConvRows < 1 || s.ConvRows >= compute.ChunkRows:
		l.fail(fmt.Errorf("%s is %d, but must be from 2 to %d: %w", l.key("ssm.conv_kernel"), s.ConvRows+1, compute.ChunkRows, ErrUnsupported))
	case r.scan && inner != s.Heads*s.ValueDim:
		l.fail(fmt.Errorf("%s is %d, but must be a multiple of %s, which is %d", l.key("ssm.inner_size"), inner, l.key("ssm.time_step_rank"), s.Heads))
	case inner != s.Heads*s.ValueDim:
		l.fail(fmt.Errorf("%s is %d, but must be the product of %s and %s, which are %d and %d",
			l.key("ssm.inner_size"), inner, l.key("ssm.time_step_rank"), l.key("ssm.state_size"), s.Heads, s.ValueDim))
	case s.Heads%r.keyHeads != 0:
		l.fail(fmt.Errorf("%s is %d, but must be a divisor of %s, which is %d", l.key("ssm.group_count"), r.keyHeads, l.key("ssm.time_step_rank"), s.Heads))
	case s.ConvCols > maxSize || s.MatrixValues() > maxMatrices:
		l.fail(fmt.Errorf("the state of a recurrent layer has %d values, and the layer's convolution %d columns; the maximum is %d and %d: %w",
			s.MatrixValues(), s.ConvCols, maxMatrices, maxSize, ErrUnsupported))
	case s.Layers == 0:
		l.fail(fmt.Errorf("no layer is recurrent, but a model of architecture %s has recurrent layers: %w", l.arch, ErrUnsupported))
	}
}

// maxMatrices is the maximum number of values of a layer's state. Large models have about a
// fiftieth of it.
const maxMatrices = 1 << 26

// recurrentLayers returns which layers are recurrent. By default, every fourth layer has attention.
func (l *loader) recurrentLayers(layers int) []bool {
	recurrent := make([]bool, layers)
	if l.has("attention.recurrent_layers") {
		all, err := l.file.Meta().Bools(l.key("attention.recurrent_layers"))
		if err == nil && len(all) < layers {
			err = fmt.Errorf("%s has %d values, but the model has %d layers", l.key("attention.recurrent_layers"), len(all), layers)
		}
		l.fail(err)
		copy(recurrent, all)
		return recurrent
	}
	const usual = 4
	interval := l.sizeOr("full_attention_interval", usual)
	for i := range recurrent {
		recurrent[i] = interval == 0 || (i+1)%interval != 0
	}
	return recurrent
}

func (l *loader) deltaBuffers(r *recurrence, lim Limits) *deltaBuffers {
	s := r.shape
	s.Slots, s.Drafts = lim.States, lim.Drafts
	b := &deltaBuffers{
		in:  l.buffer(lim.Rows, s.ConvCols+r.inner()+r.gates()),
		qkv: l.buffer(lim.Rows, s.ConvCols),
		out: l.buffer(lim.Rows, r.inner()),
	}
	if l.err == nil {
		var err error
		b.states, err = l.be.States(s)
		l.fail(err)
	}
	return b
}

// deltaNet loads layer i, which is number stored among the recurrent layers.
func (l *loader) deltaNet(i, stored int, r *recurrence, hidden int, buffers *deltaBuffers) *deltaNet {
	name := func(s string) string { return blockTensor(i, s) }
	s := r.shape
	return &deltaNet{
		deltaBuffers: buffers,
		norm:         l.weight(name("attn_norm.weight"), hidden),
		weights:      append(l.deltaInputs(name, r, hidden), l.deltaGates(name, r, hidden)...),
		conv:         l.vector(name("ssm_conv1d.weight"), s.ConvRows+1, s.ConvCols),
		delta: compute.Delta{
			KeyHeads: r.keyHeads, Grouped: r.grouped, Eps: deltaEps,
			Decay: l.weight(name("ssm_a"), s.Heads), Bias: l.weight(name("ssm_dt.bias"), s.Heads),
		},
		gated:  compute.GatedNorm{Gain: l.weight(name("ssm_norm.weight"), s.ValueDim), Dims: s.ValueDim, Eps: l.eps()},
		stored: stored,
		output: []compute.Weight{l.weight(name("ssm_out.weight"), r.inner(), hidden)},
	}
}

// deltaInputs loads the weights of queries, keys, values and the gate of the output. Old files of
// qwen3next have all of them in one tensor, key head by key head.
func (l *loader) deltaInputs(name func(string) string, r *recurrence, hidden int) []compute.Weight {
	s := r.shape
	if _, ok := l.file.Tensor(name("ssm_in.weight")); ok && r.grouped {
		t, values := l.tensor(name("ssm_in.weight"), hidden, s.ConvCols+r.inner()), r.inner()/r.keyHeads
		return l.placeAll(l.splitRows(t, r.keyHeads, s.KeyDim, s.KeyDim, values, values))
	}
	return []compute.Weight{l.weight(name("attn_qkv.weight"), hidden, s.ConvCols), l.weight(name("attn_gate.weight"), hidden, r.inner())}
}

// deltaGates loads the weights of b and a. Files of qwen3next have both in one tensor, key head by
// key head.
func (l *loader) deltaGates(name func(string) string, r *recurrence, hidden int) []compute.Weight {
	n := r.shape.Heads
	if r.grouped {
		each := n / r.keyHeads
		return l.placeAll(l.splitRows(l.tensor(name("ssm_ba.weight"), hidden, 2*n), r.keyHeads, each, each))
	}
	return []compute.Weight{l.weight(name("ssm_beta.weight"), hidden, n), l.weight(name("ssm_alpha.weight"), hidden, n)}
}

// deltaEps is added to the squared lengths of queries and keys. It is the same in all models.
const deltaEps = 1e-6

// splitRows divides the rows of a matrix, which are groups of the given numbers of rows: the first
// result has the first rows of all groups, the second one their next rows, and so on.
func (l *loader) splitRows(t gguf.Tensor, groups int, rows ...int) []gguf.Tensor {
	parts := slices.Repeat([]gguf.Tensor{t}, len(rows))
	if len(t.Shape) != 2 { // the loader has an error already
		return parts
	}
	each, first := len(t.Data)/t.Shape[1], 0
	for i, n := range rows {
		parts[i].Shape = []int{t.Shape[0], groups * n}
		if parts[i].Data = nil; !l.planning {
			parts[i].Data = make([]byte, 0, groups*n*each)
			for group := range groups {
				from := group*t.Shape[1]/groups + first
				parts[i].Data = append(parts[i].Data, t.Data[from*each:(from+n)*each]...)
			}
		}
		first += n
	}
	if !l.planning {
		l.fail(l.file.ReleaseTensor(t))
	}
	return parts
}

// placeAll places the parts of a matrix.
func (l *loader) placeAll(parts []gguf.Tensor) []compute.Weight {
	weights := make([]compute.Weight, len(parts))
	for i, t := range parts {
		weights[i] = l.place(t)
	}
	return weights
}
