package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/bench/kernels"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/launch"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/metal"
)

func sweepGeometry(cmd *cobra.Command, cfg *config.Config, weights *launch.Weights, path string) (err error) {
	if cfg.Backend == config.BackendCPU {
		return launch.NoGPU("sweep", cfg.Backend)
	}
	if path == "" {
		return usagef("there is no folder for the geometry file, since neither XDG_CONFIG_HOME nor HOME is set: give --json FILE")
	}
	have := metal.Geometry{}
	if path != stdio {
		if have, err = metal.ReadGeometryFile(path); err != nil {
			return err
		}
	}
	f, err := weights.Layout(cfg.Model)
	if err != nil {
		return err
	}
	operations, err := kernels.Operations(f, cfg.Engine.KV)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	l := newLaunch(cmd.Context(), cfg, cmd.ErrOrStderr())
	l.Geometry, l.Cached = metal.AllCandidates(), true
	defer func() { err = errors.Join(err, l.Close()) }()
	var found []kernels.Swept
	sweep := kernels.NewSweep(func() (*metal.Backend, error) { return l.GPU("sweep") }, func(s kernels.Swept) {
		found = append(found, s)
		have = have.With(metal.Geometry{s.Choice})
	})
	for i := range operations {
		cmd.PrintErrf("%d of %d: %v\n", i+1, len(operations), &operations[i])
		if err := sweep.Run(cmd.Context(), &operations[i]); err != nil {
			return err
		}
		if path == stdio {
			continue
		}
		if err := have.WriteFile(path); err != nil { // after each operation, since a sweep may be interrupted
			return err
		}
	}
	if path == stdio {
		return have.Write(cmd.OutOrStdout())
	}
	if err := kernels.WriteSweep(cmd.OutOrStdout(), found); err != nil {
		return err
	}
	if path != config.GeometryFile() {
		cmd.PrintErrf("geometry written to %s; move it to %s to use it\n", textfmt.Printable(path), textfmt.Printable(config.GeometryFile()))
		return nil
	}
	cmd.PrintErrf("geometry written to %s; it is used from now on\n", textfmt.Printable(path))
	return nil
}
