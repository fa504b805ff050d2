package main

import (
	"context"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/launch"
	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/worker/local"
)

// runModels returns the models of --model. A single model has no alias.
func runModels(lines string) ([]local.Model, error) {
	if !strings.Contains(lines, "\n") {
		return []local.Model{{Name: lines}}, nil
	}
	aliased, err := aliasedModels(lines)
	list := make([]local.Model, len(aliased))
	for i, m := range aliased {
		list[i] = local.Model{Alias: m.Alias, Name: m.Model}
	}
	return list, err
}

// newJob opens the input of a job. The caller closes it, and sets the output, the models and Open.
func newJob(cmd *cobra.Command, cfg *config.Config, from *inputFlags, args []string) (*local.Job, error) {
	in, err := from.open(cmd, args)
	if err != nil {
		return nil, err
	}
	quiet := warningsOnly(cfg)
	return &local.Job{
		Name: strings.Join(args, " "), In: in, Find: launch.ModelSize, Concurrency: cfg.Concurrency, Version: programVersion(),
		Stderr: cmd.ErrOrStderr(), Notes: from.notes, Log: func(w io.Writer) *slog.Logger { return newLogger(quiet, w) },
		Templates: from.makesMessages(), Texts: from.texts(),
	}, nil
}

// openEngine returns the function with which a job loads its models. capture is the value of
// --capture. Values at points of the forward pass are printed to values, unless points is nil.
func openEngine(cfg *config.Config, capture string, points *compute.Checkpoints, values io.Writer) local.Open {
	return func(ctx context.Context, m local.Model, stderr io.Writer, loading func(done, total int64)) (*engine.Engine, error) {
		l := newLaunch(ctx, warningsOnly(cfg), stderr)
		l.Capture = capture
		opts := launch.EngineOptions(cfg)
		opts.Loading = loading
		if points != nil {
			opts.Trace = func(p compute.Checkpoint) { points.Print(values, p) }
		}
		return l.Engine(m.Name, opts)
	}
}
