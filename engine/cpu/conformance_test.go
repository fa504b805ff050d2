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
	conformance(t, cpu.Options{Threads: 3}, computetest.Options{Brief: raced})
}

// TestConformanceOfAllLevels runs the suite with the fastest level on one and on three threads, and
// with every other level on two: how threads share the work does not depend on the level. It runs
// the products of every level with activations of 8 bits. `make
// test` runs it without the race detector.
func TestConformanceOfAllLevels(t *testing.T) {
	t.Parallel()
	threads := []int{1, 3}
	for _, set := range kernels.Sets() {
		for _, n := range threads {
			t.Run(fmt.Sprintf("%s, %d threads", set.Name, n), func(t *testing.T) {
				t.Parallel()
				conformance(t, cpu.Options{Threads: n, Kernels: set}, computetest.Options{})
			})
		}
		t.Run(set.Name+", fast", func(t *testing.T) {
			t.Parallel()
			o := computetest.Options{Precision: compute.Fast, Only: append([]string{"Pairs"}, computetest.Products...)}
			conformance(t, cpu.Options{Threads: 2, Kernels: set, Precision: compute.Fast}, o)
		})
		threads = []int{2}
	}
}

func conformance(t *testing.T, backend cpu.Options, o computetest.Options) {
	t.Helper()
	computetest.Run(t, func(tb testing.TB) compute.Backend {
		tb.Helper()
		be, err := cpu.NewWith(backend)
		require.NoError(tb, err)
		return be
	}, o)
}
