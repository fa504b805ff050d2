package model_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute/computetest"
	"github.com/ingot-run/ingot/engine/gguf"
)

// build has the content of a model file to write.
type build struct {
	arch    string
	meta    *gguf.Metadata
	tensors []gguf.Tensor
	rand    *rand.Rand
}

func newBuild(arch string) *build {
	b := &build{arch: arch, meta: gguf.NewMetadata(), rand: rand.New(rand.NewPCG(1, 2))}
	b.meta.Set("general.architecture", arch)
	return b
}

// set sets a setting of the architecture. The value has any type that GGUF supports.
func (b *build) set(name string, v any) {
	if n, ok := v.(int); ok {
		v = uint32(n)
	}
	b.meta.Set(b.arch+"."+name, v)
}

// weight adds a random matrix whose products have about the magnitude of their inputs.
func (b *build) weight(name string, t gguf.Type, shape ...int) {
	b.tensors = append(b.tensors, computetest.RandomTensor(b.rand, name, t, 1/math.Sqrt(float64(shape[0])), shape...))
}

// vector adds a vector of n random values with a standard deviation of about 1.
func (b *build) vector(name string, n int) {
	b.tensors = append(b.tensors, computetest.RandomTensor(b.rand, name, gguf.TypeF32, 1, n))
}

// floats adds a float32 tensor with the given values.
func (b *build) floats(name string, values []float32, shape ...int) {
	data := make([]byte, 4*len(values))
	if err := gguf.Quantise(data, gguf.TypeF32, values); err != nil {
		panic(err)
	}
	b.tensors = append(b.tensors, gguf.Tensor{Name: name, Type: gguf.TypeF32, Shape: shape, Data: data})
}

// remove removes a tensor or a setting.
func (b *build) remove(name string) {
	b.tensors = slices.DeleteFunc(b.tensors, func(t gguf.Tensor) bool { return t.Name == name })
	meta := gguf.NewMetadata()
	for _, key := range b.meta.Keys() {
		if v, _ := b.meta.Any(key); key != name && key != b.arch+"."+name {
			meta.Set(key, v)
		}
	}
	b.meta = meta
}

// clone returns a copy with the same data of tensors.
func (b *build) clone() *build {
	c := &build{arch: b.arch, meta: gguf.NewMetadata(), rand: rand.New(rand.NewPCG(1, 3)), tensors: slices.Clone(b.tensors)}
	for _, key := range b.meta.Keys() {
		v, _ := b.meta.Any(key)
		c.meta.Set(key, v)
	}
	for i := range c.tensors {
		c.tensors[i].Shape = slices.Clone(c.tensors[i].Shape)
	}
	return c
}

// tensor returns a tensor, which may be changed in place.
func (b *build) tensor(name string) *gguf.Tensor {
	i := slices.IndexFunc(b.tensors, func(t gguf.Tensor) bool { return t.Name == name })
	if i < 0 {
		panic("there is no tensor " + name)
	}
	return &b.tensors[i]
}

// write writes the file and returns its path.
func (b *build) write(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "model.gguf")
	f, err := os.Create(path)
	require.NoError(tb, err)
	require.NoError(tb, gguf.Write(f, b.meta, b.tensors))
	require.NoError(tb, f.Close())
	return path
}

// rebuild reads the content of a file.
func rebuild(tb testing.TB, path string) *build {
	tb.Helper()
	f, err := gguf.Open(path)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, f.Close()) })
	arch, err := f.Meta().String("general.architecture")
	require.NoError(tb, err)
	b := newBuild(arch)
	for _, key := range f.Meta().Keys() {
		v, _ := f.Meta().Any(key)
		b.meta.Set(key, v)
	}
	b.tensors = slices.Clone(f.Tensors())
	return b
}

// blockName returns the name of a layer's weight.
func blockName(layer int, name string) string { return fmt.Sprintf("blk.%d.%s.weight", layer, name) }

const (
	vocab  = 60
	hidden = 32
)

// llamaLayout has the properties in which Llama files differ.
type llamaLayout struct {
	hidden, heads, kvHeads int
	key, value             int // 0: the file does not have the setting
	rope                   int // 0: the file does not have the setting
	tied                   bool
	experts                int // number of experts, of which two are used; 0 for a dense network in each layer
	kind                   gguf.Type
}

// build makes a file of two layers.
func (l llamaLayout) build() *build {
	b := newBuild("llama")
	n, ffn := l.hidden, 2*l.hidden
	key, value := l.key, l.value
	if key == 0 {
		key = n / l.heads
	}
	if value == 0 {
		value = key
	}
	for name, v := range map[string]int{"attention.key_length": l.key, "attention.value_length": l.value, "rope.dimension_count": l.rope} {
		if v > 0 {
			b.set(name, v)
		}
	}
	b.set("block_count", 2)
	b.set("context_length", 512)
	b.set("embedding_length", n)
	b.set("feed_forward_length", ffn)
	b.set("attention.head_count", l.heads)
	b.set("attention.head_count_kv", l.kvHeads)
	b.set("attention.layer_norm_rms_epsilon", float32(0.01))
	b.set("rope.freq_base", float32(100))
	if l.experts > 0 {
		b.set("expert_count", l.experts)
		b.set("expert_used_count", 2)
	}
	b.weight("token_embd.weight", l.kind, n, vocab)
	b.vector("output_norm.weight", n)
	if !l.tied {
		b.weight("output.weight", l.kind, n, vocab)
	}
	for i := range 2 {
		name := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", i, s) }
		b.vector(name("attn_norm"), n)
		b.weight(name("attn_q"), l.kind, n, l.heads*key)
		b.weight(name("attn_k"), l.kind, n, l.kvHeads*key)
		b.weight(name("attn_v"), l.kind, n, l.kvHeads*value)
		b.weight(name("attn_output"), l.kind, l.heads*value, n)
		b.vector(name("ffn_norm"), n)
		if l.experts > 0 {
			b.weight(name("ffn_gate_inp"), gguf.TypeF32, n, l.experts)
			b.weight(name("ffn_gate_exps"), l.kind, n, ffn, l.experts)
			b.weight(name("ffn_up_exps"), l.kind, n, ffn, l.experts)
			b.weight(name("ffn_down_exps"), l.kind, ffn, n, l.experts)
			continue
		}
		b.weight(name("ffn_gate"), l.kind, n, ffn)
		b.weight(name("ffn_up"), l.kind, n, ffn)
		b.weight(name("ffn_down"), l.kind, ffn, n)
	}
	return b
}

// glmLayout has the properties in which deepseek2 files differ.
type glmLayout struct {
	arch               string
	layers, dense, mtp int
	qRank              int // 0 for queries that are not compressed
	joint              bool
	olderKeys          bool // the file has the head sizes as key_length and value_length
	shared             int
	gating             int // 0: the file does not have the setting
	norm, bias, tied   bool
	ownMTP             bool // the MTP layer has its own embedding and output head
	kind               gguf.Type
}

// The sizes of the attention in deepseek2 test files. All sizes are different, so that a mix-up is
// noticed.
const (
	glmHeads, glmNope, glmRope, glmValue, glmRank = 3, 12, 8, 20, 24
	glmFFN, glmExperts, glmUsed, glmExpertFFN     = 44, 6, 2, 14
)

// flash returns a layout like that of GLM-4.7-Flash: three layers, of which one is dense, and an
// MTP layer.
func flash() glmLayout {
	return glmLayout{arch: "deepseek2", layers: 3, dense: 1, mtp: 1, qRank: 16, shared: 1, gating: 2, norm: true, bias: true}
}

func (g glmLayout) build() *build {
	b := newBuild(g.arch)
	b.set("block_count", g.layers+g.mtp)
	b.set("context_length", 512)
	b.set("embedding_length", hidden)
	b.set("feed_forward_length", glmFFN)
	b.set("leading_dense_block_count", g.dense)
	b.set("attention.head_count", glmHeads)
	b.set("attention.layer_norm_rms_epsilon", float32(0.01))
	b.set("attention.kv_lora_rank", glmRank)
	if g.qRank > 0 {
		b.set("attention.q_lora_rank", g.qRank)
	}
	if g.olderKeys {
		b.set("attention.head_count_kv", glmHeads)
		b.set("attention.key_length", glmNope+glmRope)
		b.set("attention.value_length", glmValue)
	} else {
		b.set("attention.head_count_kv", 1)
		b.set("attention.key_length", glmRank+glmRope)
		b.set("attention.value_length", glmRank)
		b.set("attention.key_length_mla", glmNope+glmRope)
		b.set("attention.value_length_mla", glmValue)
	}
	b.set("rope.dimension_count", glmRope)
	b.set("rope.freq_base", float32(100))
	b.set("expert_count", glmExperts)
	b.set("expert_used_count", glmUsed)
	b.set("expert_feed_forward_length", glmExpertFFN)
	b.set("expert_shared_count", g.shared)
	b.set("expert_weights_scale", float32(1.8))
	b.set("expert_weights_norm", g.norm)
	if g.gating > 0 {
		b.set("expert_gating_func", g.gating)
	}
	if g.mtp > 0 {
		b.set("nextn_predict_layers", g.mtp)
	}
	b.weight("token_embd.weight", g.kind, hidden, vocab)
	b.vector("output_norm.weight", hidden)
	if !g.tied {
		b.weight("output.weight", g.kind, hidden, vocab)
	}
	for i := range g.layers + g.mtp {
		g.layer(b, i)
		if i >= g.layers {
			g.prediction(b, i)
		}
	}
	return b
}

func (g glmLayout) layer(b *build, i int) {
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s", i, s) }
	b.vector(name("attn_norm.weight"), hidden)
	b.vector(name("ffn_norm.weight"), hidden)
	if g.qRank > 0 {
		b.weight(name("attn_q_a.weight"), g.kind, hidden, g.qRank)
		b.vector(name("attn_q_a_norm.weight"), g.qRank)
		b.weight(name("attn_q_b.weight"), g.kind, g.qRank, glmHeads*(glmNope+glmRope))
	} else {
		b.weight(name("attn_q.weight"), g.kind, hidden, glmHeads*(glmNope+glmRope))
	}
	b.weight(name("attn_kv_a_mqa.weight"), g.kind, hidden, glmRank+glmRope)
	b.vector(name("attn_kv_a_norm.weight"), glmRank)
	if g.joint {
		b.weight(name("attn_kv_b.weight"), g.kind, glmRank, glmHeads*(glmNope+glmValue))
	} else {
		b.weight(name("attn_k_b.weight"), g.kind, glmNope, glmRank, glmHeads)
		b.weight(name("attn_v_b.weight"), g.kind, glmRank, glmValue, glmHeads)
	}
	b.weight(name("attn_output.weight"), g.kind, glmHeads*glmValue, hidden)
	if i < g.dense {
		b.weight(name("ffn_gate.weight"), g.kind, hidden, glmFFN)
		b.weight(name("ffn_up.weight"), g.kind, hidden, glmFFN)
		b.weight(name("ffn_down.weight"), g.kind, glmFFN, hidden)
		return
	}
	b.weight(name("ffn_gate_inp.weight"), gguf.TypeF32, hidden, glmExperts)
	if g.bias {
		b.tensors = append(b.tensors, computetest.RandomTensor(b.rand, name("exp_probs_b.bias"), gguf.TypeF32, 0.2, glmExperts))
	}
	b.weight(name("ffn_gate_exps.weight"), g.kind, hidden, glmExpertFFN, glmExperts)
	b.weight(name("ffn_up_exps.weight"), g.kind, hidden, glmExpertFFN, glmExperts)
	b.weight(name("ffn_down_exps.weight"), g.kind, glmExpertFFN, hidden, glmExperts)
	if width := g.shared * glmExpertFFN; width > 0 {
		b.weight(name("ffn_gate_shexp.weight"), g.kind, hidden, width)
		b.weight(name("ffn_up_shexp.weight"), g.kind, hidden, width)
		b.weight(name("ffn_down_shexp.weight"), g.kind, width, hidden)
	}
}

func (g glmLayout) prediction(b *build, i int) {
	name := func(s string) string { return fmt.Sprintf("blk.%d.nextn.%s.weight", i, s) }
	b.weight(name("eh_proj"), g.kind, 2*hidden, hidden)
	b.vector(name("enorm"), hidden)
	b.vector(name("hnorm"), hidden)
	b.vector(name("shared_head_norm"), hidden)
	if g.ownMTP {
		b.weight(name("embed_tokens"), g.kind, hidden, vocab)
		b.weight(name("shared_head_head"), g.kind, hidden, vocab)
	}
}
