package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/bench"
	"github.com/ingot-run/ingot/bench/shape"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
)

func newBench() *cobra.Command {
	b := benchFlags{
		prompt: counts{128}, gen: counts{64}, batch: counts{1}, context: counts{0},
		weights: weightFlags{quant: "q4_0"},
	}
	cmd := &cobra.Command{
		Use:   "bench --model MODEL | --shape NAME",
		Short: "Measure the engine's speed",
		Long: `Bench measures the speed of a model, or of random weights in a known model's shape, which needs no download:

  --mode prefill  prompts: prompt tokens per second, until every stream has generated its first token
  --mode decode   answers: generated tokens per second, summed over the streams, while all of them generate
  --mode full     whole requests: generated tokens per second, from the first request to the end of the last

Prompts are random tokens that differ between streams. Lists for --batch, --prompt, --gen and --context measure every
combination. After one warm-up run, --repeat runs are timed; the reported speed is their median.

The table goes to stdout, and the same figures as JSON to --json FILE, by default bench-MODEL-MODE.json in the working
directory. On a GPU they include dispatches, command buffers and waits per step. docs/benchmarks.md explains every figure.
"ingot bench kernels" measures single operations.

With --roofline it measures nothing, but predicts the speed on one of Apple's chips: an upper limit and the expected speed.
By default it predicts glm-4.7-flash and smollm-135m, decoding with 1, 16 and 64 streams after 2,048 tokens and a prompt of
2,048 tokens; --mode, --batch, --context and --prompt choose others. docs/metal.md explains the figures.`,
		Example: `  ingot bench --shape smollm-135m --mode decode --batch 1,8,32 --draft off
  ingot bench --model model.gguf --mode prefill --prompt 512 --context 0,2k,8k
  ingot bench --model model.gguf --mode full --batch 32 --rows 1000 --prompt 640 --shared-prefix 600 --repeat 1
  ingot bench --model models/tiny-glm.q8_0.gguf --mode decode --questions models/heldout.jsonl
  ingot bench --shape glm-4.7-flash:8 --quant q4_0 --write glm.gguf
  ingot bench --roofline M5-Max
  ingot bench --roofline M4 --shape qwen3-0.6b --mode decode --context 0,8k --batch 1,8`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings(cmd)
			if err != nil {
				return err
			}
			b.stderr = cmd.ErrOrStderr()
			return b.run(cmd, cfg)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	config.AddFlag(flags, config.Model)
	b.weights.add(flags)
	flags.StringVar(&b.weights.write, "write", "", "write the shape to `FILE`, for other engines; without --mode nothing is measured")
	flags.StringVar(&b.mode, "mode", "", "measure `MODE`: prefill, decode or full (default decode)")
	flags.Var(&b.prompt, "prompt", "prompts of `N` tokens")
	flags.Var(&b.gen, "gen", "answers of `N` tokens; with --questions, the maximum")
	flags.Var(&b.batch, "batch", "`N` requests at a time")
	flags.Var(&b.context, "context", "put `N` tokens before each prompt; the time to compute them is not counted")
	flags.IntVar(&b.rows, "rows", 0, "with --mode full, send `N` requests in total; 0 for one per stream")
	flags.IntVar(&b.shared, "shared-prefix", 0, "begin all prompts of a run with the same `N` tokens")
	flags.BoolVar(&b.noSharing, "no-sharing", false, "compute every prompt in full, without sharing prefixes")
	flags.StringVar(&b.questions, "questions", "", "ask the questions of `FILE` (lines of JSON with \"question\") instead of random prompts")
	flags.IntVar(&b.repeat, "repeat", 3, "time `N` runs")
	flags.StringVar(&b.json, "json", "", "write the figures to `FILE`; - for stdout, without the table")
	addComputeFlags(flags)
	addCaptureFlag(flags, &b.capture)
	flags.StringVar(&b.roofline, "roofline", "", "measure nothing: predict the speed on `CHIP`, such as M5-Max")
	cmd.AddCommand(newBenchKernels())
	return cmd
}

// benchFlags has the flags of the command.
type benchFlags struct {
	weights                     weightFlags
	mode, questions, json       string
	capture, roofline           string
	prompt, gen, batch, context counts
	rows, shared, repeat        int
	noSharing                   bool
	stderr                      io.Writer
}

// weightFlags has the flags that select random weights in a model's shape, instead of a model.
type weightFlags struct{ shape, quant, write string }

func (w *weightFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&w.shape, "shape", "", "measure random weights in the shape of `NAME`: "+shape.Names())
	flags.StringVar(&w.quant, "quant", w.quant, "quantise the shape's weights to `TYPE`, such as q4_0, q8_0, q4_k or f16")
}

// either returns an error if the command line has flags for both a model and a shape. A shape on the command line takes precedence over a
// model from the environment or the config file.
func (w *weightFlags) either(flags *pflag.FlagSet) error {
	if flags.Changed(string(config.Model)) && w.shape != "" {
		return usagef("--model and --shape cannot be combined: give one")
	}
	return nil
}

func (b *benchFlags) run(cmd *cobra.Command, cfg *config.Config) (err error) {
	if err := b.weights.either(cmd.Flags()); err != nil {
		return err
	}
	cases, err := b.cases()
	if err != nil {
		return err
	}
	if b.roofline != "" {
		return b.predict(cmd, cfg)
	}
	if cmd.Flags().Changed("quant") && b.weights.shape == "" {
		return usagef("--quant requires --shape: the weights of a --model are quantised already")
	}
	path, remove, err := b.weights.file(cfg.Model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if b.weights.write != "" && b.mode == "" {
		cmd.PrintErrf("wrote %s\n", path)
		return nil
	}
	records, err := b.measure(cmd.Context(), cfg, path, cases)
	if err != nil {
		return err
	}
	name := cmp.Or(b.json, fmt.Sprintf("bench-%s-%s.json", b.weights.name(path), cases[0].Mode))
	return report(cmd, name, records, func() error { return bench.WriteTable(cmd.OutOrStdout(), records) })
}

// cases returns one benchmark case for each combination of the values of the list flags.
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
		gens = counts{1}
	}
	var asked []generation.Request
	if b.questions != "" {
		if asked, err = readQuestions(b.questions, slices.Max(b.gen)); err != nil {
			return nil, err
		}
		prompts, gens, contexts = counts{1}, counts{2}, counts{0}
	}
	if b.noSharing && slices.Max(contexts) > 0 {
		return nil, usagef("--context cannot be combined with --no-sharing, which turns prefix caching off")
	}
	var cases []bench.Case
	for _, context := range contexts {
		for _, prompt := range prompts {
			for _, gen := range gens {
				for _, batch := range b.batch {
					cases = append(cases, bench.Case{
						Mode: mode, Batch: batch, Rows: b.rows, Prompt: prompt, Gen: gen, Context: context, Shared: b.shared, Requests: asked,
					})
				}
			}
		}
	}
	return cases, nil
}

func readQuestions(path string, gen int) ([]generation.Request, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read questions: %w", err)
	}
	defer f.Close() //nolint:errcheck // the file was only read
	asked, err := bench.ReadQuestions(f, gen)
	if err != nil {
		return nil, fmt.Errorf("read questions of %s: %w", path, err)
	}
	return asked, nil
}

// measure measures all cases. It opens one engine, whose context and number of sequences suffice for every case.
func (b *benchFlags) measure(ctx context.Context, cfg *config.Config, path string, cases []bench.Case) (records []bench.Record, err error) {
	opts := cfg.Engine
	opts.MaxSequences, opts.NoSharing, opts.Context = slices.Max(b.batch), b.noSharing, 0
	if b.questions == "" {
		for _, c := range cases {
			opts.Context = max(opts.Context, c.Context+c.Prompt+c.Gen)
		}
	}
	traffic, err := readTraffic(path, opts.KV, bench.StepTokens(opts.MaxSequences))
	if err != nil {
		return nil, err
	}
	threads := cmp.Or(cfg.Threads, runtime.GOMAXPROCS(0))
	bandwidth, err := bench.Bandwidth(threads)
	if err != nil {
		return nil, err
	}
	l := newLaunch(cfg, b.stderr)
	l.capture = b.capture
	eng, err := l.engine(path, opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	if l.device != nil && l.device.Info().Bandwidth > 0 {
		bandwidth = l.device.Info().Bandwidth
	}
	runner, err := bench.New(ctx, eng, traffic, bandwidth, b.repeat)
	if err != nil {
		return nil, err
	}
	runner.Count(l.counts)
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

func readTraffic(path string, kv gguf.Type, stepTokens int) (bench.Traffic, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return bench.Traffic{}, err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	return bench.NewTraffic(f, kv, stepTokens)
}

// name returns the name of the shape or model, for use in a file's name.
func (w *weightFlags) name(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".gguf")
	if w.shape != "" {
		name = w.shape + "-" + strings.ToLower(w.quant)
	}
	return strings.ReplaceAll(name, ":", "-")
}

// report calls table, which prints a table, and writes records as JSON to the file with the given name. If name is "-", it only writes the
// JSON, to stdout.
func report(cmd *cobra.Command, name string, records any, table func() error) error {
	if name == stdio {
		return writeJSON(cmd.OutOrStdout(), records)
	}
	if err := table(); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	if err := errors.Join(writeJSON(f, records), f.Close()); err != nil {
		return fmt.Errorf("write figures to %s: %w", name, err)
	}
	cmd.PrintErrf("figures written to %s\n", name)
	return nil
}

// counts is the value of a flag: a list of whole numbers, in which 2k means 2048.
type counts []int

func (c *counts) String() string {
	texts := make([]string, len(*c))
	for i, n := range *c {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ",")
}

func (c *counts) Set(s string) error {
	*c = nil
	for text := range strings.SplitSeq(s, ",") {
		digits, thousands := strings.CutSuffix(text, "k")
		n, err := strconv.Atoi(digits)
		if err != nil || n < 0 || n > 1<<24 {
			return fmt.Errorf("%q is not allowed; give whole numbers up to %d, such as 256 or 2k, separated by commas", text, 1<<24)
		}
		if thousands {
			n *= 1024
		}
		*c = append(*c, n)
	}
	return nil
}

func (c *counts) Type() string { return "numbers" }
