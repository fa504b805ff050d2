package launch

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/bench/kernels"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/metal"
)

// mac is a device of which the tuner sees only the properties, since its time is over at once.
type mac struct {
	metal.Device
	info metal.Info
}

func (m mac) Info() metal.Info { return m.info }

var m4 = mac{info: metal.Info{Driver: "metal", Name: "Apple M4 Max", Family: "Apple9"}}

type tuned struct {
	*Tuner
	log    bytes.Buffer
	starts int // number of tunings
}

func newTuned(t *testing.T, limit time.Duration) *tuned {
	t.Helper()
	u := &tuned{}
	u.Tuner = &Tuner{
		Context: t.Context(), Limit: limit, Version: "v1", Log: slog.New(slog.NewTextHandler(&u.log, nil)),
		Progress: func(done, _ int) {
			if done == 0 {
				u.starts++
			}
		},
	}
	return u
}

func (u *tuned) warnings() int { return strings.Count(u.log.String(), "level=WARN") }

// TestFirstStart checks that a GPU is tuned once, that the choices are stored and used, and that a
// file that cannot be used is reported once and replaced.
func TestFirstStart(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	path := TuningFile(m4.info)
	require.Equal(t, "metal-apple-m4-max.json", filepath.Base(path))
	first := newTuned(t, time.Nanosecond)
	require.Empty(t, first.geometry(m4, metal.Release))
	require.Equal(t, 1, first.starts)
	require.Zero(t, first.warnings(), first.log.String())
	stored, err := kernels.ReadTuning(path, tuningKey(m4.info))
	require.NoError(t, err)
	require.Equal(t, &kernels.TuningResult{TuningKey: tuningKey(m4.info), Version: "v1", Seconds: stored.Seconds, GBPerS: 546, GFLOPS: 16384}, stored)

	c := metal.Choice{Device: "Apple9", Kernel: metal.Product, Inputs: 1, Rows: 4, Simdgroups: 8, Microseconds: 3}
	stored.Measured = []kernels.Tuned{{Choice: c, AtRows: 1, Changed: true}, {Choice: metal.Choice{Kernel: metal.Absorb, Inputs: 1}}}
	require.NoError(t, stored.Write(path))
	for _, limit := range []time.Duration{time.Nanosecond, 0} {
		second := newTuned(t, limit)
		require.Equal(t, metal.Geometry{c}, second.geometry(m4, metal.Release))
		require.Zero(t, second.starts)
		require.Empty(t, second.log.String())
	}
	for _, damaged := range []string{"", "{", `{"driver":"metal","device":"Apple M1"}`} {
		require.NoError(t, os.WriteFile(path, []byte(damaged), 0o600))
		off := newTuned(t, 0)
		require.Empty(t, off.geometry(m4, metal.Release))
		require.Equal(t, [2]int{0, 1}, [2]int{off.starts, off.warnings()})
		again := newTuned(t, time.Nanosecond)
		require.Empty(t, again.geometry(m4, metal.Release))
		require.Equal(t, [2]int{1, 1}, [2]int{again.starts, again.warnings()}, again.log.String())
		require.Contains(t, again.log.String(), "the stored tuning of the GPU is ignored")
		require.NotNil(t, again.Stored(m4.info))
		require.Equal(t, 1, again.warnings())
	}
}

// TestUnwritableTuning checks that a folder that cannot be written is a warning, and that the GPU
// is then tuned once per command.
func TestUnwritableTuning(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	t.Setenv("XDG_CONFIG_HOME", file)
	u := newTuned(t, time.Nanosecond)
	l := &Launch{Config: &config.Config{}, Tuner: u.Tuner}
	for range 3 {
		require.Empty(t, l.tune(m4))
	}
	require.Equal(t, 1, u.starts)
	require.Contains(t, u.log.String(), "the tuning of the GPU is not stored, and is repeated at the next start")
}

// TestTunes checks which devices are tuned without being asked.
func TestTunes(t *testing.T) {
	t.Parallel()
	require.True(t, Tunes(m4.info))
	require.True(t, Tunes(metal.Info{Driver: "cuda"}))
	require.False(t, Tunes(metal.Info{Driver: "cuda", NvidiaKernels: true}))
	require.False(t, Tunes(metal.Info{Driver: "emulator"}))
}
