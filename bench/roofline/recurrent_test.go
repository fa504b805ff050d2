package roofline_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/bench/roofline"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// TestRecurrentLayers compares the work of the kernels of recurrent layers with the sizes of the
// model's states: a step reads and writes the states of its sequences.
func TestRecurrentLayers(t *testing.T) {
	t.Parallel()
	modeltest.Families(t, func(t *testing.T, family *modeltest.Family) {
		if family.Name != "qwen35" {
			t.Skip("one family has the kernels of all")
		}
		f, err := gguf.Open(family.Files[0])
		require.NoError(t, err)
		defer func() { require.NoError(t, f.Close()) }()
		c, err := model.ReadConfig(f)
		require.NoError(t, err)
		s := c.States
		layers, matrix := float64(s.Layers), float64(s.MatrixValues())
		inputs := 4 * float64(s.ConvValues())
		for _, step := range []roofline.Step{{Sequences: 3, Rows: 1, Context: 64, Outputs: true}, {Sequences: 1, Rows: 96, Outputs: true}} {
			list, err := roofline.Record(f, gguf.TypeF16, step)
			require.NoError(t, err)
			if step.Rows == 1 {
				require.Len(t, list, 10*c.Layers+6, "dispatches of the layers, embed, and five after the layers")
			}
			bytes, macs := map[string]float64{}, map[string]float64{}
			for _, d := range list {
				name, _, _ := strings.Cut(d.Kernel, "_128")
				bytes[name] += d.Bytes
				macs[name] += d.Macs
			}
			sequences, rows := float64(step.Sequences), float64(step.Sequences*step.Rows)
			require.Equal(t, 2*inputs*layers*sequences, bytes["convolve"])
			kernel, products := "delta_step", 3*matrix // of a row
			if step.Rows > 1 {
				kernel = "delta_chunks"
				products += 2 * 32 * float64(s.Heads*s.ValueDim) // with half of two matrices of 64 by 64
				require.Equal(t, 2*32*float64(s.Heads*s.KeyDim)*layers*rows, macs["delta_prepare"])
			}
			require.Equal(t, 2*4*matrix*layers*sequences, bytes[kernel])
			require.Equal(t, products*layers*rows, macs[kernel])
		}
	})
}
