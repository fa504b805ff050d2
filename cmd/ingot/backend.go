package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/launch"
	"github.com/ingot-run/ingot/internal/progress"
	"github.com/ingot-run/ingot/worker/local"
)

func addEngineFlags(flags *pflag.FlagSet) {
	config.AddFlag(flags, config.Model, config.Concurrency, config.Context)
	addComputeFlags(flags)
}

func addComputeFlags(flags *pflag.FlagSet) {
	config.AddFlag(flags, config.MemoryLimit)
	for _, name := range []config.Name{
		config.Backend, config.Device, config.Tuning, config.Threads, config.Precision, config.KV, config.Draft, config.DraftTokens,
		config.StepTime,
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

// newLaunch returns a launch whose tuning of a new GPU ends with the command's context.
func newLaunch(ctx context.Context, cfg *config.Config, stderr io.Writer) *launch.Launch {
	log := newLogger(cfg, stderr)
	return &launch.Launch{Config: cfg, Log: log, Progress: kernelProgress(stderr, "compiling kernels"), Tuner: newTuner(ctx, cfg, log, stderr)}
}

func newTuner(ctx context.Context, cfg *config.Config, log *slog.Logger, stderr io.Writer) *launch.Tuner {
	return &launch.Tuner{
		Context: ctx, Limit: cfg.Tuning, Version: programVersion(), Log: log,
		Progress: kernelProgress(stderr, "tuning kernels (once for this GPU; --tuning off skips it)"),
	}
}

func kernelProgress(w io.Writer, what string) func(done, total int) {
	return progress.Steps(w, what, local.Loading)
}
