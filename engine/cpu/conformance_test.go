package cpu_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/compute/computetest"
	"github.com/ingot-run/ingot/engine/cpu"
)

// TestConformance runs the suite on one thread and on more than there may be processors. Under the race detector only the
// most threads are run.
func TestConformance(t *testing.T) {
	threads := []int{1, 2, 3}
	if raced {
		threads = threads[2:]
	}
	for _, n := range threads {
		t.Run(fmt.Sprintf("%d threads", n), func(t *testing.T) {
			t.Parallel()
			computetest.Run(t, func(tb testing.TB) compute.Backend {
				tb.Helper()
				be, err := cpu.New(n)
				require.NoError(tb, err)
				return be
			})
		})
	}
}
