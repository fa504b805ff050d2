package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/bench"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/doctor"
	"github.com/ingot-run/ingot/config/launch"
)

// report measures answers and prompts, and writes a Markdown file with the machine, the versions,
// the figures and the tuning of the GPU.
func (b *benchFlags) report(cmd *cobra.Command, cfg *config.Config) error {
	if b.mode != "" || b.json != "" || b.weights.Write != "" || b.roofline != "" {
		return usagef("--report measures answers and prompts, and cannot be combined with --mode, --json, --write or --roofline")
	}
	cases, err := b.reported(cmd)
	if err != nil {
		return err
	}
	var records []bench.Record
	for _, weights := range b.weights.Else(cfg.Model, profileShapes) {
		some, err := b.measureWeights(cmd, cfg, &weights, cases)
		if err != nil {
			return err
		}
		records = append(records, some...)
	}
	machine := *cfg
	machine.Model, machine.Redis = "", ""
	stderr := cmd.ErrOrStderr()
	d, problems := doctor.Examine(cmd.Context(), &machine, newTuner(cmd.Context(), cfg, newLogger(cfg, stderr), stderr), false)
	if problems != nil {
		return problems
	}
	if err := bench.WriteTable(cmd.OutOrStdout(), records); err != nil {
		return err
	}
	return writeTo(cmd, "report", b.reportFile, func(w io.Writer) error { return d.WriteSpeed(w, records) })
}

// reported returns the cases of a report: those that the flags give, or the usual numbers of
// streams and a prompt of 2,048 tokens.
func (b *benchFlags) reported(cmd *cobra.Command) ([]bench.Case, error) {
	given := *b
	if !cmd.Flags().Changed("batch") {
		given.batch = bench.Numbers{1, 4, 16, 64}
	}
	decode, err := given.cases()
	if err != nil {
		return nil, err
	}
	given.mode, given.batch = string(bench.Prefill), bench.Numbers{1}
	if !cmd.Flags().Changed("prompt") {
		given.prompt = bench.Numbers{2048}
	}
	prefill, err := given.cases()
	return append(decode, prefill...), err
}

func (b *benchFlags) measureWeights(cmd *cobra.Command, cfg *config.Config, weights *launch.Weights, cases []bench.Case) (records []bench.Record, err error) {
	path, remove, err := weights.File(cfg.Model)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	one := *b
	one.batch = nil
	for _, c := range cases {
		one.batch = append(one.batch, c.Batch)
	}
	return one.measure(cmd.Context(), cfg, path, cases)
}
