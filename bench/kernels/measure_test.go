package kernels

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
)

// TestMeasure measures one operation of each family. It measures families that use much memory only
// with INGOT_LONG=1.
func TestMeasure(t *testing.T) {
	t.Parallel()
	quick := []string{"mla", "rmsnorm", "rope and store", "convolution", "delta rule", "scan", "gated norm"}
	seen := map[string]bool{}
	for _, f := range families() {
		if seen[f.Family] || !slices.Contains(quick, f.Family) && os.Getenv("INGOT_LONG") == "" {
			continue
		}
		seen[f.Family] = true
		m, err := f.measure(func() (compute.Backend, error) { return cpu.New(1) })
		require.NoError(t, err, f.Family)
		require.Positive(t, m.Microseconds, f.Family)
		require.Positive(t, m.GBPerS, f.Family)
	}
	require.GreaterOrEqual(t, len(seen), len(quick))
}

func TestWriteTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	require.NoError(t, WriteTable(&b, []Measurement{{Family: "product", Type: "q4_0", Rows: 8, Microseconds: 12.34}}))
	require.Contains(t, b.String(), "12.3")
}
