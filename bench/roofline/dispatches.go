package roofline

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
)

const (
	// splitPositions is how many positions a row may see before its attention is split and joined.
	splitPositions = 256
	// besides is what a step has but its layers: embedding, final norm, choice of the rows, output head, choice of the tokens.
	besides = 5
)

// MaxBatch is the most rows for which a step's dispatches are those of one row: more take other kernels.
const MaxBatch = 8

// Dispatches is how many dispatches the Metal backend makes of a step of up to 8 rows, each of which sees up to so many
// positions. Products of one input are one dispatch where their weights have one type, which not all files give them.
func Dispatches(f *gguf.File, positions int) (int, error) {
	c, err := model.ReadConfig(f)
	if err != nil {
		return 0, err
	}
	n := besides
	for i := range c.Layers {
		l := layer{f, i}
		n += l.attention(positions > splitPositions) + l.feedForward()
	}
	return n, nil
}

// layer is a layer's tensors.
type layer struct {
	file  *gguf.File
	index int
}

// has tells whether the layer has a tensor, and of which type.
func (l layer) has(name string) (gguf.Type, bool) {
	t, ok := l.file.Tensor(fmt.Sprintf("blk.%d.%s.weight", l.index, name))
	return t.Type, ok
}

// products is the dispatches of the products of one input with several weights: those of one type that stand together are
// one, up to three of them.
func (l layer) products(names ...string) int {
	n, together := 0, 0
	var last gguf.Type
	for _, name := range names {
		t, _ := l.has(name)
		if n == 0 || t != last || together == 3 {
			n, together, last = n+1, 0, t
		}
		together++
	}
	return n
}

// gated is the dispatches of a gated product: with weights of two types, two products and the gate.
func (l layer) gated(gate, up string) int {
	if l.products(gate, up) == 2 {
		return 3
	}
	return 1
}

func (l layer) attention(split bool) int {
	n := 2 // attention, and the product that is added to the residual
	if split {
		n++ // its join
	}
	n++ // norm
	if _, ok := l.has("attn_kv_a_mqa"); !ok {
		return n + l.products("attn_q", "attn_k", "attn_v") + 1 // RoPE with the write to the cache
	}
	n += 3 // latents, absorb, expand
	if _, ok := l.has("attn_q_a"); ok {
		return n + l.products("attn_q_a", "attn_kv_a_mqa") + 1 // and q_b
	}
	return n + l.products("attn_q", "attn_kv_a_mqa")
}

func (l layer) feedForward() int {
	n := 1 // norm
	experts, ok := l.has("ffn_down_exps")
	if !ok {
		return n + l.gated("ffn_gate", "ffn_up") + 1
	}
	n += 3 // route, gated experts, the sum of their outputs
	gate, shared := l.has("ffn_gate_shexp")
	if !shared {
		return n
	}
	up, _ := l.has("ffn_up_shexp")
	if of, _ := l.has("ffn_gate_exps"); gate != of || up != of {
		n += l.gated("ffn_gate_shexp", "ffn_up_shexp")
	}
	if down, _ := l.has("ffn_down_shexp"); down != experts {
		n++
	}
	return n
}
