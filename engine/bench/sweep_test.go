package bench

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
)

func TestWriteSweep(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	require.NoError(t, WriteSweep(&text, []Crossing{
		{"product", "q4_0", 2, 10, 30}, {"product", "q4_0", 4, 20, 10}, {"product", "q4_0", 8, 20, 21}, {"product", "q4_0", 16, 40, 22}, {"product", "q4_0", 32, 80, 30},
		{"product", "q8_0", 2, 10, 30}, {"product", "q8_0", 4, 20, 30},
		{"experts", "q4_0", 2, 30, 10}, {"experts", "q4_0", 4, 30, 20},
	}))
	for _, line := range []string{
		"product of q4_0: the kernels for many rows are quicker from 16 rows on\n",
		"product of q8_0: the kernels for many rows are quicker nowhere\n",
		"experts of q4_0: the kernels for many rows are quicker from 2 rows on\n",
	} {
		require.Contains(t, text.String(), line)
	}
}

// TestSweep measures on both backends, in order.
func TestSweep(t *testing.T) {
	if os.Getenv("INGOT_LONG") == "" {
		t.Skip("the sweep's own timing is measured where INGOT_LONG is set: it goes through much memory")
	}
	var few, many int
	open := func(n *int) func() (compute.Backend, error) {
		return func() (compute.Backend, error) { *n++; return cpu.New(0) }
	}
	var list []Crossing
	require.NoError(t, Sweep(t.Context(), []int{2}, open(&few), open(&many), func(c Crossing) { list = append(list, c) }))
	require.Len(t, list, 6)
	require.Equal(t, []int{6, 6}, []int{few, many})
	for _, c := range list {
		require.Positive(t, c.FewMicroseconds)
		require.Positive(t, c.ManyMicroseconds)
		require.Equal(t, 2, c.Rows)
	}
}
