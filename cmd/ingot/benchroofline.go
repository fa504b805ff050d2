package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/bench/roofline"
	"github.com/ingot-run/ingot/bench/shape"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine/gguf"
)

// predict prints the predicted speed of a chip for every batch and context.
func (b *benchFlags) predict(cmd *cobra.Command, cfg *config.Config) error {
	if b.mode != "" && b.mode != "decode" {
		return usagef("--roofline predicts --mode decode, not %s", b.mode)
	}
	if slices.Min(b.batch) < 1 || slices.Max(b.batch) > roofline.MaxBatch {
		return usagef("--roofline predicts --batch 1 to %d; larger batches are limited by compute, not by memory", roofline.MaxBatch)
	}
	chip, err := roofline.ParseChip(b.roofline)
	if err != nil {
		return &usageError{err}
	}
	f, err := b.weights.layout(cfg.Model)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	var list []roofline.Prediction
	for _, context := range b.context {
		for _, batch := range b.batch {
			some, err := roofline.Predict(f, cfg.Engine.KV, chip, batch, context)
			if err != nil {
				return err
			}
			list = append(list, some...)
		}
	}
	table := func() error { return roofline.WriteTable(cmd.OutOrStdout(), list) }
	if b.json == "" {
		return table()
	}
	return report(cmd, b.json, list, table)
}

// layout opens the model's file, or returns the shape's layout, which needs no file.
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
