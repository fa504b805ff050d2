package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/bench/roofline"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/launch"
)

// profileShapes are the shapes that are measured if no model is given. Their steps run the same
// kernels as those of rooflineShapes.
var profileShapes = []launch.Weights{{Shape: "glm-4.7-flash:8", Quant: "q4_k"}, {Shape: "smollm-135m", Quant: "q4_0"}}

// profileKernels measures how long the kernels of the engine's steps take, and writes the times to
// a file.
func profileKernels(cmd *cobra.Command, cfg *config.Config, weights *launch.Weights, path string) (err error) {
	if cfg.Backend == config.BackendCPU {
		return launch.NoGPU("profile", cfg.Backend)
	}
	l := newLaunch(cmd.Context(), cfg, cmd.ErrOrStderr())
	l.Cached = true
	defer func() { err = errors.Join(err, l.Close()) }()
	var all roofline.Measurements
	for _, w := range weights.Else(cfg.Model, profileShapes) {
		p, err := profileModel(cmd, l, &w)
		if err != nil {
			return err
		}
		all.Device, all.GBPerS, all.Kernels = p.Device, p.GBPerS, append(all.Kernels, p.Kernels...)
	}
	if path == stdio {
		return all.Write(cmd.OutOrStdout())
	}
	if err := roofline.WriteProfile(cmd.OutOrStdout(), &all); err != nil {
		return err
	}
	return writeTo(cmd, "measurements", path, all.Write)
}

func profileModel(cmd *cobra.Command, l *launch.Launch, weights *launch.Weights) (p roofline.Measurements, err error) {
	path, remove, err := weights.File(l.Config.Model)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	return roofline.ProfileFile(cmd.Context(), l.Device, path, l.Config.Engine.KV, "profile of "+weights.Name(path))
}
