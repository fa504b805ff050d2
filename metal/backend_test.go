package metal_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/compute/computetest"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/host"
)

// open starts the backend on the host driver.
func open(tb testing.TB, mode metal.Mode, o host.Options) *metal.Backend {
	tb.Helper()
	dev, err := host.Open(o)
	if errors.Is(err, host.ErrNoCompiler) {
		tb.Skipf("the kernels are not tested: %v", err)
	}
	require.NoError(tb, err)
	be, err := metal.New(dev, metal.Options{Mode: mode})
	require.NoError(tb, err)
	return be
}

// TestConformance runs the suite as released, and with checked memory and fibres in a random order.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name string
		mode metal.Mode
		seed uint32
	}{{"release", metal.Release, 0}, {"debug, shuffled", metal.Debug, 1}} {
		t.Run(c.name, func(t *testing.T) {
			computetest.Run(t, func(tb testing.TB) compute.Backend {
				tb.Helper()
				return open(tb, c.mode, host.Options{Seed: c.seed})
			})
		})
	}
}
