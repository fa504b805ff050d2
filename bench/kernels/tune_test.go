package kernels

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/bench/roofline"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/emulator"
)

// TestTuning tunes products, experts and attention on the emulator. The choices apply to every type
// and shape, and a backend can use them.
func TestTuning(t *testing.T) {
	open := func() (*metal.Backend, error) {
		dev, err := emulator.Open(emulator.Options{})
		if err != nil {
			return nil, err
		}
		return metal.New(dev, metal.Options{Geometry: TuningCandidates()})
	}
	var calls [][2]int
	tuning := Tuning{Open: open, Brief: true, Limits: roofline.Limits{Bandwidth: 1e9}, Each: func(done, total int) { calls = append(calls, [2]int{done, total}) }}
	all := tunedOperations(32)
	tuning.operations = []tunedOperation{all[0], all[3], all[4]}
	list, complete, err := tuning.Run(t.Context())
	if errors.Is(err, emulator.ErrNoCompiler) {
		t.Skipf("the tuning is not tested: %v", err)
	}
	require.NoError(t, err)
	require.True(t, complete)
	require.Len(t, list, 10)
	require.Len(t, calls, 11)
	for i := range calls {
		require.Equal(t, [2]int{i, 10}, calls[i])
	}
	at := map[int]bool{}
	for i := range list {
		m := &list[i]
		at[m.AtRows] = true
		require.Equal(t, "emulator", m.Device)
		require.Equal(t, metal.Choice{}, metal.Choice{Type: m.Type, In: m.In, Out: m.Out})
		require.LessOrEqual(t, m.Microseconds, m.Default)
		require.Positive(t, m.Microseconds)
		require.Positive(t, m.Rows)
		require.Contains(t, []int{0, m.AtRows, m.AtRows + 1}, m.From)
		if m.Kernel == metal.ProductTile && m.From > 0 {
			require.Equal(t, 128, m.Tiles, "the default is not changed by what was measured before")
		}
	}
	require.Equal(t, map[int]bool{1: true, 4: true, 16: true, 64: true}, at)
	r := TuningResult{Measured: list}
	be, err := open()
	require.NoError(t, err)
	require.NoError(t, be.Use(r.Geometry()))
	for _, c := range r.Geometry() {
		inputs := c.Inputs
		if metal.Inputs(c.Kernel)[0] == 0 {
			inputs = 0
		}
		got := be.Choice(c.Kernel, gguf.TypeQ80, 512, 512, inputs)
		require.Equal(t, [3]int{c.Rows, c.Simdgroups, c.Inputs}, [3]int{got.Rows, got.Simdgroups, got.Inputs}, "%+v", c)
	}
	require.NoError(t, be.Close())
}

// TestTuningEnds checks that a deadline ends a tuning without an error, and that the end of the
// command is one.
func TestTuningEnds(t *testing.T) {
	t.Parallel()
	tuning := Tuning{Open: func() (*metal.Backend, error) { panic("the time is over") }}
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	list, complete, err := tuning.Run(late)
	require.NoError(t, err)
	require.False(t, complete)
	require.Empty(t, list)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = tuning.Run(ended)
	require.ErrorIs(t, err, context.Canceled)
}

// TestRate compares speeds with a calculation by hand.
func TestRate(t *testing.T) {
	t.Parallel()
	limits := roofline.Limits{Bandwidth: 100e9, FLOPS: 1e12}
	for _, o := range tunedOperations(1) {
		bytes, macs := map[string]float64{
			metal.Product:      2048 * 4096 * 4.5 / 8,
			metal.GatedProduct: 2 * 2048 * 6144 * 4.5 / 8,
			metal.GatedExperts: 2 * 4 * 2048 * 768 * 4.5 / 8,
			metal.ExpertsAdd:   4 * 2048 * 768 * 4.5 / 8,
			metal.Attention:    2048 * 8 * 2 * 128 * 2,
		}[o.Kernel], map[string]float64{
			metal.Product:      2048 * 4096,
			metal.GatedProduct: 2 * 2048 * 6144,
			metal.GatedExperts: 2 * 4 * 2048 * 768,
			metal.ExpertsAdd:   4 * 2048 * 768,
			metal.Attention:    2048 * 32 * 2 * 128,
		}[o.Kernel]
		m := Tuned{AtRows: 1}
		m.Microseconds = 1000
		m.rate(&o, limits, 2048)
		require.InDelta(t, bytes/1e6, m.GBPerS, 0.01, o.Kernel)
		require.InDelta(t, 2*macs/1e6, m.GFLOPS, 0.01, o.Kernel)
		require.InDelta(t, max(bytes/100e9, 2*macs/1e12)/1e-3, m.Share, 0.01, o.Kernel)
		m.rate(&o, roofline.Limits{}, 2048)
		require.Zero(t, m.Share)
	}
	o := tunedOperations(1)[2]
	m := Tuned{AtRows: 64}
	m.Microseconds = 1000
	m.rate(&o, limits, 2048)
	require.InDelta(t, 64*(1-0.016)*2*2048*768*4.5/8/1e6, m.GBPerS, 2, "64 rows of 4 experts use nearly all 64 experts")
}

// TestTuningFile checks that a result can be read back, and what is refused.
func TestTuningFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tuning", "m4.json")
	key := TuningKey{"metal", "Apple M4", "Darwin 25.1.0", "abc"}
	_, err := ReadTuning(path, key)
	require.ErrorIs(t, err, fs.ErrNotExist)
	r := &TuningResult{TuningKey: key, Version: "v1", Seconds: 3, Complete: true, GBPerS: 120, GFLOPS: 3800, Measured: []Tuned{
		{Choice: metal.Choice{Device: "Apple9", Kernel: metal.Product, Inputs: 1, Rows: 4, Simdgroups: 2, Microseconds: 50}, AtRows: 1, Default: 60, Changed: true, GBPerS: 94, Share: 0.79},
		{Choice: metal.Choice{Device: "Apple9", Kernel: metal.Attention, Rows: 4}, AtRows: 4},
	}}
	require.NoError(t, r.Write(path))
	back, err := ReadTuning(path, key)
	require.NoError(t, err)
	require.Equal(t, r, back)
	require.Equal(t, metal.Geometry{r.Measured[0].Choice}, back.Geometry())

	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for damaged, want := range map[string]string{
		"":                             "EOF",
		string(text[:len(text)/2]):     "unexpected EOF",
		"\x00\x01" + string(text):      "invalid character",
		string(text) + "{}":            "more data after the result",
		`{"driver":"metal","lanes":3}`: "lanes",
		strings.ReplaceAll(string(text), "Apple M4", "Apple M1"):        "it is of Apple M1 on Darwin 25.1.0 with kernels abc, not of Apple M4 on",
		strings.ReplaceAll(string(text), "25.1.0", "24.0.0"):            "it is of Apple M4 on Darwin 24.0.0",
		strings.ReplaceAll(string(text), `"abc"`, `"abd"`):              "with kernels abd, not",
		strings.ReplaceAll(string(text), `"rows": 4`, `"rows": 3`):      "rows is 3",
		strings.ReplaceAll(string(text), `"product"`, `"matrix"`):       `kernel "matrix" has no geometry`,
		strings.ReplaceAll(string(text), `"rows": 4`, `"rows": "four"`): "cannot unmarshal string",
	} {
		require.NoError(t, os.WriteFile(path, []byte(damaged), 0o600))
		_, err := ReadTuning(path, key)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, path)
	}
	require.ErrorContains(t, r.Write(filepath.Join(path, "below", "file.json")), "store the tuning of the GPU: ")
	var report bytes.Buffer
	require.NoError(t, r.WriteReport(&report))
	for _, want := range []string{"Apple M4 (metal), Darwin 25.1.0, ingot v1, kernels abc", "Limits of the device: 120 GB/s, 3.8 TFLOPS.", "1 choices differ", "79 %"} {
		require.Contains(t, report.String(), want)
	}
	r.Complete = false
	require.NoError(t, r.WriteReport(&report))
	require.Contains(t, report.String(), "ended the tuning early")
}
