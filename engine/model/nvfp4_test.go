package model_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
)

// scaleNVFP4 multiplies tensors of type NVFP4 by their scales.
func (p *plain) scaleNVFP4() {
	for _, t := range p.file.Tensors() {
		scales, values := p.tensors[strings.TrimSuffix(t.Name, "weight")+"scale"], p.tensors[t.Name]
		if t.Type == gguf.TypeNVFP4 && scales != nil {
			for i := range values {
				values[i] *= scales[i*len(scales)/len(values)]
			}
		}
	}
}

// scaledNVFP4 returns a model with experts, whose matrices have type NVFP4. Some have scales.
func scaledNVFP4() *build {
	b := llamaLayout{hidden: 64, heads: 4, kvHeads: 2, kind: gguf.TypeNVFP4, experts: 4}.build()
	for name, scales := range map[string][]float32{
		"blk.0.attn_q": {0.7}, "blk.0.attn_output": {1.3}, "blk.1.attn_v": {-0.9}, "output": {0.75}, "token_embd": {1.4},
		"blk.0.ffn_gate_exps": {0.5, 1.5, -1, 0.8}, "blk.0.ffn_down_exps": {1.25, 0.6, 1, 2}, "blk.1.ffn_up_exps": {1.1},
	} {
		b.floats(name+".scale", scales, len(scales))
		b.floats(name+".input_scale", []float32{3}, 1)
	}
	return b
}

// TestScaledNVFP4 compares a model with scales with the plain computation.
func TestScaledNVFP4(t *testing.T) {
	t.Parallel()
	requirePlain(t, scaledNVFP4().write(t))
}

func TestScalesOfNVFP4AreChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(b *build)
		want   string
	}{
		"number": {
			func(b *build) {
				b.remove("blk.0.ffn_down_exps.scale")
				b.floats("blk.0.ffn_down_exps.scale", make([]float32, 3), 3)
			},
			"tensor blk.0.ffn_down_exps.scale has shape [3] and type F32, but must have one value of type F32, or one for each matrix of tensor blk.0.ffn_down_exps.weight (4)",
		},
		"infinite": {
			func(b *build) { b.remove("output.scale"); b.floats("output.scale", []float32{float32(math.Inf(1))}, 1) },
			"tensor output.scale has the value +Inf, but scales must be finite",
		},
		"of another type": {
			func(b *build) { b.floats("output_norm.scale", []float32{2}, 1) },
			`tensor "output_norm.scale" is not part of a llama model`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := scaledNVFP4()
			c.change(b)
			f, err := gguf.Open(b.write(t))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, f.Close()) })
			be, err := cpu.New(1)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, be.Close()) })
			_, err = model.Load(be, f, model.Limits{Rows: 4, Outputs: 4, Context: 16, Pages: 4, PageSize: 4})
			require.ErrorContains(t, err, c.want)
		})
	}
}
