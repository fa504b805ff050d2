package engine_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
)

// microPhi3 makes a model of Phi-3's layout from micro-llama. It was trained for 1,024 positions
// and has other RoPE factors for contexts of more than 256 positions.
func microPhi3(t *testing.T) string {
	t.Helper()
	f, err := gguf.Open(microLlama)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	meta := gguf.NewMetadata()
	for _, key := range f.Meta().Keys() {
		v, _ := f.Meta().Any(key)
		meta.Set(strings.Replace(key, "llama.", "phi3.", 1), v)
	}
	meta.Set("general.architecture", "phi3")
	meta.Set("phi3.rope.scaling.original_context_length", uint32(256))
	byName := map[string]gguf.Tensor{}
	for _, tensor := range f.Tensors() {
		byName[tensor.Name] = tensor
	}
	var tensors []gguf.Tensor
	for _, tensor := range f.Tensors() {
		layer, part, _ := strings.Cut(tensor.Name, "attn_q.")
		into := layer + "attn_qkv." + part
		with := []string{layer + "attn_k.weight", layer + "attn_v.weight"}
		switch {
		case strings.Contains(tensor.Name, "attn_k.") || strings.Contains(tensor.Name, "attn_v.") || strings.Contains(tensor.Name, "ffn_up."):
			continue
		case strings.Contains(tensor.Name, "ffn_gate."):
			into = strings.Replace(tensor.Name, "gate", "up", 1)
			with = []string{into}
		case !strings.Contains(tensor.Name, "attn_q."):
			tensors = append(tensors, tensor)
			continue
		}
		rows := tensor
		rows.Name, rows.Shape, rows.Data = into, slices.Clone(tensor.Shape), slices.Clone(tensor.Data)
		for _, name := range with {
			rows.Shape[1] += byName[name].Shape[1]
			rows.Data = append(rows.Data, byName[name].Data...)
		}
		tensors = append(tensors, rows)
	}
	for name, factor := range map[string]float32{"rope_factors_short.weight": 1, "rope_factors_long.weight": 7} {
		data := slices.Repeat(binary.LittleEndian.AppendUint32(nil, math.Float32bits(factor)), 8)
		tensors = append(tensors, gguf.Tensor{Name: name, Type: gguf.TypeF32, Shape: []int{8}, Data: data})
	}
	path := filepath.Join(t.TempDir(), "phi3.gguf")
	out, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, gguf.Write(out, meta, tensors))
	require.NoError(t, out.Close())
	return path
}

// The context that the model was trained for or that the user asked for selects the RoPE factors.
// How much memory is free changes no answer.
func TestMemoryDoesNotSelectRopeFactors(t *testing.T) {
	t.Parallel()
	path := microPhi3(t)
	memory := int64(1 << 20)
	little := func() engine.Options { return engine.Options{Memory: memory, MaxSequences: 1, Draft: engine.DraftOff} }
	fit := func() engine.Fit {
		be := backend(t)
		defer func() { require.NoError(t, be.Close()) }()
		fit, err := engine.CheckFit(path, be, little())
		if err != nil {
			return engine.Fit{}
		}
		return fit
	}
	for ; fit().Context < 64; memory += 16 << 10 {
		require.Less(t, memory, int64(1<<30))
	}
	require.LessOrEqual(t, fit().Context, 256)
	score := func(path string, o engine.Options) []generation.TokenLogprob {
		c := generate(t, open(t, path, o), generation.Request{Tokens: randomTokens(3, 40), MaxTokens: 8, IgnoreEOS: true, Logprobs: true, TopLogprobs: 4})
		return c.Choices[0].Logprobs
	}
	long := score(path, engine.Options{})
	require.Equal(t, long, score(path, little()))
	short := score(path, engine.Options{Context: 256})
	require.NotEqual(t, long, short)
	asked := little()
	asked.Context = 64
	require.Equal(t, short, score(path, asked))
	require.Equal(t, long, score(path, engine.Options{Context: 257}))
}
