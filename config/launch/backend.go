// Package launch opens the backend and the engines that the settings of a command select.
package launch

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ingot-run/ingot/bench"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/drivers"
)

// Launch opens the backend that the settings select. A command that loads several models opens it
// several times.
type Launch struct {
	Config   *config.Config
	Log      *slog.Logger
	Progress func(done, total int) // is told how many kernel files are compiled; nil for none
	Capture  string                // file of the capture; empty for none
	Geometry metal.Geometry        // geometry of the kernels; nil to use the tuned one and the one in the user's geometry file
	Tuner    *Tuner                // tunes the kernels of a new GPU; nil for none
	Cached   bool                  // all backends share one device until Close is called, so that kernels are compiled once

	rows      int64                     // memory for the rows of all engines together, in bytes
	device    metal.Device              // nil on the CPU
	cache     *metal.CachedDevice       // the shared device; nil until it is opened, and nil unless Cached is set
	capturing *metal.Capture            // nil without a capture
	tuned     map[string]metal.Geometry // by the device's name
}

// SettingsError is an error in the settings: nothing was opened.
type SettingsError struct{ error }

func wrong(format string, args ...any) error { return &SettingsError{fmt.Errorf(format, args...)} }

// Captured is the number of GPU submissions in a capture: enough for a prompt and some answer
// tokens, and few enough for Xcode to open.
const Captured = 8

// Backend opens the backend that the settings select.
func (l *Launch) Backend() (compute.Backend, error) {
	if err := l.checkCapture(); err != nil {
		return nil, err
	}
	name := l.Config.Backend
	if name == config.BackendCPU {
		return l.cpu()
	}
	if len(l.Config.Devices) > 1 {
		return nil, wrong("--%s names %d GPUs, but only \"ingot worker\" uses several: name one", config.Device, len(l.Config.Devices))
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
	if l.Capture != "" {
		if driver := dev.Info().Driver; !captures(driver) {
			return nil, errors.Join(noCapture(driver), dev.Close())
		}
		l.capturing = metal.NewCapture(dev, l.Capture, Captured)
		dev = l.capturing
	}
	be, err := l.kernels(dev)
	if err != nil {
		return nil, err // a nil *metal.Backend in the interface would not be equal to nil
	}
	return be, nil
}

func (l *Launch) cpu() (compute.Backend, error) {
	if l.Capture != "" {
		return nil, noCapture(config.BackendCPU)
	}
	if err := CheckCPU(l.Config); err != nil {
		return nil, err
	}
	return cpu.NewWith(cpu.Options{Threads: l.Config.Threads, Precision: l.Config.Precision})
}

// CheckCPU returns an error for a flag that has no effect on the CPU. The same settings in the
// environment and the config file are allowed, since machines with a GPU may share them.
func CheckCPU(cfg *config.Config) error {
	for _, name := range []config.Name{config.Device, config.Kernels} {
		if slices.Contains(cfg.FromFlags, name) {
			return NoGPU(string(name), config.BackendCPU)
		}
	}
	return nil
}

func (l *Launch) kernels(dev metal.Device) (*metal.Backend, error) {
	log := l.Log
	l.Log = slog.New(slog.DiscardHandler) // only the first backend and its engine are logged
	if d, _ := drivers.Find(dev.Info().Driver); d.Note != "" {
		log.Warn("the backend " + d.Name + " is " + d.Note)
	}
	start := time.Now()
	geometry := l.Geometry
	if geometry == nil {
		var err error
		if geometry, err = metal.ReadGeometryFile(config.GeometryFile()); err != nil {
			return nil, errors.Join(err, dev.Close())
		}
		geometry = l.tune(dev).With(geometry)
	}
	be, err := metal.New(dev, metal.Options{Mode: l.Config.Kernels, Progress: l.Progress, Geometry: geometry})
	if err != nil {
		return nil, err
	}
	l.device = dev
	info := dev.Info()
	log.Info("kernels are compiled", "backend", info.Driver, "device", info.Name, "language", info.LanguageVersion, "math", info.MathMode,
		"choices", len(geometry), "took", time.Since(start).Round(time.Millisecond))
	return be, nil
}

// tune returns the tuned choices for a device. A device is tuned at most once, even if the result
// cannot be stored.
func (l *Launch) tune(dev metal.Device) metal.Geometry {
	name := dev.Info().Name
	g, ok := l.tuned[name]
	if !ok && l.Tuner != nil && l.Config.Kernels != metal.Debug {
		if l.tuned == nil {
			l.tuned = map[string]metal.Geometry{}
		}
		g = l.Tuner.geometry(dev, l.Config.Kernels)
		l.tuned[name] = g
	}
	return g
}

// open opens the device of a GPU backend, or returns the cached device.
func (l *Launch) open(name string) (metal.Device, error) {
	if l.cache != nil {
		return l.cache, nil
	}
	open := func() (metal.Device, error) { return drivers.Open(name, l.Config.Device) }
	if name == config.BackendAuto {
		open = func() (metal.Device, error) { return drivers.OpenAuto(l.Config.Device) }
	}
	dev, err := open()
	if err != nil || !l.Cached {
		return dev, err
	}
	l.cache = metal.NewCachedDevice(dev)
	return l.cache, nil
}

// Close closes the cached device.
func (l *Launch) Close() error {
	if l.cache == nil {
		return nil
	}
	return l.cache.CloseDevice()
}

func captures(backend string) bool {
	d, _ := drivers.Find(backend)
	return d.Captures
}

func noCapture(backend string) error {
	return wrong("--capture requires the backend metal, but the backend is %s", backend)
}

// checkCapture returns an error if Metal cannot write the file that --capture names. It is called
// before anything is loaded.
func (l *Launch) checkCapture() error {
	switch {
	case l.Capture == "":
		return nil
	case l.Config.Backend != config.BackendAuto && !captures(l.Config.Backend):
		return noCapture(l.Config.Backend)
	case !strings.HasSuffix(l.Capture, ".gputrace"):
		return wrong("--capture %s: the file's name must end in .gputrace", l.Capture)
	}
	if _, err := os.Stat(l.Capture); err == nil {
		return wrong("--capture %s: the file exists, and Metal does not overwrite it; remove it or use another name", l.Capture)
	}
	if runtime.GOOS == "darwin" && os.Getenv("MTL_CAPTURE_ENABLED") != "1" {
		return wrong("--capture %s: start the program with MTL_CAPTURE_ENABLED=1 in the environment", l.Capture)
	}
	return nil
}

// Counts returns the device's counters; nil on the CPU. It must not be called while a step runs.
func (l *Launch) Counts() *bench.Counts {
	if l.device == nil {
		return nil
	}
	c := l.device.Counters()
	return &bench.Counts{Dispatches: c.Dispatches, CommandBuffers: c.CommandBuffers, Waits: c.Waits}
}

// GPU is Backend for a flag that requires a GPU.
func (l *Launch) GPU(flag string) (*metal.Backend, error) {
	be, err := l.Backend()
	if err != nil {
		return nil, err
	}
	if gpu, ok := be.(*metal.Backend); ok {
		return gpu, nil
	}
	return nil, errors.Join(NoGPU(flag, be.Name()), be.Close())
}

// NoGPU is the error of a flag that requires a GPU, on another backend.
func NoGPU(flag, backend string) error {
	return wrong("--%s requires a GPU, but the backend is %s", flag, backend)
}

// Device opens the device of the GPU backend that the settings select.
func (l *Launch) Device() (metal.Device, error) { return l.open(l.Config.Backend) }

// Bandwidth returns the bandwidth of the GPU's memory in bytes per second; 0 if it is unknown, or
// on the CPU.
func (l *Launch) Bandwidth() float64 {
	if l.device == nil {
		return 0
	}
	return l.device.Info().Bandwidth
}
