package model

import "github.com/ingot-run/ingot/engine/compute"

// mamba is a layer of Mamba-2 (Dao and Gu, "Transformers are SSMs", 2024) in place of attention.
type mamba struct {
	*deltaBuffers
	norm           compute.Weight   // {hidden}
	in             []compute.Weight // one weight {hidden, inner+convCols+heads}: the gate z; x, B and C; dt
	conv, convBias compute.Weight   // {taps*convCols}, {convCols}
	scan           compute.Scan
	gated          compute.GatedNorm
	stored         int              // number of the layer among the recurrent ones
	output         []compute.Weight // one weight {inner, hidden}
}

func (a *mamba) attend(s compute.Step, t *trunk, layer int, x compute.Tensor) {
	in, xbc, out := a.deltaBuffers.in.Head(x.Rows), a.qkv.Head(x.Rows), a.out.Head(x.Rows)
	s.MatMul(in, t.normed(s, x, a.norm), a.in...)
	s.Convolve(xbc, in.Slice(out.Cols, xbc.Cols), a.conv, a.convBias, a.states, a.stored)
	dt := out.Cols + xbc.Cols
	s.Scan(out, xbc, in.Slice(dt, in.Cols-dt), a.scan, a.states, a.stored)
	s.GatedNorm(out, out, in.Slice(0, out.Cols), a.gated)
	s.Checkpoint(layer, "attn", out)
	t.add(s, x, out, a.output, nil)
}

// store is not called: it is for MTP layers, which have attention.
func (a *mamba) store(compute.Step, *trunk, int, compute.Tensor) {}

// mambaLayers reads the sizes of the layers of Mamba-2.
func (l *loader) mambaLayers(recurrent []bool) *recurrence {
	r := &recurrence{recurrent: recurrent, keyHeads: l.size("ssm.group_count"), scan: true}
	inner, heads := l.size("ssm.inner_size"), l.size("ssm.time_step_rank")
	r.shape = compute.StateShape{ConvRows: l.size("ssm.conv_kernel") - 1, Heads: heads, KeyDim: l.size("ssm.state_size"), ValueDim: inner / max(heads, 1)}
	l.checkRecurrence(r, inner)
	return r
}

// mamba loads layer i, which is number stored among the recurrent layers.
func (l *loader) mamba(i, stored int, r *recurrence, hidden int, buffers *deltaBuffers) *mamba {
	name := func(s string) string { return blockTensor(i, s) }
	s, inner := r.shape, r.inner()
	return &mamba{
		deltaBuffers: buffers,
		norm:         l.weight(name("attn_norm.weight"), hidden),
		in:           []compute.Weight{l.weight(name("ssm_in.weight"), hidden, inner+s.ConvCols+s.Heads)},
		conv:         l.vector(name("ssm_conv1d.weight"), s.ConvRows+1, s.ConvCols),
		convBias:     l.weight(name("ssm_conv1d.bias"), s.ConvCols),
		scan: compute.Scan{
			Groups: r.keyHeads, Decay: l.column(name("ssm_a"), s.Heads), Bias: l.weight(name("ssm_dt.bias"), s.Heads),
			Skip: l.column(name("ssm_d"), s.Heads),
		},
		gated: compute.GatedNorm{
			Gain: l.vector(name("ssm_norm.weight"), inner/r.keyHeads, r.keyHeads), Dims: inner / r.keyHeads, Eps: l.eps(), GateFirst: true,
		},
		stored: stored,
		output: []compute.Weight{l.weight(name("ssm_out.weight"), inner, hidden)},
	}
}

// mambaFamily is decoderFamily for decoders with layers of Mamba-2. complete completes the
// settings that decoderConfig has read.
func mambaFamily(read func(l *loader, c Config, lim Limits) design, complete func(l *loader, c *Config)) family {
	f := decoderFamily(read)
	return family{func(l *loader) Config {
		c := decoderConfig(l)
		if l.err == nil {
			complete(l, &c)
		}
		return c
	}, f.load}
}

// graniteHybrid is Granite 4 H: Granite in which most layers are Mamba-2, with a dense network or a
// mixture of experts. The weights of the chosen experts always add up to 1.
func graniteHybrid(l *loader, c Config, lim Limits) design {
	d := granite(l, c, lim)
	d.recurrence = l.graniteLayers(c)
	if l.sizeOr("expert_count", 0) > 0 {
		route := l.routeShape(compute.GatingSoftmax)
		route.Normalise = true
		d.route = &route
	}
	return d
}

func graniteHybridConfig(l *loader, c *Config) { c.States = l.graniteLayers(*c).shape }

func (l *loader) graniteLayers(c Config) *recurrence {
	return l.mambaLayers(l.zeros("attention.head_count_kv", c.Layers))
}
