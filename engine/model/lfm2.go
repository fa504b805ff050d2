package model

import (
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
)

// lfm2 is LFM2 and LFM2.5: most layers have a short convolution with gates instead of attention.
func lfm2(l *loader, c Config, lim Limits) design {
	return design{freqs: l.rotation(halves), headNorms: true, convolution: l.convolution(c, lim)}
}

// lfm2moe is the same with a mixture of experts after some dense layers. The weights of the chosen
// experts always add up to 1; files have no setting for this.
func lfm2moe(l *loader, c Config, lim Limits) design {
	d := lfm2(l, c, lim)
	route := l.routeShape(compute.GatingSigmoid)
	route.Normalise = true
	d.route, d.dense = &route, l.sizeOr("leading_dense_block_count", 0)
	return d
}

// convolution describes the layers with a convolution. Their rows are stored in the cache like keys
// and values. A layer whose rows are longer than a key and a value has several layers of the cache.
type convolution struct {
	layers []bool // whether a layer has a convolution
	taps   int
	buffer compute.Tensor // [rows, 3*hidden] of all convolutions
}

func (c *convolution) covers(layer int) bool {
	return c != nil && layer < len(c.layers) && c.layers[layer]
}

func (l *loader) convolution(c Config, lim Limits) *convolution {
	conv := l.convolutionLayers(c)
	conv.buffer = l.buffer(lim.Rows, 3*c.Hidden)
	return conv
}

func (l *loader) convolutionLayers(c Config) *convolution {
	conv := &convolution{layers: l.zeros("attention.head_count_kv", c.Layers), taps: l.size("shortconv.l_cache")}
	switch {
	case l.err != nil:
	case conv.taps < 2 || conv.taps > maxTaps:
		l.fail(fmt.Errorf("%s is %d, but must be from 2 to %d: %w", l.key("shortconv.l_cache"), conv.taps, maxTaps, ErrUnsupported))
	case c.Hidden%c.KeyDim != 0 || c.KeyDim != c.ValueDim:
		l.fail(fmt.Errorf("%s is %d, but must be a multiple of the length of a head, which is %d for keys and %d for values: %w",
			l.key("embedding_length"), c.Hidden, c.KeyDim, c.ValueDim, ErrUnsupported))
	case !slices.Contains(conv.layers, true):
		l.fail(fmt.Errorf("%s is not 0 for any layer, but a model of architecture %s has layers without attention: %w", l.key("attention.head_count_kv"), l.arch, ErrUnsupported))
	}
	return conv
}

// maxTaps is the maximum number of rows of a convolution. All known models have 3.
const maxTaps = 16

// convolutionFamily is decoderFamily for decoders in which some layers have a convolution. Such a
// layer reads only the rows of a few positions, like attention with a sliding window.
func convolutionFamily(read func(l *loader, c Config, lim Limits) design) family {
	f := decoderFamily(read)
	config := func(l *loader) Config {
		c := decoderConfig(l)
		if l.err != nil {
			return c
		}
		conv := l.convolutionLayers(c)
		c.Window = conv.taps
		for _, is := range conv.layers {
			if is {
				c.Sliding += c.convolutionParts()
				c.ExtraLayers += c.convolutionParts() - 1
			}
		}
		return c
	}
	return family{config, f.load}
}

// convolutionParts returns the number of layers of the cache that a convolution layer has.
func (c Config) convolutionParts() int {
	cols := max(c.KeyCols+c.ValueCols, 1)
	return (c.Hidden + cols - 1) / cols
}

// shortConv is a convolution layer: out·(c ⊙ conv(b ⊙ x)), with [b | c | x] = in·h.
type shortConv struct {
	norm   compute.Weight   // {hidden}
	in     []compute.Weight // one weight {hidden, 3*hidden}
	parts  []convolutionPart
	shape  compute.AttentionShape // KVHeads, KeyDim, ValueDim and Window
	output []compute.Weight       // one weight {hidden, hidden}
	buffer compute.Tensor         // [rows, 3*hidden]
}

// convolutionPart has the columns of a convolution that one layer of the cache stores.
type convolutionPart struct {
	from, cols int
	weights    compute.Weight // {taps*cols}
	stored     int            // number of the layer in the cache
}

func (a *shortConv) attend(s compute.Step, t *trunk, layer int, x compute.Tensor) {
	all, n := a.buffer.Head(x.Rows), x.Cols
	s.MatMul(all, t.normed(s, x, a.norm), a.in...)
	for i := range a.parts {
		p := &a.parts[i]
		s.ShortConv(all.Slice(n+p.from, p.cols), all.Slice(p.from, p.cols), all.Slice(2*n+p.from, p.cols), p.weights, a.shape, t.cache, p.stored)
	}
	out := all.Slice(n, n)
	s.Checkpoint(layer, "attn", out)
	t.add(s, x, out, a.output, nil)
}

// store is not called: it is for MTP layers, which have attention.
func (a *shortConv) store(compute.Step, *trunk, int, compute.Tensor) {}

// shortConv loads layer i. place returns the numbers of its layers in the cache.
func (l *loader) shortConv(i int, conv *convolution, shape compute.AttentionShape, m *decoder, place func(slides bool) int) *shortConv {
	name := func(s string) string { return blockTensor(i, s) }
	hidden := m.config.Hidden
	shape.Window = conv.taps
	a := &shortConv{
		norm:   l.weight(name("attn_norm.weight"), hidden),
		in:     []compute.Weight{l.weight(name("shortconv.in_proj.weight"), hidden, 3*hidden)},
		output: []compute.Weight{l.weight(name("shortconv.out_proj.weight"), hidden, hidden)},
		shape:  shape, buffer: conv.buffer,
	}
	w := l.tensor(name("shortconv.conv.weight"), conv.taps, hidden)
	for from := 0; from < hidden && l.err == nil; {
		cols := min(m.config.KeyCols+m.config.ValueCols, hidden-from)
		part := rowsOf(w, from, cols)
		part.Shape = []int{conv.taps * cols}
		a.parts = append(a.parts, convolutionPart{from: from, cols: cols, weights: l.place(part), stored: place(true)})
		from += cols
	}
	return a
}
