package main

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/bench"
	"github.com/ingot-run/ingot/bench/roofline"
	"github.com/ingot-run/ingot/bench/shape"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine/gguf"
)

// The defaults of a prediction: the shapes if no model is given, the numbers of streams, and the lengths of context and prompt in tokens.
var (
	rooflineShapes  = []weightFlags{{shape: "glm-4.7-flash", quant: "q4_k"}, {shape: "smollm-135m", quant: "q4_0"}}
	rooflineBatch   = counts{1, 16, 64}
	rooflineContext = counts{2048}
	rooflinePrompt  = counts{2048}
)

// predict prints the predicted speeds of a chip for every model: the speed of decoding by number of streams and context, and that of
// prompts by length.
func (b *benchFlags) predict(cmd *cobra.Command, cfg *config.Config) (err error) {
	chip, err := roofline.ParseChip(b.roofline)
	if err != nil {
		return &usageError{err}
	}
	workloads, err := b.workloads(cmd)
	if err != nil {
		return err
	}
	models := []weightFlags{b.weights}
	if b.weights.shape == "" && cfg.Model == "" {
		models = rooflineShapes
	}
	measured := roofline.Measured()
	var list []roofline.Prediction
	for i := range models {
		some, err := predictModel(&models[i], cfg, chip, workloads, &measured)
		if err != nil {
			return err
		}
		list = append(list, some...)
	}
	table := func() error { return roofline.WriteTable(cmd.OutOrStdout(), list) }
	if b.json == "" {
		return table()
	}
	return report(cmd, b.json, list, table)
}

// workloads returns what is predicted: decoding, prompts, or both if --mode is not given.
func (b *benchFlags) workloads(cmd *cobra.Command) (list []roofline.Workload, err error) {
	given := func(name string, have, otherwise counts) counts {
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

func predictModel(w *weightFlags, cfg *config.Config, chip roofline.Chip, workloads []roofline.Workload, measured *roofline.Measurements) (list []roofline.Prediction, err error) {
	f, err := w.layout(cfg.Model)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for _, workload := range workloads {
		some, err := roofline.Predict(f, cfg.Engine.KV, chip, workload, measured)
		if err != nil {
			return nil, err
		}
		for i := range some {
			some[i].Model = w.name(f.Path())
		}
		list = append(list, some...)
	}
	return list, nil
}

// layout opens a model's file. If the flags give a shape, it returns a file in memory instead, which has the sizes and types of the
// weights, but no values.
func (w *weightFlags) layout(model string) (*gguf.File, error) {
	switch {
	case w.shape == "" && model == "":
		return nil, usagef("a model is missing: give --model FILE or --shape NAME")
	case w.write != "":
		return nil, usagef("--write cannot be combined with --roofline, which needs no file")
	case w.shape == "":
		path, err := modelFile(model)
		if err != nil {
			return nil, err
		}
		return gguf.Open(path)
	}
	s, err := shape.Parse(w.shape)
	if err != nil {
		return nil, &usageError{err}
	}
	quant, err := parseQuant(w.quant)
	if err != nil {
		return nil, &usageError{err}
	}
	return s.Layout(quant)
}
