package metal_test

import (
	"strings"
	"testing"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/compute/computetest"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model/modeltest"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

// emulatedNvidia starts the backend on an emulator that also runs NVIDIA's kernels, for two
// threadgroups at a time, since threadgroups of some of them add to the same sums. Without
// INGOT_LONG, it has Hopper's tiles, so that TestHopperConformance compiles no kernels again.
func emulatedNvidia(tb testing.TB, o metal.Options) *metal.Backend {
	tb.Helper()
	return open(tb, o, emulator.Options{Nvidia: true, Hopper: !long, Workers: 2})
}

// TestNvidiaConformance runs the conformance suite with NVIDIA's kernels: those that a backend
// chooses, and, with INGOT_LONG=1, tiles for small batches. Without INGOT_LONG, it runs a few
// batches with types that differ: scales per block or per half of a block, minimums, and 16 bits.
func TestNvidiaConformance(t *testing.T) {
	t.Parallel()
	start := func(options metal.Options) func(tb testing.TB) compute.Backend {
		return func(tb testing.TB) compute.Backend {
			tb.Helper()
			return emulatedNvidia(tb, options)
		}
	}
	if !long {
		computetest.Run(t, start(metal.Options{}), computetest.Options{
			Brief: true, Weights: []gguf.Type{gguf.TypeF32, gguf.TypeF16, gguf.TypeQ4K, gguf.TypeQ6K}, Pages: []gguf.Type{gguf.TypeF32, gguf.TypeF16},
		})
		return
	}
	for name, options := range map[string]metal.Options{"release": {}, "tiles": {Geometry: tilesFrom(2)}, "other tiles": {Geometry: other(2)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			computetest.Run(t, start(options), computetest.Options{})
		})
	}
}

// TestHopperConformance is TestNvidiaConformance with Hopper's tiles for all batches. Without
// INGOT_LONG, only operations that can use tiles are computed: TestNvidiaConformance runs the same
// kernels for the others. Short tiles differ from the others only in products.
func TestHopperConformance(t *testing.T) {
	t.Parallel()
	for name, geometry := range map[string]metal.Geometry{"tiles": tilesFrom(2), "short tiles": other(2)} {
		start := func(tb testing.TB) compute.Backend {
			tb.Helper()
			return open(tb, metal.Options{Geometry: geometry}, emulator.Options{Nvidia: true, Hopper: true, Workers: 2})
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var suite computetest.Options
			if !long {
				suite = computetest.Options{Brief: true, Weights: []gguf.Type{gguf.TypeQ4K}, Pages: []gguf.Type{gguf.TypeF16}, Only: computetest.Tiles}
				if name == "short tiles" {
					suite.Only = computetest.Products
				}
			}
			computetest.Run(t, start, suite)
		})
	}
}

// TestNvidiaReferences is TestReferences with NVIDIA's kernels. Its models have weights of 16 bits.
func TestNvidiaReferences(t *testing.T) {
	t.Parallel()
	references(t, emulatedNvidia, func(cases []modeltest.Case) []modeltest.Case {
		if cases = emulable(cases); !long {
			return cases[:1]
		}
		return cases
	})
}

// TestNvidiaFamilies is TestFamilies with NVIDIA's kernels.
func TestNvidiaFamilies(t *testing.T) {
	if !long {
		t.Skip("takes minutes: set INGOT_LONG=1")
	}
	t.Parallel()
	nvidiaFamilies(t, emulatedNvidia)
}

// nvidiaFamilies runs families with KV pages of two types. With pages of F32, weights of 16 bits
// give results as near to float32 as those of the portable kernels, so their bound is the same.
// Activations that are multiplied with MXFP4 are rounded to float16. With pages of F16, keys,
// values, queries and the attention's weights are rounded to float16 too. Then a row of qwen3moe,
// whose weights are random, chooses another expert, as it does with the portable kernels: only its
// bits in batches are compared.
func nvidiaFamilies(t *testing.T, start starter) {
	t.Helper()
	for _, kv := range []gguf.Type{gguf.TypeF32, gguf.TypeF16} {
		t.Run("KV in "+kv.String(), func(t *testing.T) {
			families(t, start, kv, func(path string) float64 {
				switch quantised, moe := strings.Contains(path, "mxfp4"), strings.Contains(path, "qwen3moe"); {
				case kv == gguf.TypeF32 && !quantised:
					return 0.001
				case kv == gguf.TypeF32:
					return 0.02
				case moe:
					return 2
				default:
					return 0.04
				}
			})
		})
	}
}
