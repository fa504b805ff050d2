package metal_test

import (
	"testing"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/compute/computetest"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

// emulatedNvidia starts the backend on an emulator that also runs NVIDIA's kernels.
func emulatedNvidia(tb testing.TB, o metal.Options) *metal.Backend {
	tb.Helper()
	return open(tb, o, emulator.Options{Nvidia: true})
}

// TestNvidiaConformance runs the conformance suite with NVIDIA's kernels: those that a backend
// chooses, and tiles for small batches.
func TestNvidiaConformance(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]metal.Options{"release": {}, "tiles": {Geometry: tilesFrom(2)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			computetest.Run(t, func(tb testing.TB) compute.Backend {
				tb.Helper()
				return emulatedNvidia(tb, options)
			})
		})
	}
}

// nvidiaTolerance is the bound for log-probabilities of small models with random weights, compared with
// float32: NVIDIA's kernels round activations to 12 bits.
const nvidiaTolerance = 0.05

// TestNvidiaFamilies is TestFamilies with NVIDIA's kernels.
func TestNvidiaFamilies(t *testing.T) {
	t.Parallel()
	families(t, emulatedNvidia, nvidiaTolerance)
}
