package main

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/bench"
	"github.com/ingot-run/ingot/bench/roofline"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/launch"
)

// The defaults of a prediction: the shapes if no model is given, the numbers of streams, and the
// lengths of context and prompt in tokens.
var (
	rooflineShapes  = []launch.Weights{{Shape: "glm-4.7-flash", Quant: "q4_k"}, {Shape: "smollm-135m", Quant: "q4_0"}}
	rooflineBatch   = bench.Numbers{1, 16, 64}
	rooflineContext = bench.Numbers{2048}
	rooflinePrompt  = bench.Numbers{2048}
)

// predict prints a chip's speeds for every model: decoding by streams and context, prompts by
// length.
func (b *benchFlags) predict(cmd *cobra.Command, cfg *config.Config) error {
	chip, err := roofline.ParseChip(b.roofline)
	if err != nil {
		return &usageError{err}
	}
	workloads, err := b.workloads(cmd)
	if err != nil {
		return err
	}
	if b.weights.Write != "" {
		return usagef("--write cannot be combined with --roofline, which needs no file")
	}
	measured := roofline.Measured()
	var list []roofline.Prediction
	for _, weights := range b.weights.Else(cfg.Model, rooflineShapes) {
		f, err := weights.Layout(cfg.Model)
		if err != nil {
			return err
		}
		some, err := roofline.PredictAll(f, weights.Name(f.Path()), cfg.Engine.KV, chip, workloads, &measured)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		list = append(list, some...)
	}
	table := func() error { return roofline.WriteTable(cmd.OutOrStdout(), list) }
	if b.json == "" {
		return table()
	}
	return writeFigures(cmd, b.json, list, table)
}

// workloads returns what is predicted: decoding, prompts, or both if --mode is not given.
func (b *benchFlags) workloads(cmd *cobra.Command) (list []roofline.Workload, err error) {
	given := func(name string, have, otherwise bench.Numbers) bench.Numbers {
		if cmd.Flags().Changed(name) {
			return have
		}
		return otherwise
	}
	batches := given("batch", b.batch, rooflineBatch)
	if slices.Min(batches) < 1 || slices.Max(batches) > roofline.MaxBatch {
		return nil, usagef("--roofline predicts --batch 1 to %d", roofline.MaxBatch)
	}
	mode := bench.Mode(b.mode)
	if mode == bench.Full {
		return nil, usagef("--roofline predicts --mode decode or prefill, not %s", mode)
	}
	if mode != bench.Prefill {
		for _, context := range given("context", b.context, rooflineContext) {
			for _, batch := range batches {
				list = append(list, roofline.Workload{Streams: batch, Context: context})
			}
		}
	}
	if mode != bench.Decode {
		for _, context := range b.context {
			for _, prompt := range given("prompt", b.prompt, rooflinePrompt) {
				if prompt < 1 {
					return nil, usagef("--prompt is 0, but a prompt has at least 1 token")
				}
				list = append(list, roofline.Workload{Streams: 1, Context: context, Prompt: prompt})
			}
		}
	}
	return list, nil
}
