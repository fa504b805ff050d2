package model

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// gemma4Shape has the sizes of a file's attention.
type gemma4Shape struct {
	layers, shared int
	slides         []bool // [layers] whether a layer has a window
	window         int
	full, sliding  compute.AttentionShape // of the layers without and with a window
}

func (s *gemma4Shape) of(layer int) compute.AttentionShape {
	if s.slides[layer] {
		return s.sliding
	}
	return s.full
}

// source returns the layer whose keys and values a layer reads: itself or, if it is one of the last
// layers, which have none, the last layer of its kind that has.
func (s *gemma4Shape) source(layer int) int {
	if layer < s.layers-s.shared {
		return layer
	}
	for i := s.layers - s.shared - 1; i >= 0; i-- {
		if s.slides[i] == s.slides[layer] {
			return i
		}
	}
	return -1
}

func (l *loader) gemma4Shape() *gemma4Shape {
	s := &gemma4Shape{layers: l.size("block_count"), shared: l.sizeOr("attention.shared_kv_layers", 0)}
	s.window = l.sizeOr("attention.sliding_window", 0)
	const pattern = "attention.sliding_window_pattern"
	l.require(pattern)
	s.slides = settingOr(l, pattern, nil, l.file.Meta().Bools)
	heads := l.size("attention.head_count")
	if l.err != nil {
		return s
	}
	if len(s.slides) != s.layers || s.window == 0 && slices.Contains(s.slides, true) {
		l.fail(fmt.Errorf("%s has %d values and %s is %d, but there must be a value for each of the %d layers, and a window if one is true",
			l.key(pattern), len(s.slides), l.key("attention.sliding_window"), s.window, s.layers))
		return s
	}
	kv := l.sizes("attention.head_count_kv", s.layers)
	s.full = l.gemma4Heads(heads, kv, s.slides, false, l.size("attention.key_length"))
	s.sliding = l.gemma4Heads(heads, kv, s.slides, true, s.full.KeyDim)
	s.sliding.Window = s.window
	for i := range s.slides {
		if l.err == nil && l.arch != assistantArch && (s.shared >= s.layers || s.source(i) < 0) {
			l.fail(fmt.Errorf("%s is %d, but each of these layers needs an earlier layer of its kind, with keys and values", l.key("attention.shared_kv_layers"), s.shared))
		}
	}
	return s
}

// gemma4Heads returns the shape of the layers of one kind, which must all have the same number of
// key heads. Attention scores are not scaled. dim is the number of values of a head if the file
// does not state it.
func (l *loader) gemma4Heads(heads int, kv []int, slides []bool, kind bool, dim int) compute.AttentionShape {
	key, value := "attention.key_length", "attention.value_length"
	if kind {
		key, value = key+"_swa", value+"_swa"
	}
	s := compute.AttentionShape{Heads: heads, KeyDim: l.sizeOr(key, dim), Scale: 1}
	s.ValueDim = l.sizeOr(value, s.KeyDim)
	for i, n := range kv {
		if slides[i] != kind {
			continue
		}
		if s.KVHeads == 0 {
			s.KVHeads = n
		}
		if n != s.KVHeads || n == 0 || heads%n != 0 {
			l.fail(fmt.Errorf("%s is %v, but all layers with a window, and all without one, must have the same divisor of the number of query heads, which is %d: %w",
				l.key("attention.head_count_kv"), kv, heads, ErrUnsupported))
			return s
		}
	}
	if s.KeyDim != s.ValueDim || s.KeyDim < 2 {
		l.fail(fmt.Errorf("%s is %d and %s is %d, but both must be the same and at least 2: %w", l.key(key), s.KeyDim, l.key(value), s.ValueDim, ErrUnsupported))
	}
	return s
}

func gemma4Config(l *loader) Config {
	s := l.gemma4Shape()
	hidden := l.size("embedding_length")
	c := Config{
		Architecture: l.arch, Name: l.name(), Context: l.context(), Layers: s.layers, Shared: s.shared, Hidden: hidden,
	}
	if l.err != nil {
		return c
	}
	c.Vocab = l.vocab(hidden)
	full := 0
	for i := range s.layers - s.shared {
		if s.slides[i] {
			c.Sliding, c.Window = c.Sliding+1, s.window
		} else {
			full++
		}
	}
	l.gemma4Columns(&c, s, full)
	return c
}

// gemma4Columns sets what a layer stores. If the two kinds of layers store different numbers of
// values, several layers of one kind store as many as a layer of the other.
func (l *loader) gemma4Columns(c *Config, s *gemma4Shape, full int) {
	ofFull, ofSliding := s.full.KVHeads*s.full.KeyDim, s.sliding.KVHeads*s.sliding.KeyDim
	dim := s.full.KeyDim
	switch {
	case c.Sliding == 0:
		ofSliding = ofFull
	case full == 0:
		ofFull, dim = ofSliding, s.sliding.KeyDim
	default:
		for rest := s.sliding.KeyDim; rest > 0; {
			dim, rest = rest, dim%rest
		}
	}
	c.KeyCols = max(ofFull, ofSliding)
	if c.KeyCols%ofFull != 0 || c.KeyCols%ofSliding != 0 {
		l.fail(fmt.Errorf("layers store keys of %d values, and layers with a window keys of %d, but one must be a multiple of the other: %w", ofFull, ofSliding, ErrUnsupported))
		return
	}
	if ofFull != ofSliding {
		c.FullParts, c.SlidingParts = c.KeyCols/ofFull, c.KeyCols/ofSliding
	}
	c.ValueCols, c.KeyDim, c.ValueDim = c.KeyCols, dim, dim
}

func loadGemma4(l *loader, c Config, lim Limits) Model {
	s := l.gemma4Shape()
	l.refuse("attention.temperature_scale", 0)
	l.refuse("attn_logit_softcapping", 0)
	l.refuse("nextn_predict_layers", 0)
	m := &gemma4{trunk: l.trunk(c), embedScale: float32(math.Sqrt(float64(c.Hidden))), softCap: float32(l.floatOr("final_logit_softcapping", 0))}
	m.suppressed = l.suppressed(c.Vocab)
	if size := l.sizeOr("embedding_length_per_layer_input", 0); size > 0 {
		m.inputs = l.layerInputs(size, c, lim)
	}
	if l.sizeOr("expert_count", 0) > 0 {
		m.mixture = l.gemma4Mixture(c, lim)
	}
	full, sliding := l.gemma4Ropes(s, 0, lim)
	if l.err != nil {
		return nil
	}
	ffn := l.sizes("feed_forward_length", c.Layers)
	m.shape, m.places = s, s.places(c.Groups(lim))
	qkv, queries, width := 1, 1, 1
	for i := range c.Layers {
		layer := l.gemma4Layer(m, s, i, ffn[i])
		if l.err != nil {
			return nil
		}
		a := &layer.attention
		a.stored, a.rope = m.places[s.source(i)], full
		if s.slides[i] {
			a.rope = sliding
		}
		qkv, queries, width = max(qkv, a.cols), max(queries, a.shape.Heads*a.shape.KeyDim), max(width, ffn[i])
		if m.mixture != nil {
			width = max(width, layer.experts.width(m.mixture.route))
		}
		m.layers = append(m.layers, layer)
	}
	l.unused(func(name string) bool { return isDerived(name) || s.sharedTensor(name) })
	m.qkv, m.attn, m.ffn = l.buffer(lim.Rows, qkv), l.buffer(lim.Rows, queries), l.buffer(lim.Rows, width)
	m.memory(l, lim, m.forward)
	return m
}

// gemma4Ropes returns the rotations of the layers without and with a window. The first row of a
// table is for the given position.
func (l *loader) gemma4Ropes(s *gemma4Shape, first int, lim Limits) (full, sliding compute.Rope) {
	freqs, _ := l.ropeFreqs(l.sizeOr("rope.dimension_count", s.full.KeyDim), false)
	local, _ := l.baseFreqs("rope.freq_base_swa", l.sizeOr("rope.dimension_count_swa", s.sliding.KeyDim))
	if l.err == nil && (2*len(freqs.Freqs) > s.full.KeyDim || 2*len(local) > s.sliding.KeyDim) {
		l.fail(fmt.Errorf("%s is %d, and %d with a window, but a head has only %d and %d values",
			l.key("rope.dimension_count"), 2*len(freqs.Freqs), 2*len(local), s.full.KeyDim, s.sliding.KeyDim))
	}
	localFreqs := rotation(local)
	for _, f := range []*compute.RopeFreqs{&freqs, &localFreqs} {
		f.Halves, f.First = true, first
	}
	return l.rope(freqs, lim), l.rope(localFreqs, lim)
}

// places returns, for each layer with keys and values, the number under which the cache stores it.
func (s *gemma4Shape) places(g Groups) []int {
	before, list := map[bool]int{}, make([]int, s.layers-s.shared)
	for i := range list {
		list[i] = g.place(i, before[s.slides[i]], s.slides[i])
		before[s.slides[i]]++
	}
	return list
}

// sharedTensor reports whether a tensor is one of the keys and values that the last layers do not
// use. Some files contain them anyway.
func (s *gemma4Shape) sharedTensor(name string) bool {
	for i := s.layers - s.shared; i < s.layers; i++ {
		if name == blockTensor(i, "attn_k.weight") || name == blockTensor(i, "attn_v.weight") || name == blockTensor(i, "attn_k_norm.weight") {
			return true
		}
	}
	return false
}

func (l *loader) gemma4Layer(m *gemma4, s *gemma4Shape, i, ffn int) gemma4Layer {
	name := func(s string) string { return blockTensor(i, s) }
	hidden := m.config.Hidden
	layer := gemma4Layer{attention: l.gemma4Attention(s, i, hidden), scale: l.scalar(name("layer_output_scale.weight"))}
	layer.network = network{
		norm: l.weight(name("ffn_norm.weight"), hidden), postNorm: l.weight(name("post_ffw_norm.weight"), hidden), activation: compute.GELU,
		gate: l.weight(name("ffn_gate.weight"), hidden, ffn), up: l.weight(name("ffn_up.weight"), hidden, ffn),
		down: []compute.Weight{l.weight(name("ffn_down.weight"), ffn, hidden)},
	}
	if m.mixture != nil {
		layer.experts = l.gemma4Experts(i, hidden, m.mixture.route)
	}
	if m.inputs != nil {
		layer.input = layerInput{
			gate:     []compute.Weight{l.weight(name("inp_gate.weight"), hidden, m.inputs.size)},
			output:   []compute.Weight{l.weight(name("proj.weight"), m.inputs.size, hidden)},
			postNorm: l.weight(name("post_norm.weight"), hidden),
		}
	}
	return layer
}

func (l *loader) gemma4Attention(s *gemma4Shape, i, hidden int) gemma4Attention {
	name := func(s string) string { return blockTensor(i, s) }
	shape := s.of(i)
	queries, keys := shape.Heads*shape.KeyDim, shape.KVHeads*shape.KeyDim
	a := gemma4Attention{
		norm:       l.weight(name("attn_norm.weight"), hidden),
		weights:    []compute.Weight{l.weight(name("attn_q.weight"), hidden, queries)},
		products:   queries,
		cols:       queries,
		projection: compute.Projection{QueryNorm: l.weight(name("attn_q_norm.weight"), shape.KeyDim), Eps: l.eps()},
		storing:    shape,
		shape:      shape,
		output:     []compute.Weight{l.weight(name("attn_output.weight"), queries, hidden)},
		postNorm:   l.weight(name("post_attention_norm.weight"), hidden),
	}
	if s.source(i) != i {
		a.storing.KVHeads, a.projection.KeyNorm = 0, a.projection.QueryNorm
		return a
	}
	a.projection.KeyNorm, a.projection.ValueNorm = l.weight(name("attn_k_norm.weight"), shape.KeyDim), true
	a.weights = append(a.weights, l.weight(name("attn_k.weight"), hidden, keys))
	a.products, a.cols = queries+keys, queries+2*keys
	if v := l.optional(name("attn_v.weight"), hidden, keys); v != nil {
		a.weights, a.products = append(a.weights, v), a.cols
	} else {
		a.projection.ValuesFromKeys = true
	}
	return a
}

func (l *loader) gemma4Mixture(c Config, lim Limits) *gemma4Mixture {
	route := l.routeShape(softmaxOfChosen)
	route.Scaled = true
	if l.err == nil && route.Used == 0 {
		l.fail(fmt.Errorf("%s is missing or 0, but the model has a mixture of experts", l.key("expert_used_count")))
	}
	if l.err != nil {
		return nil
	}
	return &gemma4Mixture{
		route: route, zeros: l.constant("zeros", make([]float32, c.Hidden)),
		routing: l.buffer(lim.Rows, 2*route.Used), router: l.buffer(lim.Rows, c.Hidden),
		dense: l.buffer(lim.Rows, c.Hidden), routed: l.buffer(lim.Rows, c.Hidden),
	}
}

func (l *loader) gemma4Experts(i, hidden int, route compute.RouteShape) gemma4Experts {
	name := func(s string) string { return blockTensor(i, s) }
	n, ffn := route.Experts, l.size("expert_feed_forward_length")
	e := gemma4Experts{
		routerNorm: l.joined(float32(1/math.Sqrt(float64(hidden))), []string{name("ffn_gate_inp.scale")}, hidden),
		norm:       l.weight(name("pre_ffw_norm_2.weight"), hidden),
		postDense:  l.weight(name("post_ffw_norm_1.weight"), hidden),
		post:       l.weight(name("post_ffw_norm_2.weight"), hidden),
	}
	e.router = l.weight(name("ffn_gate_inp.weight"), hidden, n)
	factors := slices.Repeat([]float32{1}, n)
	if _, ok := l.file.Tensor(name("ffn_down_exps.scale")); ok {
		factors = l.values(name("ffn_down_exps.scale"), n)
	}
	e.routerBias = l.constant(name("ffn_down_exps.scale"), append(make([]float32, n), factors...))
	e.experts = compute.Experts{Activation: compute.GELU, Down: l.weight(name("ffn_down_exps.weight"), ffn, hidden, n)}
	if _, ok := l.file.Tensor(name("ffn_gate_up_exps.weight")); ok {
		e.experts.Gate, e.experts.Up = l.splitGateUp(name("ffn_gate_up_exps.weight"), hidden, ffn, n)
		return e
	}
	e.experts.Gate = l.weight(name("ffn_gate_exps.weight"), hidden, ffn, n)
	e.experts.Up = l.weight(name("ffn_up_exps.weight"), hidden, ffn, n)
	if x := e.experts; l.err == nil && x.Gate.Type() != x.Up.Type() {
		l.fail(fmt.Errorf("%s has type %v and %s has type %v, but they must have the same type: %w",
			name("ffn_gate_exps.weight"), x.Gate.Type(), name("ffn_up_exps.weight"), x.Up.Type(), ErrUnsupported))
	}
	return e
}

// splitGateUp makes two weights {in, ffn, experts} from one {in, 2*ffn, experts}, in which each
// expert has the rows of the gate, then those of up.
func (l *loader) splitGateUp(name string, in, ffn, experts int) (gate, up compute.Weight) {
	t := l.tensor(name, in, 2*ffn, experts)
	if l.err != nil {
		return nil, nil
	}
	halves := [2]gguf.Tensor{}
	for i := range halves {
		halves[i] = gguf.Tensor{Name: name, Type: t.Type, Shape: []int{in, ffn, experts}}
		if l.planning {
			continue
		}
		each := len(t.Data) / (2 * experts)
		for e := range experts {
			halves[i].Data = append(halves[i].Data, t.Data[(2*e+i)*each:(2*e+i+1)*each]...)
		}
	}
	gate, up = l.place(halves[0]), l.place(halves[1])
	l.fail(l.file.ReleaseTensor(t))
	return gate, up
}

func (l *loader) layerInputs(size int, c Config, lim Limits) *layerInputs {
	all := size * c.Layers
	return &layerInputs{
		size: size, layers: c.Layers, hidden: float32(c.Hidden), embedScale: float32(math.Sqrt(float64(size) / 2)),
		embd:       l.table("per_layer_token_embd.weight", all, c.Vocab),
		projection: []compute.Weight{l.weight("per_layer_model_proj.weight", c.Hidden, all)},
		norm:       l.joined(float32(math.Sqrt(0.5)), []string{"per_layer_proj_norm.weight"}, size),
		vectors:    l.buffer(lim.Rows, all), projected: l.buffer(lim.Rows, all), gate: l.buffer(lim.Rows, size),
	}
}

// suppressedLogit is added to the logits of the tokens that a file lists as never to be chosen. It
// is finite, since infinite logits are taken for a fault.
const suppressedLogit = -1e30

// suppressed returns what is added to the logits of all tokens; nil if the file lists no tokens
// that must not be chosen.
func (l *loader) suppressed(vocab int) compute.Weight {
	ids, err := l.file.Meta().Ints("tokenizer.ggml.suppress_tokens")
	if errors.Is(err, gguf.ErrMissing) || len(ids) == 0 && err == nil {
		return nil
	}
	l.fail(err)
	values := make([]float32, vocab)
	for _, id := range ids {
		if id >= 0 && id < int64(vocab) {
			values[id] = suppressedLogit
		}
	}
	return l.constant("suppressed tokens", values)
}

// table loads a tensor that only Embed reads.
func (l *loader) table(name string, shape ...int) compute.Weight {
	t := l.tensor(name, shape...)
	if l.err != nil {
		return nil
	}
	w, err := l.be.Table(t)
	l.fail(err)
	l.report(t)
	return w
}

// values reads a vector. A plan reads no tensors: its values are 0.
func (l *loader) values(name string, n int) []float32 {
	if t := l.tensor(name, n); l.err == nil && !l.planning {
		return t.Values()
	}
	return make([]float32, n)
}

// scalar reads the only value of a tensor; 1 if the file does not have it.
func (l *loader) scalar(name string) float32 {
	if _, ok := l.file.Tensor(name); !ok {
		return 1
	}
	v := l.values(name, 1)[0]
	if l.err == nil && !finiteFloat(v) {
		l.fail(fmt.Errorf("tensor %s is %g, but must be finite", name, v))
	}
	return v
}

func finiteFloat(v float32) bool { return v-v == 0 }

// sizes reads a setting that is a size of each layer: one number for all layers, or an array.
func (l *loader) sizes(name string, layers int) []int {
	list, err := l.file.Meta().Ints(l.key(name))
	if err != nil {
		return slices.Repeat([]int{l.size(name)}, layers)
	}
	sizes := make([]int, layers)
	if len(list) < layers {
		l.fail(fmt.Errorf("%s has %d values, but there are %d layers", l.key(name), len(list), layers))
		return sizes
	}
	for i := range sizes {
		if list[i] < 1 || list[i] > maxSize {
			l.fail(fmt.Errorf("%s has the value %d, but must be from 1 to %d", l.key(name), list[i], maxSize))
			return sizes
		}
		sizes[i] = int(list[i])
	}
	return sizes
}
