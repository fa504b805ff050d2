package launch

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/bench/kernels"
	"github.com/ingot-run/ingot/bench/roofline"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/drivers"
)

// Tuner finds the best geometries of a GPU's kernels at the first start on it, and stores them in a
// file next to the user's config file. They change the speed, never a result.
type Tuner struct {
	Context  context.Context       //nolint:containedctx // of the command: a tuning that it ends is not stored
	Limit    time.Duration         // maximum time for measuring; 0 to use only what is stored
	Version  string                // of the program
	Log      *slog.Logger          // gets warnings
	Progress func(done, total int) // is told how many kernels are measured; may be nil
}

// Tunes reports whether a device is tuned at the first start: GPUs that run the portable kernels.
func Tunes(i metal.Info) bool {
	d, _ := drivers.Find(i.Driver)
	return d.Auto && !i.NvidiaKernels
}

// Stored returns the result that is stored for a device; nil if there is none. A file that cannot
// be used is reported in one warning.
func (t *Tuner) Stored(i metal.Info) *kernels.TuningResult {
	r, err := kernels.ReadTuning(TuningFile(i), tuningKey(i))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Log.Warn("the stored tuning of the GPU is ignored", "error", err)
	}
	return r
}

// Tune measures the device's kernels and stores the result. If it cannot be stored, Tune warns. The
// device must not be in use.
func (t *Tuner) Tune(dev metal.Device, mode metal.Mode) (*kernels.TuningResult, error) {
	info, start := dev.Info(), time.Now()
	driver, _ := drivers.Find(info.Driver)
	cached := metal.NewCachedDevice(dev)
	limits := roofline.LimitsOf(info)
	tuning := kernels.Tuning{
		Open: func() (*metal.Backend, error) {
			return metal.New(cached, metal.Options{Mode: mode, Geometry: kernels.TuningCandidates()})
		},
		Limits: limits, Each: t.Progress, Brief: !driver.Auto,
	}
	ctx, cancel := context.WithTimeout(t.Context, t.Limit)
	defer cancel()
	measured, complete, err := tuning.Run(ctx)
	if err != nil {
		return nil, errors.Join(err, cached.Close())
	}
	r := &kernels.TuningResult{
		TuningKey: tuningKey(info), Version: t.Version, Seconds: time.Since(start).Seconds(), Complete: complete,
		GBPerS: limits.Bandwidth / 1e9, GFLOPS: limits.FLOPS / 1e9, Measured: measured,
	}
	if err := r.Write(TuningFile(info)); err != nil {
		t.Log.Warn("the tuning of the GPU is not stored, and is repeated at the next start; --tuning off skips it", "error", err)
	}
	return r, nil
}

// geometry returns the choices of an earlier tuning, or of one that it makes now. A failed tuning
// leaves the defaults.
func (t *Tuner) geometry(dev metal.Device, mode metal.Mode) metal.Geometry {
	r := t.Stored(dev.Info())
	if r == nil && t.Limit > 0 && Tunes(dev.Info()) {
		var err error
		if r, err = t.Tune(dev, mode); errors.Is(err, context.Canceled) {
			return nil // the command ends
		} else if err != nil {
			t.Log.Warn("the GPU's kernels could not be tuned, and the default sizes are used", "error", err)
			return nil
		}
		t.Log.Info("the GPU's kernels are tuned", "took", time.Duration(r.Seconds*float64(time.Second)).Round(time.Millisecond), "choices", len(r.Geometry()), "complete", r.Complete)
	}
	if r == nil {
		return nil
	}
	return r.Geometry()
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// TuningFile returns the path of the file for a device.
func TuningFile(i metal.Info) string {
	return config.TuningFile(strings.Trim(notInNames.ReplaceAllString(strings.ToLower(i.Driver+"-"+i.Name), "-"), "-"))
}

func tuningKey(i metal.Info) kernels.TuningKey {
	return kernels.TuningKey{Driver: i.Driver, Device: i.Name, System: system(), Kernels: metal.KernelVersion()}
}

// system returns the operating system's name and version.
func system() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}
