package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/bench"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/launch"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/internal/textfmt"
)

func newBench() *cobra.Command {
	b := benchFlags{
		prompt: bench.Numbers{128}, gen: bench.Numbers{64}, batch: bench.Numbers{1}, context: bench.Numbers{0},
		weights: weightFlags{launch.Weights{Quant: "q4_0"}},
	}
	cmd := &cobra.Command{
		Use:   "bench --model MODEL | --shape NAME",
		Short: "Measure the engine's speed",
		Args:  noCommand,
		RunE:  b.run,
	}
	b.add(cmd.Flags())
	cmd.AddCommand(newBenchKernels())
	return cmd
}

type benchFlags struct {
	weights                     weightFlags
	mode, questions, json       string
	capture, roofline           string
	reportFile                  string
	prompt, gen, batch, context bench.Numbers
	rows, shared, repeat        int
	temperature, topP, spread   float64
	noSharing                   bool
	stderr                      io.Writer
}

func (b *benchFlags) add(flags *pflag.FlagSet) {
	config.AddFlag(flags, config.Model)
	b.weights.add(flags)
	flags.StringVar(&b.weights.Write, "write", "", "write the shape to `FILE`, for other engines; without --mode nothing is measured")
	flags.StringVar(&b.mode, "mode", "", "measure `MODE`: prefill, decode or full (default decode)")
	flags.Var(&b.prompt, "prompt", "prompts of `N` tokens")
	flags.Var(&b.gen, "gen", "answers of `N` tokens; with --questions, the maximum")
	flags.Var(&b.batch, "batch", "`N` requests at a time")
	flags.Var(&b.context, "context", "put `N` tokens before each prompt; the time to compute them is not counted")
	flags.IntVar(&b.rows, "rows", 0, "with --mode full, send `N` requests in total; 0 for one per stream")
	flags.Float64Var(&b.temperature, "temperature", 0, "draw tokens at temperature `T`; 1 is what a request without settings gets, 0 chooses the likeliest token")
	flags.Float64Var(&b.topP, "top-p", 1, "draw from the likeliest tokens with a total probability of `P`")
	flags.Float64Var(&b.spread, "spread", 0, "with --mode full, vary the lengths of prompts and answers: log-normal, with medians --prompt and --gen and `SIGMA`, such as 1")
	flags.IntVar(&b.shared, "shared-prefix", 0, "begin all prompts of a run with the same `N` tokens")
	flags.BoolVar(&b.noSharing, "no-sharing", false, "compute every prompt in full, without sharing prefixes")
	flags.StringVar(&b.questions, "questions", "", "ask the questions of `FILE` (lines of JSON with \"question\") instead of random prompts")
	flags.IntVar(&b.repeat, "repeat", 3, "time `N` runs")
	flags.StringVar(&b.json, "json", "", "write the figures to `FILE`; - for stdout, without the table")
	flags.StringVar(&b.reportFile, "report", "", "measure answers and prompts, and write `FILE` with the machine, the versions and the figures, to show to others")
	addComputeFlags(flags)
	addCaptureFlag(flags, &b.capture)
	flags.StringVar(&b.roofline, "roofline", "", "measure nothing: predict the speed on `CHIP`, such as M5-Max")
}

func (b *benchFlags) run(cmd *cobra.Command, _ []string) (err error) {
	cfg, err := settings(cmd)
	if err != nil {
		return err
	}
	b.stderr = cmd.ErrOrStderr()
	if err := b.weights.either(cmd.Flags()); err != nil {
		return err
	}
	if b.reportFile != "" {
		return b.report(cmd, cfg)
	}
	cases, err := b.cases()
	if err != nil {
		return err
	}
	if b.roofline != "" {
		return b.predict(cmd, cfg)
	}
	if cmd.Flags().Changed("quant") && b.weights.Shape == "" {
		return usagef("--quant requires --shape: the weights of a --model are quantised already")
	}
	path, remove, err := b.weights.File(cfg.Model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if b.weights.Write != "" && b.mode == "" {
		cmd.PrintErrf("wrote %s\n", textfmt.Printable(path))
		return nil
	}
	records, err := b.measure(cmd.Context(), cfg, path, cases)
	if err != nil {
		return err
	}
	name := cmp.Or(b.json, fmt.Sprintf("bench-%s-%s.json", b.weights.Name(path), cases[0].Mode))
	return writeFigures(cmd, name, records, func() error { return bench.WriteTable(cmd.OutOrStdout(), records) })
}

func (b *benchFlags) cases() ([]bench.Case, error) {
	mode, err := bench.ParseMode(cmp.Or(b.mode, string(bench.Decode)))
	if err != nil {
		return nil, &usageError{err}
	}
	if b.rows > 0 && mode != bench.Full {
		return nil, usagef("--rows is for --mode full: the other modes send one request per stream")
	}
	prompts, gens, contexts := b.prompt, b.gen, b.context
	if mode == bench.Prefill {
		gens = bench.Numbers{1}
	}
	if b.spread != 0 && (mode != bench.Full || b.questions != "") {
		return nil, usagef("--spread is for --mode full with random prompts")
	}
	sampling := generation.Sampling{Temperature: b.temperature, TopP: b.topP}
	if err := sampling.Validate(1); err != nil {
		return nil, &usageError{err}
	}
	c := bench.Case{Mode: mode, Rows: b.rows, Shared: b.shared, Spread: b.spread, Sampling: sampling}
	if b.questions != "" {
		if c.Requests, err = bench.ReadQuestionsFile(b.questions, slices.Max(b.gen)); err != nil {
			return nil, err
		}
		prompts, gens, contexts = bench.Numbers{1}, bench.Numbers{2}, bench.Numbers{0}
	}
	if b.noSharing && slices.Max(contexts) > 0 {
		return nil, usagef("--context cannot be combined with --no-sharing, which turns prefix caching off")
	}
	return c.Combine(contexts, prompts, gens, b.batch), nil
}

// measure measures all cases. It opens one engine, whose context and number of sequences suffice
// for every case.
func (b *benchFlags) measure(ctx context.Context, cfg *config.Config, path string, cases []bench.Case) (records []bench.Record, err error) {
	opts := cfg.Engine
	opts.MaxSequences, opts.NoSharing, opts.Context = slices.Max(b.batch), b.noSharing, 0
	if b.questions == "" {
		for _, c := range cases {
			opts.Context = max(opts.Context, c.MaxTokens())
		}
	}
	threads := cmp.Or(cfg.Threads, runtime.GOMAXPROCS(0))
	bandwidth, err := bench.Bandwidth(threads)
	if err != nil {
		return nil, err
	}
	l := newLaunch(ctx, cfg, b.stderr)
	l.Capture = b.capture
	eng, err := l.Engine(path, opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	traffic, err := bench.ReadTraffic(path, opts.KV, eng.Info().StepTokens)
	if err != nil {
		return nil, err
	}
	runner, err := bench.New(ctx, eng, traffic, cmp.Or(l.Bandwidth(), bandwidth), b.repeat)
	if err != nil {
		return nil, err
	}
	runner.Count(l.Counts)
	for _, c := range cases {
		r, err := runner.Measure(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("measure %s with %d streams: %w", c.Mode, c.Batch, err)
		}
		r.Threads, r.KV, r.Draft = threads, strings.ToLower(opts.KV.String()), string(opts.Draft)
		records = append(records, r)
	}
	return records, nil
}

// writeFigures prints a table by calling table, and writes records as JSON to a file. If name is
// "-", it writes only JSON, to stdout.
func writeFigures(cmd *cobra.Command, name string, records any, table func() error) error {
	if name == stdio {
		return writeJSON(cmd.OutOrStdout(), records)
	}
	if err := table(); err != nil {
		return err
	}
	return writeTo(cmd, "figures", name, func(w io.Writer) error { return writeJSON(w, records) })
}

// writeTo writes a file and reports that it did. what names the content in messages.
func writeTo(cmd *cobra.Command, what, path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return fmt.Errorf("write %s to %s: %w", what, path, err)
	}
	cmd.PrintErrf("%s written to %s\n", what, textfmt.Printable(path))
	return nil
}
