package main

import (
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/bench/shape"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/launch"
)

// weightFlags has the flags that select random weights in a model's shape, instead of a model.
type weightFlags struct{ launch.Weights }

func (w *weightFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&w.Shape, "shape", "", "measure random weights in the shape of `NAME`: "+shape.Names())
	flags.StringVar(&w.Quant, "quant", w.Quant, "quantise the shape's weights to `TYPE`, such as q4_0, q8_0, q4_k or f16")
}

// either returns an error if the command line has flags for both a model and a shape. A shape on
// the command line takes precedence over a model from the environment or the config file.
func (w *weightFlags) either(flags *pflag.FlagSet) error {
	if flags.Changed(string(config.Model)) && w.Shape != "" {
		return usagef("--model and --shape cannot be combined: give one")
	}
	return nil
}
