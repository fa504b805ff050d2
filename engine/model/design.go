package model

import (
	"fmt"
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// design describes how a family's layers differ from Llama's. A design that only sets freqs
// describes Llama.
type design struct {
	// freqs is the rotation (RoPE) of queries and keys. unrotated reports whether a layer has no
	// rotation; nil if all layers rotate.
	freqs     compute.RopeFreqs
	unrotated func(layer int) bool
	// scale is the factor of the attention scores; 0 for 1/√keyDim.
	scale float32
	// window is the sliding window that some layers have. slidingFamily sets it.
	window window
	// slidingFreqs is the rotation of the layers with a sliding window; nil if they also use freqs.
	slidingFreqs *compute.RopeFreqs

	qkvBias, outputBias bool // biases of the products before and after attention
	headNorms           bool // norms of each head of queries and keys
	projectionNorms     bool // norms of the whole queries and the whole keys
	gatedHeads          bool // attn_q also has a gate of each head's output, after the head's queries
	sinks               bool // attention sinks, in tensors attn_sinks

	noPreNorms  bool         // attention and network read the residual stream without a norm
	postNorms   bool         // norms of the outputs of attention and network: post_attention_norm, post_ffw_norm
	postEps     float64      // eps of these norms; 0 for that of the other norms
	embedNorm   bool         // the embeddings are normed, without a gain
	convolution *convolution // layers with a convolution instead of attention; nil if there are none
	attnGate    bool         // attention is multiplied by the sigmoid of a product: attn_gate
	ffnNorm     string       // name of the norm before the network; "" for ffn_norm
	fusedUp     bool         // ffn_up has the rows of the gate, then those of up
	activation  compute.Activation

	route       *compute.RouteShape // routing in the layers with experts; nil if there are none
	dense       int                 // number of leading layers without experts
	extraLayers bool                // ignore layers after the last one, even if the file states no MTP layer
	expertBias  bool                // biases of the experts' products
	sharedGate  bool                // the output of the shared expert is multiplied by a gate
	// normedDrafts makes a draft after another one start from the MTP layer's state after the last
	// norm.
	normedDrafts bool
	recurrence   *recurrence // recurrent layers; nil if there are none
	// networks has the layers that are a network alone; the others are attention or a recurrence
	// alone. nil if all layers have both.
	networks    []bool
	noGate      bool    // the network has no gate: activation(up·x) instead of activation(gate·x, up·x)
	latent      int     // number of values that routed experts read and write; 0 for those of the residual stream
	embedScale  float64 // factor of the embeddings; 0 for 1
	branchScale float64 // factor of the outputs of attention and network; 0 for 1
	logitScale  float64 // divisor of the logits; 0 for 1
	logitCap    float64 // soft cap of the logits, after logitScale; 0 for none
}

type window struct {
	length int
	slides func(layer int) bool // reports whether a layer has the window; can be nil if length is 0
}

// slidingLayers reads which layers have a sliding window: the setting has a bool for each layer, or
// a number n if every nth layer has no window. every is the number for files without the setting.
func (l *loader) slidingLayers(every int) func(layer int) bool {
	const name = "attention.sliding_window_pattern"
	v, _ := l.file.Meta().Any(l.key(name))
	if list, ok := v.([]bool); ok {
		if layers := l.size("block_count"); l.err == nil && len(list) != layers {
			l.fail(fmt.Errorf("%s has %d values, but the model has %d layers", l.key(name), len(list), layers))
		}
		return func(layer int) bool { return layer < len(list) && list[layer] }
	}
	every = l.sizeOr(name, every)
	return func(layer int) bool { return every == 0 || (layer+1)%every != 0 }
}

func (w *window) covers(layer int) bool { return w.length > 0 && w.slides(layer) }

func decoderFamily(read func(l *loader, c Config, lim Limits) design) family {
	return slidingFamily(read, func(*loader) window { return window{} })
}

// slidingFamily is decoderFamily for decoders in which some layers have a sliding window.
// readWindow reads the window from a file.
func slidingFamily(read func(l *loader, c Config, lim Limits) design, readWindow func(l *loader) window) family {
	config := func(l *loader) Config {
		c, w := decoderConfig(l), readWindow(l)
		for layer := range c.Layers {
			if l.err == nil && w.covers(layer) {
				c.Window = w.length
				c.Sliding++
			}
		}
		return c
	}
	return family{config, func(l *loader, c Config, lim Limits) Model {
		shape := l.groupedShape()
		l.refuseAll()
		if l.err != nil {
			return nil
		}
		d := read(l, c, lim)
		d.window = readWindow(l)
		if d.logitCap == 0 {
			l.refuse("final_logit_softcapping", 0)
		}
		if l.err != nil {
			return nil
		}
		return l.groupedDecoder(&d, shape, c, lim)
	}}
}

func (l *loader) refuseAll() {
	l.refuseScores()
	if l.has("rope.dimension_sections") {
		l.fail(fmt.Errorf("%s is set (a rotation by several positions per token): %w", l.key("rope.dimension_sections"), ErrUnsupported))
	}
}

func (l *loader) refuseScores() {
	l.refuse("attention.temperature_scale", 0)
	l.refuse("attn_logit_softcapping", 0)
}

func decoderConfig(l *loader) Config {
	s := l.groupedShape()
	if l.err != nil {
		return Config{}
	}
	hidden := l.size("embedding_length")
	c := Config{
		Architecture: l.arch,
		Name:         l.name(),
		Vocab:        l.vocab(hidden),
		Context:      l.context(),
		Layers:       l.size("block_count"),
		Hidden:       hidden,
		KeyCols:      s.KVHeads * s.KeyDim,
		ValueCols:    s.KVHeads * s.ValueDim,
		KeyDim:       s.KeyDim,
		ValueDim:     s.ValueDim,
	}
	if l.err == nil {
		l.mtpLayers(&c)
	}
	return c
}

func (l *loader) groupedShape() compute.AttentionShape {
	hidden, heads := l.size("embedding_length"), l.uniform("attention.head_count")
	s := compute.AttentionShape{Heads: heads, KVHeads: l.uniformOr("attention.head_count_kv", heads)}
	if l.err != nil {
		return s
	}
	if s.KVHeads == 0 || s.Heads%s.KVHeads != 0 {
		l.fail(fmt.Errorf("%s is %d, but must be a divisor of the number of query heads, which is %d", l.key("attention.head_count_kv"), s.KVHeads, s.Heads))
		return s
	}
	s.KeyDim = l.sizeOr("attention.key_length", hidden/heads)
	s.ValueDim = l.sizeOr("attention.value_length", s.KeyDim)
	if s.KeyDim < 2 || s.ValueDim < 1 {
		l.fail(fmt.Errorf("the length of a head is %d for keys and %d for values, but must be at least 2 and 1: %w", s.KeyDim, s.ValueDim, ErrUnsupported))
	}
	s.Scale = float32(1 / math.Sqrt(float64(s.KeyDim)))
	return s
}

type ropePairs bool

const (
	neighbours ropePairs = false // values 2i and 2i+1
	halves     ropePairs = true  // values i and i+dims/2
)

func (l *loader) rotation(pairs ropePairs) compute.RopeFreqs { return l.rotationWith(pairs, false) }

// rotationWith is like rotation. If exactYaRN is true, the limits of YaRN's interpolation are not
// rounded: see ropeFreqs.
func (l *loader) rotationWith(pairs ropePairs, exactYaRN bool) compute.RopeFreqs {
	freqs, factor := l.ropeFreqs(l.ropeDims(), exactYaRN)
	if factor > 1 {
		freqs.Scale = float32(1 + 0.1*math.Log(factor)) // YaRN multiplies both queries and keys with this factor
	}
	freqs.Halves = bool(pairs)
	return freqs
}

func (l *loader) ropeDims() int {
	s := l.groupedShape()
	dims := l.sizeOr("rope.dimension_count", s.KeyDim)
	if dims > s.KeyDim {
		l.fail(fmt.Errorf("%s is %d, but a head has only %d values", l.key("rope.dimension_count"), dims, s.KeyDim))
	}
	return dims
}
