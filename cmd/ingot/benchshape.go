package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/bench/shape"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/launch"
	"github.com/ingot-run/ingot/engine/gguf"
)

// weightFlags has the flags that select random weights in a model's shape, instead of a model.
type weightFlags struct{ shape, quant, write string }

func (w *weightFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&w.shape, "shape", "", "measure random weights in the shape of `NAME`: "+shape.Names())
	flags.StringVar(&w.quant, "quant", w.quant, "quantise the shape's weights to `TYPE`, such as q4_0, q8_0, q4_k or f16")
}

// either returns an error if the command line has flags for both a model and a shape. A shape on
// the command line takes precedence over a model from the environment or the config file.
func (w *weightFlags) either(flags *pflag.FlagSet) error {
	if flags.Changed(string(config.Model)) && w.shape != "" {
		return usagef("--model and --shape cannot be combined: give one")
	}
	return nil
}

func (w *weightFlags) orElse(model string, shapes []weightFlags) []weightFlags {
	if w.shape == "" && model == "" {
		return shapes
	}
	return []weightFlags{*w}
}

// parse returns the shape and the type of its weights. The shape is nil if the flags give none;
// there is a model then.
func (w *weightFlags) parse(model string) (s *shape.Shape, quant gguf.Type, err error) {
	if w.shape == "" {
		if model == "" {
			return nil, 0, usagef("a model is missing: give --model FILE or --shape NAME")
		}
		return nil, 0, nil
	}
	if s, err = shape.Parse(w.shape); err == nil {
		quant, err = shape.ParseQuant(w.quant)
	}
	if err != nil {
		return nil, 0, &usageError{err}
	}
	return s, quant, nil
}

// file returns the path of a model's file. If the flags give a shape, it writes a file for the
// shape and returns the path of that file. The caller calls remove at the end: it deletes the
// shape's file unless --write names it.
func (w *weightFlags) file(model string) (path string, remove func() error, err error) {
	remove = func() error { return nil }
	if w.shape == "" && w.write != "" {
		return "", nil, usagef("--write requires --shape")
	}
	s, quant, err := w.parse(model)
	switch {
	case err != nil:
		return "", nil, err
	case s == nil:
		path, err = launch.ModelFile(model)
		return path, remove, err
	}
	path, err = s.WriteFile(w.write, quant)
	if w.write == "" {
		remove = func() error { return os.Remove(path) }
	}
	return path, remove, err
}

// layout opens a model's file. If the flags give a shape, it returns a file in memory instead,
// which has the sizes and types of the weights, but no values.
func (w *weightFlags) layout(model string) (*gguf.File, error) {
	s, quant, err := w.parse(model)
	if err != nil {
		return nil, err
	}
	if s != nil {
		return s.Layout(quant)
	}
	return openModel(model)
}

func (w *weightFlags) name(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".gguf")
	if w.shape != "" {
		name = w.shape + "-" + strings.ToLower(w.quant)
	}
	return strings.ReplaceAll(name, ":", "-")
}
