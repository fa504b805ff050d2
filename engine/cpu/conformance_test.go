package cpu_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/compute/computetest"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/cpu/kernels"
)

// TestConformance runs the suite with every level that the processor has, and with the fastest level on several numbers of threads.
// With the race detector, which finds nothing in arithmetic, it runs once.
func TestConformance(t *testing.T) {
	sets, threads := kernels.Sets(), []int{3, 1, 2}
	if raced {
		sets, threads = sets[:1], threads[:1]
	}
	for i, set := range sets {
		if i > 0 {
			threads = []int{2}
		}
		for _, n := range threads {
			t.Run(fmt.Sprintf("%s, %d threads", set.Name, n), func(t *testing.T) {
				t.Parallel()
				computetest.Run(t, func(tb testing.TB) compute.Backend {
					tb.Helper()
					be, err := cpu.NewWith(n, set)
					require.NoError(tb, err)
					return be
				})
			})
		}
	}
}
