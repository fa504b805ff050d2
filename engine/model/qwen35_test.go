package model_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// TestJoinedInputs rewrites a file of qwen3next to the older layout, which has the weights of
// queries, keys, values and the gate in one tensor, key head by key head. The logits must have the
// same bits.
func TestJoinedInputs(t *testing.T) {
	logits := func(m model.Model) (all [][]float32) {
		rows, err := m.Forward(modeltest.Batch([]int32{3, 1, 4, 1, 5, 9, 2, 6}, 0))
		require.NoError(t, err)
		for _, row := range rows {
			all = append(all, slices.Clone(row))
		}
		return all
	}
	b := bases["qwen3next"]()
	m, err := load(t, b.write(t))
	require.NoError(t, err)
	want := logits(m)

	inputs, gate := b.tensor("blk.0.attn_qkv.weight").Values(), b.tensor("blk.0.attn_gate.weight").Values()
	const keys, each = deltaKeyHeads * deltaDim, deltaHeads / deltaKeyHeads * deltaDim
	var joined []float32
	rows := func(of []float32, from, n int) { joined = append(joined, of[from*hidden:(from+n)*hidden]...) }
	for head := range deltaKeyHeads {
		rows(inputs, head*deltaDim, deltaDim)
		rows(inputs, keys+head*deltaDim, deltaDim)
		rows(inputs, 2*keys+head*each, each)
		rows(gate, head*each, each)
	}
	b.remove("blk.0.attn_qkv.weight")
	b.remove("blk.0.attn_gate.weight")
	b.floats("blk.0.ssm_in.weight", joined, hidden, len(joined)/hidden)
	m, err = load(t, b.write(t))
	require.NoError(t, err)
	require.Equal(t, want, logits(m))
}
