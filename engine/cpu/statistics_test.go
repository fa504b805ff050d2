package cpu_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/compute/computetest"
	"github.com/ingot-run/ingot/engine/cpu"
)

// TestDrawStatistics compares drawn tokens with their probabilities. With INGOT_LONG=1, it draws
// 100,000 tokens with each set of options.
func TestDrawStatistics(t *testing.T) {
	t.Parallel()
	draws, manyDraws := 10_000, 250
	if os.Getenv("INGOT_LONG") != "" {
		draws, manyDraws = 100_000, 100_000
	}
	computetest.DrawStatistics(t, func(tb testing.TB) compute.Backend {
		tb.Helper()
		be, err := cpu.New(2)
		require.NoError(tb, err)
		return be
	}, draws, manyDraws)
}
