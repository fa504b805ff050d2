package metal_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/compute/computetest"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model/modeltest"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/drivers"
)

// gpus has, for each driver that is not for tests, a function that opens the driver's first GPU.
// All tests share that device, so that its kernels are compiled once.
var gpus = func() map[string]func() (*metal.CachedDevice, error) {
	open := map[string]func() (*metal.CachedDevice, error){}
	for _, name := range drivers.Names(true) {
		open[name] = sync.OnceValues(func() (*metal.CachedDevice, error) {
			dev, err := drivers.Open(name, 0)
			if err != nil {
				return nil, err
			}
			return metal.NewCachedDevice(dev), nil
		})
	}
	return open
}()

// eachGPU runs a test on the first GPU of each driver. It skips drivers without a GPU. The test
// must not use two backends at once.
func eachGPU(t *testing.T, test func(t *testing.T, start starter)) {
	t.Helper()
	for _, name := range drivers.Names(true) {
		t.Run(name, func(t *testing.T) {
			dev, err := gpus[name]()
			if err != nil {
				t.Skipf("needs a GPU: %v", err)
			}
			test(t, func(tb testing.TB, o metal.Options) *metal.Backend {
				tb.Helper()
				be, err := metal.New(dev, o)
				require.NoError(tb, err)
				tb.Cleanup(func() {
					require.NoError(tb, be.Close())
					require.Zero(tb, dev.Memory())
				})
				return be
			})
		})
	}
}

func TestConformanceOnGPU(t *testing.T) { eachGPU(t, conformance) }

// TestDrawStatisticsOnGPU compares drawn tokens with their probabilities.
func TestDrawStatisticsOnGPU(t *testing.T) {
	eachGPU(t, func(t *testing.T, start starter) {
		t.Helper()
		computetest.DrawStatistics(t, func(tb testing.TB) compute.Backend {
			tb.Helper()
			return start(tb, metal.Options{})
		}, 100_000, 100_000)
	})
}

func TestReferencesOnGPU(t *testing.T) {
	eachGPU(t, func(t *testing.T, start starter) { references(t, start, allCases) })
}

// TestRecurrentFamiliesOnGPU answers with a model of recurrent layers in several settings.
func TestRecurrentFamiliesOnGPU(t *testing.T) {
	eachGPU(t, func(t *testing.T, start starter) {
		t.Helper()
		recurrentFamilies(t, start)
	})
}

// TestFamiliesOnGPU runs families on GPUs, with the bounds of NVIDIA's kernels.
func TestFamiliesOnGPU(t *testing.T) { eachGPU(t, nvidiaFamilies) }

func TestSameTokensOnGPU(t *testing.T) {
	eachGPU(t, func(t *testing.T, start starter) { sameTokens(t, start, true) })
}

func TestLongGenerationOnGPU(t *testing.T) {
	eachGPU(t, func(t *testing.T, start starter) { longGeneration(t, start, 512) })
}

func TestWholeContextOnGPU(t *testing.T) { eachGPU(t, wholeContext) }

// TestMatricesOnGPU checks that the backend finds the same sums in tiles and row by row on a driver
// that reports OrderedMatrices, for which the backend does not compare them.
func TestMatricesOnGPU(t *testing.T) {
	for _, name := range drivers.Names(true) {
		t.Run(name, func(t *testing.T) {
			dev, err := gpus[name]()
			if err != nil {
				t.Skipf("needs a GPU: %v", err)
			}
			if !dev.Info().OrderedMatrices {
				t.Skip("the driver does not report OrderedMatrices")
			}
			be, err := metal.New(unordered{dev}, metal.Options{})
			require.NoError(t, err)
			require.False(t, be.PlainTiles())
			require.NoError(t, be.Close())
		})
	}
}

// limits is a device that records how many threads of a threadgroup it allows each kernel.
type limits struct {
	metal.Device
	threads map[string]int // by the kernel's name and constants
}

func (l *limits) Pipeline(lib metal.Library, function string, constants []metal.Constant) (metal.Pipeline, error) {
	p, err := l.Device.Pipeline(lib, function, constants)
	if err == nil {
		l.threads[fmt.Sprint(function, " ", constants)] = l.PipelineInfo(p).MaxThreads
	}
	return p, err
}

// TestPipelinesOnGPU prints how many threads a GPU allows each kernel of the bundled models. If
// there are fewer than MaxThreadgroup, the kernel uses many registers. Every kernel must allow a
// simdgroup.
func TestPipelinesOnGPU(t *testing.T) {
	for _, name := range drivers.Names(true) {
		t.Run(name, func(t *testing.T) {
			dev, err := gpus[name]()
			if err != nil {
				t.Skipf("needs a GPU: %v", err)
			}
			l := &limits{Device: dev, threads: map[string]int{}}
			be, err := metal.New(l, metal.Options{})
			require.NoError(t, err)
			defer func() { require.NoError(t, be.Close()) }()
			for _, path := range bundled {
				modeltest.Load(t, be, path)
			}
			for _, kernel := range slices.Sorted(maps.Keys(l.threads)) {
				t.Logf("%5d threads: %s", l.threads[kernel], kernel)
				require.GreaterOrEqual(t, l.threads[kernel], 32, kernel)
			}
		})
	}
}

// conformance runs the conformance suite with several kernels for products, and with fast kernels.
func conformance(t *testing.T, start starter) {
	t.Helper()
	few := tilesFrom(2)
	for _, c := range []struct {
		name    string
		options metal.Options
	}{
		{"release", metal.Options{}},
		{"tiles", metal.Options{Geometry: few}},
		{"other tiles", metal.Options{Geometry: other(2)}},
		{"plain tiles", metal.Options{Geometry: few, PlainTiles: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			computetest.Run(t, func(tb testing.TB) compute.Backend {
				tb.Helper()
				be := start(tb, c.options)
				require.Equal(tb, c.options.PlainTiles, be.PlainTiles())
				prepareAll(tb, be)
				return be
			}, computetest.Options{})
		})
	}
	t.Run("fast kernels", func(t *testing.T) {
		computetest.Run(t, func(tb testing.TB) compute.Backend {
			tb.Helper()
			be := start(tb, metal.Options{Mode: metal.FastMath, Geometry: few})
			prepareAll(tb, be)
			return be
		}, computetest.Options{Fast: true, Brief: true})
	})
}

// prepareAll starts to compile the kernels of all types of weights and of KV pages, so that they
// are compiled at the same time and not when a check needs them.
func prepareAll(tb testing.TB, be *metal.Backend) {
	tb.Helper()
	plan := be.Plan()
	for _, t := range gguf.Types() {
		require.NoError(tb, plan.Weight(gguf.Tensor{Name: "weight", Type: t, Shape: []int{256, 1}}))
	}
	for _, t := range gguf.CacheTypes() {
		plan.Cache(compute.CacheShape{Layers: 1, Pages: 1, PageSize: 1, KeyCols: 32, ValueCols: 32, Type: t})
	}
	require.NoError(tb, be.Prepare(plan))
}

// wholeContext generates tokens until the context for which the bundled models were trained is
// full. All logits must be finite.
func wholeContext(t *testing.T, start starter) {
	t.Helper()
	prompt := []int32{5, 300, 17, 900, 41, 7, 1200, 33}
	for _, path := range bundled {
		t.Run(filepath.Base(path), func(t *testing.T) {
			eng, err := engine.Open(path, start(t, metal.Options{}), engine.Options{Context: 4096, Draft: engine.DraftOff})
			require.NoError(t, err)
			defer func() { require.NoError(t, eng.Close()) }()
			answer := func(tokens int) []int32 {
				c, err := eng.Generate(t.Context(), generation.Request{Tokens: prompt, MaxTokens: tokens, IgnoreEOS: true})
				require.NoError(t, err)
				require.Len(t, c.Choices[0].Tokens, tokens)
				return c.Choices[0].Tokens
			}
			require.Equal(t, answer(128), answer(4096 - len(prompt))[:128])
		})
	}
}
