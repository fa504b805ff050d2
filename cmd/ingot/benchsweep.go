package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/bench/kernels"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/metal"
)

const noGPU = "--sweep is for the kernels of a GPU, and the backend here is %s"

// sweepGeometry finds the best geometry for a model's operations and writes it to a file, beside what that has already.
func sweepGeometry(cmd *cobra.Command, cfg *config.Config, weights *weightFlags, path string) (err error) {
	if cfg.Backend == config.BackendCPU {
		return usagef(noGPU, cfg.Backend)
	}
	if path == "" {
		return usagef("there is no home to keep the geometry in; give --json FILE")
	}
	have := metal.Geometry{}
	if path != stdio {
		if have, err = readGeometry(path); err != nil {
			return err
		}
	}
	f, err := weights.layout(cfg.Model)
	if err != nil {
		return err
	}
	operations, err := kernels.Operations(f, cfg.Engine.KV)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	l := newLaunch(cfg, cmd.ErrOrStderr())
	l.geometry, l.keeps = metal.AllCandidates(), true
	defer func() { err = errors.Join(err, l.end()) }()
	var found []kernels.Swept
	sweep := kernels.NewSweep(l.gpu, func(s kernels.Swept) {
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
		if err := writeGeometry(path, have); err != nil { // now, since a sweep may be ended early
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
		cmd.PrintErrf("geometry written to %s; as %s it is used\n", path, config.GeometryFile())
		return nil
	}
	cmd.PrintErrf("geometry written to %s, and used from now on\n", path)
	return nil
}

// gpu is the backend where it is one of a GPU's kernels.
func (l *launch) gpu() (*metal.Backend, error) {
	be, err := l.backend()
	if err != nil {
		return nil, err
	}
	gpu, ok := be.(*metal.Backend)
	if !ok {
		return nil, errors.Join(usagef(noGPU, be.Name()), be.Close())
	}
	return gpu, nil
}

// readGeometry reads a file of choices; there are none where it is not there.
func readGeometry(path string) (metal.Geometry, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return metal.Geometry{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the geometry of GPUs: %w", err)
	}
	g, err := metal.ReadGeometry(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove the file, or sweep again", path, err)
	}
	return g, nil
}

// writeGeometry writes a file of choices, whole or not at all.
func writeGeometry(path string, g metal.Geometry) error {
	var text bytes.Buffer
	if err := g.Write(&text); err != nil {
		return err
	}
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path+".new", text.Bytes(), 0o644)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("write the geometry of GPUs: %w", err)
	}
	return nil
}
