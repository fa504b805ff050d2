package main

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/launch"
	"github.com/ingot-run/ingot/internal/progress"
	"github.com/ingot-run/ingot/internal/textfmt"
)

func addEngineFlags(flags *pflag.FlagSet) {
	config.AddFlag(flags, config.Model, config.Concurrency, config.Context)
	addComputeFlags(flags)
}

func addComputeFlags(flags *pflag.FlagSet) {
	config.AddFlag(flags, config.MemoryLimit)
	for _, name := range []config.Name{
		config.Backend, config.Device, config.Threads, config.KV, config.Draft, config.DraftTokens, config.StepTime,
	} {
		config.AddFlag(flags, name)
		section(flags, tuning, string(name))
	}
	config.AddFlag(flags, config.Kernels)
	section(flags, debugging, string(config.Kernels))
}

func addCaptureFlag(flags *pflag.FlagSet, path *string) {
	flags.StringVar(path, "capture", "",
		fmt.Sprintf("record the GPU's first %d steps to `FILE`.gputrace for Xcode (metal, with MTL_CAPTURE_ENABLED=1)", launch.Captured))
	section(flags, debugging, "capture")
}

func newLaunch(cfg *config.Config, stderr io.Writer) *launch.Launch {
	return &launch.Launch{Config: cfg, Log: newLogger(cfg, cfg.LogLevel, stderr), Progress: compileProgress(stderr)}
}

// compileProgress returns a function that shows the number of compiled kernel files on a terminal.
// It returns nil if w is neither a terminal nor a progress.Display.
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
	if !textfmt.IsTerminal(w) {
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
