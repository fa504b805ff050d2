package metal_test

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/compute/computetest"
	"github.com/ingot-run/ingot/engine/enginetest"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

// TestMain lets engines measure steps on GPUs, but not on the emulator, which is slow.
func TestMain(m *testing.M) {
	emulatorOnly := true
	for _, open := range gpus {
		if _, err := open(); err == nil {
			emulatorOnly = false
		}
	}
	if emulatorOnly {
		enginetest.GiveCosts()
	}
	os.Exit(m.Run())
}

// long reports whether tests may take minutes. If not, they compute less, since the emulator is
// slow.
var long = os.Getenv("INGOT_LONG") != ""

// open starts the backend on an emulator with one worker, unless h has a number. Tests run in
// parallel, so more workers compute no more, and take a fourteenth more of the processors' time.
func open(tb testing.TB, o metal.Options, h emulator.Options) *metal.Backend {
	tb.Helper()
	h.Workers = max(h.Workers, 1)
	dev, err := emulator.Open(h)
	if errors.Is(err, emulator.ErrNoCompiler) {
		tb.Skipf("the kernels are not tested: %v", err)
	}
	require.NoError(tb, err)
	be, err := metal.New(dev, o)
	require.NoError(tb, err)
	return be
}

// starter starts the backend on a device.
type starter func(tb testing.TB, o metal.Options) *metal.Backend

// emulated starts the backend on the emulator.
func emulated(tb testing.TB, o metal.Options) *metal.Backend {
	tb.Helper()
	return open(tb, o, emulator.Options{})
}

// tilesFrom returns a geometry that uses tiles from the given number of rows on.
func tilesFrom(rows int) (g metal.Geometry) {
	for _, kernel := range []string{metal.ProductTile, metal.GatedTile, metal.ExpertGatedTile, metal.ExpertDownTile, metal.AttentionTile} {
		g = append(g, metal.Choice{Kernel: kernel, From: rows})
	}
	return g
}

// other is tilesFrom for other sizes of tiles than those of the default.
func other(rows int) (g metal.Geometry) {
	for _, c := range tilesFrom(rows) {
		switch c.Kernel {
		case metal.ProductTile, metal.GatedTile:
			c.Rows, c.Inputs = 32, 16
		case metal.ExpertGatedTile, metal.ExpertDownTile:
			c.Rows = 32
		case metal.AttentionTile:
			c.Rows = 16
		}
		g = append(g, c)
	}
	return g
}

// TestConformance runs the conformance suite with several settings: the defaults, tiles for small
// batches, checked memory (Debug), and fibres in a random order. A case with tiles fails if the
// backend falls back to plain tiles. Cases that run the same kernels as another case, but with
// dedicated or checked memory, compute fewer batches, and so do plain tiles, which must have the
// bits of the others. Cases that differ from the first one only in tiles compute only operations
// that can use them. With INGOT_LONG=1, all cases compute all operations with all batches, and
// checked memory is also tested without tiles. The first case runs two threadgroups at a time.
func TestConformance(t *testing.T) {
	t.Parallel()
	few := tilesFrom(2)
	for _, c := range []struct {
		name    string
		options metal.Options
		device  emulator.Options
	}{
		{"release", metal.Options{}, emulator.Options{Workers: 2}},
		{"tiles", metal.Options{Geometry: few}, emulator.Options{}},
		{"other tiles, dedicated memory", metal.Options{Geometry: other(2)}, emulator.Options{Discrete: true}},
		{"debug, dedicated memory", metal.Options{Mode: metal.Debug}, emulator.Options{Discrete: true, Seed: 3}},
		{"plain tiles", metal.Options{Geometry: other(2), PlainTiles: true}, emulator.Options{}},
		{"debug, shuffled", metal.Options{Mode: metal.Debug}, emulator.Options{Seed: 1}},
		{"tiles, debug, shuffled", metal.Options{Mode: metal.Debug, Geometry: few}, emulator.Options{Seed: 2}},
	} {
		if !long && c.options.Mode == metal.Debug && c.options.Geometry == nil { // debug kernels are slow; the cases with tiles check more
			continue
		}
		if raced && c.device.Seed > 0 { // a shuffled order of fibres changes no Go code, so the race detector finds nothing more
			continue
		}
		var suite computetest.Options
		if !long {
			suite.Brief = c.options.Mode == metal.Debug || c.device.Discrete || c.options.PlainTiles
			if c.device == (emulator.Options{}) && c.options.Mode == metal.Release && c.options.Geometry != nil {
				suite.Only = computetest.Tiles
			}
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			computetest.Run(t, func(tb testing.TB) compute.Backend {
				tb.Helper()
				be := open(tb, c.options, c.device)
				require.Equal(tb, c.options.PlainTiles, be.PlainTiles())
				return be
			}, suite)
		})
	}
}

// TestDrawStatistics compares tokens that the emulator draws with their probabilities.
func TestDrawStatistics(t *testing.T) {
	if !long {
		t.Skip("takes minutes: set INGOT_LONG=1")
	}
	t.Parallel()
	computetest.DrawStatistics(t, func(tb testing.TB) compute.Backend {
		tb.Helper()
		return emulated(tb, metal.Options{})
	}, 5000, 5000)
}

// TestConformanceOfFastKernels runs the suite with fast arithmetic: once with the kernels for few
// rows, once with the kernels for many rows, where operations differ in them.
func TestConformanceOfFastKernels(t *testing.T) {
	t.Parallel()
	for name, geometry := range map[string]metal.Geometry{"few": nil, "tiles": tilesFrom(2)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite := computetest.Options{Fast: true, Brief: true}
			if !long && geometry != nil {
				suite.Only = computetest.Tiles
			}
			computetest.Run(t, func(tb testing.TB) compute.Backend {
				tb.Helper()
				be := open(tb, metal.Options{Mode: metal.FastMath, Geometry: geometry}, emulator.Options{})
				require.False(tb, be.PlainTiles())
				return be
			}, suite)
		})
	}
}

// TestDevice checks that the name of the device includes every mode except Release.
func TestDevice(t *testing.T) {
	var name string
	for i, suffix := range []string{"", ", debug kernels", ", fast kernels"} {
		be := open(t, metal.Options{Mode: metal.Mode(i)}, emulator.Options{})
		if i == 0 {
			name = be.Device()
		}
		require.Equal(t, name+suffix, be.Device())
		require.NoError(t, be.Close())
	}
}

// unordered is a device that does not report the order in which its simdgroup matrices sum.
type unordered struct{ metal.Device }

func (u unordered) Info() metal.Info {
	info := u.Device.Info()
	info.OrderedMatrices = false
	return info
}

// TestTilesAgree checks that the emulator's simdgroup matrices sum in the same order as the kernels
// for one row, as the emulator reports. Otherwise each backend on it would compare them.
func TestTilesAgree(t *testing.T) {
	for _, mode := range []metal.Mode{metal.Release, metal.Debug, metal.FastMath} {
		dev, err := emulator.Open(emulator.Options{})
		if errors.Is(err, emulator.ErrNoCompiler) {
			t.Skipf("the order of sums is not compared: %v", err)
		}
		require.NoError(t, err)
		require.True(t, dev.Info().OrderedMatrices)
		be, err := metal.New(unordered{dev}, metal.Options{Mode: mode})
		require.NoError(t, err)
		require.False(t, be.PlainTiles())
		require.NoError(t, be.Close())
	}
}
