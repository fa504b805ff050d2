package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/bench"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/drivers"
)

// launch opens the backend that the settings ask for.
type launch struct {
	cfg      *config.Config
	stderr   io.Writer
	level    slog.Level
	capture  string         // file of a capture; empty for none
	geometry metal.Geometry // beside the choices that come with the program; nil takes the user's
	keeps    bool           // all backends share a device, until end, so that its kernels are compiled once

	device    metal.Device        // nil on the CPU
	kept      *metal.CachedDevice // nil without a cache
	capturing *metal.Capture      // nil where nothing is captured
	told      bool                // what is said of a backend is said once
}

func newLaunch(cfg *config.Config, stderr io.Writer) *launch {
	return &launch{cfg: cfg, stderr: stderr, level: cfg.LogLevel}
}

// captured is how many submissions a capture records: enough for prompts and answers, and few enough for Xcode.
const captured = 8

func addCaptureFlag(flags *pflag.FlagSet, path *string) {
	flags.StringVar(path, "capture", "",
		fmt.Sprintf("record the GPU's work of the first %d steps to `FILE`.gputrace for Xcode (metal, with MTL_CAPTURE_ENABLED=1)", captured))
	section(flags, debugging, "capture")
}

// backend opens the backend. Where a terminal shows it, the kernels' compilation is told as it goes.
func (l *launch) backend() (compute.Backend, error) {
	if err := l.checkCapture(); err != nil {
		return nil, err
	}
	name := l.cfg.Backend
	if name == config.BackendCPU {
		return l.cpu()
	}
	dev, err := l.open(name)
	switch {
	case name == config.BackendAuto && errors.Is(err, metal.ErrUnsupported):
		return l.cpu()
	case errors.Is(err, metal.ErrUnsupported):
		return nil, fmt.Errorf("%w; use --backend cpu, or auto for the best of this machine", err)
	case err != nil:
		return nil, fmt.Errorf("%w; --backend cpu needs no GPU", err)
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
		return nil, err // and no backend, rather than one that is nil
	}
	return be, nil
}

func (l *launch) cpu() (compute.Backend, error) {
	if l.capture != "" {
		return nil, noCapture(config.BackendCPU)
	}
	return cpu.New(l.cfg.Threads)
}

// kernels makes a device's backend.
func (l *launch) kernels(dev metal.Device) (*metal.Backend, error) {
	log := newLogger(l.cfg, l.level, l.stderr)
	if l.told {
		log = slog.New(slog.DiscardHandler)
	}
	l.told = true
	if d, _ := drivers.Find(dev.Info().Driver); d.Note != "" {
		log.Warn("the backend " + d.Name + " is " + d.Note)
	}
	start, progress := time.Now(), compileProgress(l.stderr)
	geometry := l.geometry
	if geometry == nil {
		var err error
		if geometry, err = readGeometry(config.GeometryFile()); err != nil {
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

// open opens the device of a backend other than cpu, or takes the one that is kept.
func (l *launch) open(name string) (metal.Device, error) {
	if l.kept != nil {
		return l.kept, nil
	}
	open := func() (metal.Device, error) { return drivers.Open(name) }
	if name == config.BackendAuto {
		open = drivers.OpenAuto
	}
	dev, err := open()
	if err != nil || !l.keeps {
		return dev, err
	}
	l.kept = metal.NewCachedDevice(dev)
	return l.kept, nil
}

// end closes the device that is kept.
func (l *launch) end() error {
	if l.kept == nil {
		return nil
	}
	return l.kept.CloseDevice()
}

// captures reports whether a backend can write captures.
func captures(backend string) bool {
	d, _ := drivers.Find(backend)
	return d.Captures
}

func noCapture(backend string) error {
	return usagef("--capture records the work of a GPU through Metal, and the backend here is %s", backend)
}

// checkCapture finds before anything is loaded what would keep Metal from writing a capture.
func (l *launch) checkCapture() error {
	switch {
	case l.capture == "":
		return nil
	case l.cfg.Backend != config.BackendAuto && !captures(l.cfg.Backend):
		return noCapture(l.cfg.Backend)
	case !strings.HasSuffix(l.capture, ".gputrace"):
		return usagef("--capture %s: the file's name has to end in .gputrace", l.capture)
	}
	if _, err := os.Stat(l.capture); err == nil {
		return usagef("--capture %s: it is there already, and Metal does not write over it", l.capture)
	}
	if runtime.GOOS == "darwin" && os.Getenv("MTL_CAPTURE_ENABLED") != "1" {
		return usagef("--capture %s: Metal writes captures of programs that are started with MTL_CAPTURE_ENABLED=1 in the environment", l.capture)
	}
	return nil
}

// ready begins the capture that is asked for: the model is loaded, so what follows is work.
func (l *launch) ready() {
	if l.capturing != nil {
		l.capturing.Begin()
	}
}

// counts are what the device has done; nil on the CPU, which counts nothing. It may be asked for while the backend rests.
func (l *launch) counts() *bench.Counts {
	if l.device == nil {
		return nil
	}
	c := l.device.Counters()
	return &bench.Counts{Dispatches: c.Dispatches, CommandBuffers: c.CommandBuffers, Waits: c.Waits}
}

// compileProgress shows on a terminal how far the kernels are compiled; elsewhere it is nil.
func compileProgress(w io.Writer) func(done, total int) {
	if d, ok := w.(*display); ok {
		return d.Compiling
	}
	if !isTerminal(w) {
		return nil
	}
	return func(done, total int) {
		line := fmt.Sprintf("compiling kernels, %d of %d", done, total)
		if done == total {
			line = ""
		}
		fmt.Fprintf(w, "\r\x1b[2K%s", line) //nolint:errcheck // what cannot be shown is left out
	}
}
