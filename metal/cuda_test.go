package metal_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/compute/computetest"
	"github.com/ingot-run/ingot/generation"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/cuda"
)

// nvidia is the first NVIDIA GPU, which all tests share: its kernels are compiled once.
var nvidia = sync.OnceValues(func() (*metal.CachedDevice, error) {
	dev, err := cuda.Open(0)
	if err != nil {
		return nil, err
	}
	return metal.NewCachedDevice(dev), nil
})

// onCUDA starts the backend on an NVIDIA GPU. A test has one backend at a time.
func onCUDA(tb testing.TB, o metal.Options) *metal.Backend {
	tb.Helper()
	dev, err := nvidia()
	if err != nil {
		tb.Skipf("the kernels are not tested on an NVIDIA GPU: %v", err)
	}
	be, err := metal.New(dev, o)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, be.Close())
		require.Zero(tb, dev.Memory())
	})
	return be
}

func TestConformanceOnCUDA(t *testing.T) {
	few := tilesFrom(2)
	for _, c := range []struct {
		name    string
		options metal.Options
	}{
		{"release", metal.Options{}},
		{"tiles", metal.Options{Geometry: few}},
		{"plain tiles", metal.Options{Geometry: few, PlainTiles: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			computetest.Run(t, func(tb testing.TB) compute.Backend {
				tb.Helper()
				be := onCUDA(tb, c.options)
				require.Equal(tb, c.options.PlainTiles, be.PlainTiles())
				return be
			})
		})
	}
	t.Run("fast kernels", func(t *testing.T) {
		computetest.RunFast(t, func(tb testing.TB) compute.Backend {
			tb.Helper()
			return onCUDA(tb, metal.Options{Mode: metal.FastMath, Geometry: few})
		})
	})
}

func TestReferencesOnCUDA(t *testing.T) { references(t, onCUDA) }

func TestSameTokensOnCUDA(t *testing.T) { sameTokens(t, onCUDA) }

func TestLongGenerationOnCUDA(t *testing.T) { longGeneration(t, onCUDA) }

// TestWholeContextOnCUDA generates up to the context that the bundled models are trained for, all of finite logits.
func TestWholeContextOnCUDA(t *testing.T) {
	prompt := []int32{5, 300, 17, 900, 41, 7, 1200, 33}
	for _, path := range bundled {
		t.Run(filepath.Base(path), func(t *testing.T) {
			eng, err := engine.Open(path, onCUDA(t, metal.Options{}), engine.Options{Context: 4096, Draft: engine.DraftOff})
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
