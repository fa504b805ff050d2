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

// TestConformance runs the suite with the fastest level of the processor on three threads. The race
// detector finds nothing in arithmetic, so with it, the test computes fewer batches.
func TestConformance(t *testing.T) {
	t.Parallel()
	conformance(t, 3, kernels.Sets()[0], computetest.Options{Brief: raced})
}

// TestConformanceOfAllLevels runs the suite with the fastest level on one and on three threads, and
// with every other level on two: how threads share the work does not depend on the level. `make
// test` runs it without the race detector.
func TestConformanceOfAllLevels(t *testing.T) {
	t.Parallel()
	threads := []int{1, 3}
	for _, set := range kernels.Sets() {
		for _, n := range threads {
			t.Run(fmt.Sprintf("%s, %d threads", set.Name, n), func(t *testing.T) {
				t.Parallel()
				conformance(t, n, set, computetest.Options{})
			})
		}
		threads = []int{2}
	}
}

func conformance(t *testing.T, threads int, set *kernels.Set, o computetest.Options) {
	t.Helper()
	computetest.Run(t, func(tb testing.TB) compute.Backend {
		tb.Helper()
		be, err := cpu.NewWith(threads, set)
		require.NoError(tb, err)
		return be
	}, o)
}
