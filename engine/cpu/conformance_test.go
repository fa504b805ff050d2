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

// TestConformance runs the suite with the fastest level of the processor on three threads.
func TestConformance(t *testing.T) {
	t.Parallel()
	conformance(t, 3, kernels.Sets()[0])
}

// TestConformanceOfOtherLevels runs the suite with every other level, and with the fastest one on
// other numbers of threads. `make test` runs it without the race detector, which finds nothing in
// arithmetic.
func TestConformanceOfOtherLevels(t *testing.T) {
	t.Parallel()
	threads := []int{1, 2}
	for _, set := range kernels.Sets() {
		for _, n := range threads {
			t.Run(fmt.Sprintf("%s, %d threads", set.Name, n), func(t *testing.T) {
				t.Parallel()
				conformance(t, n, set)
			})
		}
		threads = []int{2}
	}
}

func conformance(t *testing.T, threads int, set *kernels.Set) {
	t.Helper()
	computetest.Run(t, func(tb testing.TB) compute.Backend {
		tb.Helper()
		be, err := cpu.NewWith(threads, set)
		require.NoError(tb, err)
		return be
	}, computetest.Options{})
}
