package roofline_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/bench/roofline"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

// TestProfile profiles a small model on the emulator with dedicated memory, as NVIDIA's GPUs have.
// The profile must have the same kernels and sizes as Record. With the figures of the device added,
// it must be a valid file of measurements.
func TestProfile(t *testing.T) {
	dev, err := emulator.Open(emulator.Options{Discrete: true})
	if errors.Is(err, emulator.ErrNoCompiler) {
		t.Skipf("the profile is not tested, because the emulator cannot run: %v", err)
	}
	require.NoError(t, err)
	cached := metal.NewCachedDevice(dev)
	defer func() { require.NoError(t, cached.CloseDevice()) }()
	f, err := gguf.Open("../../engine/model/testdata/micro-glm.gguf")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	steps := []roofline.Step{{Sequences: 1, Rows: 1, Context: 20, Outputs: true}, {Sequences: 1, Rows: 40, Outputs: true}}
	p, err := roofline.Profile(t.Context(), func() (metal.Device, error) { return cached, nil }, f, gguf.TypeF16, "test", steps)
	require.NoError(t, err)

	type size struct {
		kernel, kind string
		rows         int
	}
	want, have := map[size]bool{}, map[size]bool{}
	for _, s := range steps {
		list, err := roofline.Record(f, gguf.TypeF16, s)
		require.NoError(t, err)
		for _, d := range list {
			want[size{d.Kernel, d.Type, s.Rows}] = true
		}
	}
	longest := 0.0
	for _, k := range p.Kernels {
		have[size{k.Kernel, k.Type, k.Rows}] = true
		longest = max(longest, k.Microseconds)
	}
	require.Equal(t, want, have)
	require.Positive(t, longest)

	var table, text bytes.Buffer
	require.NoError(t, roofline.WriteProfile(&table, &p))
	require.Contains(t, table.String(), "attention_tile_c")
	p.GBPerS, p.TFLOPS, p.Cores = 10, 1, 2
	require.NoError(t, p.Write(&text))
	m, err := roofline.ReadMeasurements(&text)
	require.NoError(t, err)
	require.Len(t, m.Kernels, len(p.Kernels))
}
