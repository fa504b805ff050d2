package cpu_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
)

// TestRowsOfOtherShards copies the rows of a buffer in reverse order and then writes the source
// buffer, as the MTP layer does with the hidden states of its last pass. No shard may read a row
// that another shard has already overwritten.
func TestRowsOfOtherShards(t *testing.T) {
	t.Parallel()
	const rows, cols = 32, 2048
	be, err := cpu.New(4)
	require.NoError(t, err)
	defer func() { require.NoError(t, be.Close()) }()
	a, err := be.Buffer(rows, cols)
	require.NoError(t, err)
	b, err := be.Buffer(rows, cols)
	require.NoError(t, err)
	batch := &compute.Batch{Tokens: make([]int32, rows), Positions: make([]int32, rows)}
	var same, reversed []int32
	for r := range int32(rows) {
		same, reversed = append(same, r), append(reversed, rows-1-r)
		batch.Seqs = append(batch.Seqs, compute.Seq{Rows: 1, Pages: []int32{r}})
		for i := range be.Floats(a)[r] {
			be.Floats(a)[r][i] = float32(r)
		}
	}
	for n := 1; n <= 100; n++ {
		s := be.Begin(batch)
		s.Gather(b, a, reversed)
		s.Gather(a, b, same)
		require.NoError(t, s.Run())
		for r, values := range be.Floats(a) {
			want := float32(r)
			if n%2 == 1 {
				want = float32(rows - 1 - r)
			}
			require.Equal(t, slices.Repeat([]float32{want}, cols), values, "row %d after %d steps", r, n)
		}
	}
}
