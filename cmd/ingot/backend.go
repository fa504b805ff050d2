package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/bench"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/internal/progress"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/drivers"
)

// launch opens the backend that the settings select. A command that loads several models opens it several times.
type launch struct {
	cfg      *config.Config
	stderr   io.Writer
	level    slog.Level
	capture  string         // file of the capture; empty for none
	geometry metal.Geometry // geometry of the kernels; nil to use the one in the user's geometry file
	cached   bool           // all backends share one device until end is called, so that kernels are compiled once

	rows      int64               // memory for the rows of all engines together, in bytes
	device    metal.Device        // nil on the CPU
	cache     *metal.CachedDevice // the shared device; nil until it is opened, and nil unless cached is set
	capturing *metal.Capture      // nil without a capture
	logged    bool                // the first backend was logged; the others are not
}

func newLaunch(cfg *config.Config, stderr io.Writer) *launch {
	return &launch{cfg: cfg, stderr: stderr, level: cfg.LogLevel}
}

// captured is the number of GPU submissions in a capture: enough for a prompt and some answer tokens, and few enough for Xcode to open.
const captured = 8

func addCaptureFlag(flags *pflag.FlagSet, path *string) {
	flags.StringVar(path, "capture", "",
		fmt.Sprintf("record the GPU's first %d steps to `FILE`.gputrace for Xcode (metal, with MTL_CAPTURE_ENABLED=1)", captured))
	section(flags, debugging, "capture")
}

// backend opens the backend that the settings select. On a terminal it shows the progress of compiling kernels.
func (l *launch) backend() (compute.Backend, error) {
	if err := l.checkCapture(); err != nil {
		return nil, err
	}
	name := l.cfg.Backend
	if name == config.BackendCPU {
		return l.cpu()
	}
	if len(l.cfg.Devices) > 1 {
		return nil, usagef("--%s names %d GPUs, but only \"ingot worker\" uses several: name one", config.Device, len(l.cfg.Devices))
	}
	dev, err := l.open(name)
	switch {
	case name == config.BackendAuto && errors.Is(err, metal.ErrUnsupported):
		return l.cpu()
	case errors.Is(err, metal.ErrUnsupported):
		return nil, fmt.Errorf("%w; use --backend cpu, or auto for the best backend of this machine", err)
	case err != nil:
		return nil, fmt.Errorf("%w; use --backend cpu to run without a GPU", err)
	}
	if l.capture != "" {
		if driver := dev.Info().Driver; !captures(driver) {
			return nil, errors.Join(noCapture(driver), dev.Close())
		}
		l.capturing = metal.NewCapture(dev, l.capture, captured)
		dev = l.capturing
	}
	be, err := l.kernels(dev)
	if err != nil {
		return nil, err // a nil *metal.Backend in the interface would not be equal to nil
	}
	return be, nil
}

func (l *launch) cpu() (compute.Backend, error) {
	if l.capture != "" {
		return nil, noCapture(config.BackendCPU)
	}
	if err := checkCPUFlags(l.cfg); err != nil {
		return nil, err
	}
	return cpu.New(l.cfg.Threads)
}

// checkCPUFlags returns an error for a flag that has no effect on the CPU. The same settings in the environment and the config file are
// allowed, since machines with a GPU may share them.
func checkCPUFlags(cfg *config.Config) error {
	for _, name := range []config.Name{config.Device, config.Kernels} {
		if slices.Contains(cfg.FromFlags, name) {
			return usagef("--%s requires a GPU, but the backend is %s", name, config.BackendCPU)
		}
	}
	return nil
}

// kernels compiles a device's kernels and returns its backend.
func (l *launch) kernels(dev metal.Device) (*metal.Backend, error) {
	log := newLogger(l.cfg, l.level, l.stderr)
	if l.logged {
		log = slog.New(slog.DiscardHandler)
	}
	l.logged = true
	if d, _ := drivers.Find(dev.Info().Driver); d.Note != "" {
		log.Warn("the backend " + d.Name + " is " + d.Note)
	}
	start, progress := time.Now(), compileProgress(l.stderr)
	geometry := l.geometry
	if geometry == nil {
		var err error
		if geometry, err = metal.ReadGeometryFile(config.GeometryFile()); err != nil {
			return nil, errors.Join(err, dev.Close())
		}
	}
	be, err := metal.New(dev, metal.Options{Mode: l.cfg.Kernels, Progress: progress, Geometry: geometry})
	if err != nil {
		return nil, err
	}
	l.device = dev
	info := dev.Info()
	log.Info("kernels are compiled", "backend", info.Driver, "device", info.Name, "language", info.LanguageVersion, "math", info.MathMode,
		"choices", len(geometry), "took", time.Since(start).Round(time.Millisecond))
	return be, nil
}

// open opens the device of a GPU backend, or returns the cached device.
func (l *launch) open(name string) (metal.Device, error) {
	if l.cache != nil {
		return l.cache, nil
	}
	open := func() (metal.Device, error) { return drivers.Open(name, l.cfg.Device) }
	if name == config.BackendAuto {
		open = func() (metal.Device, error) { return drivers.OpenAuto(l.cfg.Device) }
	}
	dev, err := open()
	if err != nil || !l.cached {
		return dev, err
	}
	l.cache = metal.NewCachedDevice(dev)
	return l.cache, nil
}

// end closes the cached device.
func (l *launch) end() error {
	if l.cache == nil {
		return nil
	}
	return l.cache.CloseDevice()
}

// captures reports whether a backend can write captures.
func captures(backend string) bool {
	d, _ := drivers.Find(backend)
	return d.Captures
}

func noCapture(backend string) error {
	return usagef("--capture requires the backend metal, but the backend is %s", backend)
}

// checkCapture returns an error if Metal cannot write the file that --capture names. It is called before anything is loaded.
func (l *launch) checkCapture() error {
	switch {
	case l.capture == "":
		return nil
	case l.cfg.Backend != config.BackendAuto && !captures(l.cfg.Backend):
		return noCapture(l.cfg.Backend)
	case !strings.HasSuffix(l.capture, ".gputrace"):
		return usagef("--capture %s: the file's name must end in .gputrace", l.capture)
	}
	if _, err := os.Stat(l.capture); err == nil {
		return usagef("--capture %s: the file exists, and Metal does not overwrite it; remove it or use another name", l.capture)
	}
	if runtime.GOOS == "darwin" && os.Getenv("MTL_CAPTURE_ENABLED") != "1" {
		return usagef("--capture %s: start the program with MTL_CAPTURE_ENABLED=1 in the environment", l.capture)
	}
	return nil
}

// ready starts the capture, if --capture is given. It is called after the model is loaded.
func (l *launch) ready() {
	if l.capturing != nil {
		l.capturing.Begin()
	}
}

// counts returns the device's counters; nil on the CPU. It must not be called while a step runs.
func (l *launch) counts() *bench.Counts {
	if l.device == nil {
		return nil
	}
	c := l.device.Counters()
	return &bench.Counts{Dispatches: c.Dispatches, CommandBuffers: c.CommandBuffers, Waits: c.Waits}
}

// compileProgress returns a function that shows the number of compiled kernel files on a terminal. It returns nil if w is neither a
// terminal nor a progress.Display.
func compileProgress(w io.Writer) func(done, total int) {
	if d, ok := w.(*progress.Display); ok {
		return func(done, total int) {
			if done == total {
				d.Phase(loadingModel)
				return
			}
			d.Phase(fmt.Sprintf("compiling kernels, %d of %d", done, total))
		}
	}
	if !isTerminal(w) {
		return nil
	}
	return func(done, total int) {
		line := fmt.Sprintf("compiling kernels, %d of %d", done, total)
		if done == total {
			line = ""
		}
		fmt.Fprintf(w, "\r\x1b[2K%s", line) //nolint:errcheck // progress is best effort
	}
}
