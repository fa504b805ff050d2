package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/bench"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/doctor"
)

// report measures answers and prompts, and writes a Markdown file with the machine, the versions,
// the figures and the tuning of the GPU.
func (b *benchFlags) report(cmd *cobra.Command, cfg *config.Config) error {
	if b.mode != "" || b.json != "" || b.weights.write != "" || b.roofline != "" {
		return usagef("--report measures answers and prompts, and cannot be combined with --mode, --json, --write or --roofline")
	}
	cases, err := b.reported(cmd)
	if err != nil {
		return err
	}
	var records []bench.Record
	for _, weights := range b.weights.orElse(cfg.Model, profileShapes) {
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
	return writeTo(cmd, "report", b.reportFile, func(w io.Writer) error { return writeReport(w, d, records) })
}

// reported returns the cases of a report: those that the flags give, or the usual numbers of
// streams and a prompt of 2,048 tokens.
func (b *benchFlags) reported(cmd *cobra.Command) ([]bench.Case, error) {
	given := *b
	if !cmd.Flags().Changed("batch") {
		given.batch = counts{1, 4, 16, 64}
	}
	decode, err := given.cases()
	if err != nil {
		return nil, err
	}
	given.mode, given.batch = string(bench.Prefill), counts{1}
	if !cmd.Flags().Changed("prompt") {
		given.prompt = counts{2048}
	}
	prefill, err := given.cases()
	return append(decode, prefill...), err
}

func (b *benchFlags) measureWeights(cmd *cobra.Command, cfg *config.Config, weights *weightFlags, cases []bench.Case) (records []bench.Record, err error) {
	path, remove, err := weights.file(cfg.Model)
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

func writeReport(w io.Writer, d *doctor.Diagnosis, records []bench.Record) error {
	var machine, figures, data, tuning bytes.Buffer
	list := json.NewEncoder(&data)
	list.SetIndent("", " ")
	err := errors.Join(d.Write(&machine), bench.WriteTable(&figures, records), list.Encode(records), d.WriteTuning(&tuning))
	if err != nil {
		return err
	}
	text := fmt.Sprintf("# Speed of Ingot\n\n## Machine\n\n```\n%s```\n\n## Figures\n\n```\n%s```\n", &machine, &figures)
	if tuning.Len() > 0 {
		text += fmt.Sprintf("\n## Kernels\n\n```\n%s```\n", &tuning)
	}
	_, err = fmt.Fprintf(w, "%s\n## Data\n\n```json\n%s```\n", text, &data)
	return err
}
