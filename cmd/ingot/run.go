package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/worker/local"
)

func newRun() *cobra.Command {
	var unknown, points, capture string
	var from inputFlags
	var to outputFlags
	var limit failLimit
	var mix bool
	cmd := &cobra.Command{
		Use:   "run IN... -o OUT --model MODEL",
		Short: "Answer a file of prompts on this machine",
		Long: `Run answers the rows of IN with a model and writes the answers to OUT as they finish. IN can be - for stdin, OUT - for
stdout. "ingot show" prints OUT for reading.

Formats of IN:` + formatsHelp() + `

A table needs --prompt, unless its columns are those of a common kind of data set. Several files, and patterns such as
'data/*.csv.gz', are read as one; gzip and zstd are recognised. Row defaults fill fields that a row leaves out.

OUT has lines of OpenAI's Batch API. It is a table if its name ends in .csv, .tsv or .parquet, or with --output-format
simple (flat JSON Lines). A table has the columns of IN and those of the answers, in the order of IN. It is made when all
rows are answered; until then, and afterwards, OUT.answers.jsonl has the answers. Filters drop answers and failed rows
from a table.

` + columnsHelp + `

Several models answer one after another; the column model shows which one gave an answer. If a row names a model, only
that model answers it.

A row that fails becomes an error line in OUT. The exit code is 3 if every row failed; --fail-on-error sets another limit.
A run can be interrupted at any time: the same command continues it and keeps the answers in OUT. It refuses to continue
with a different model, unless --mix-models is given.`,
		Example: `  ingot run prompts.jsonl -o answers.jsonl --model model.gguf
  ingot run questions.txt -o answers.jsonl --model model.gguf --concurrency 32 --context 2048
  ingot run prompts.jsonl -o answers.jsonl --model model.gguf --fail-on-error=5%
  ingot run 'data/*.csv.gz' -o answers.csv --model model.gguf --prompt 'Translate: {{.text}}' --max-tokens 200
  ingot run questions.parquet --template prompt.txt --where 'lang == "de"' --dry-run 3
  ingot run reviews.csv -o labels.csv --model small.gguf --model large.gguf --prompt 'Positive or negative? {{.review}}'
  ingot run topics.csv -o data.parquet --model model.gguf --prompt 'Ask about {{.topic}}.' --n 5 --keep-finish stop --unique response
  echo 'What is the capital of Kenya?' | ingot run - -o - --model model.gguf
  ingot run one.jsonl -o - --model model.gguf --checkpoints 0,3:attn_out`,
		Args: atLeast("IN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if from.dryRun != 0 {
				return dryRun(cmd, &from, args, unknown)
			}
			cfg, err := settings(cmd)
			if err != nil {
				return err
			}
			if err := requireModel(cmd, cfg); err != nil {
				return err
			}
			r := runner{cmd: cmd, cfg: cfg, in: args, from: &from, mixModels: mix, capture: capture}
			if r.ignoreUnknown, err = ignoresUnknown(unknown); err != nil {
				return err
			}
			if r.out, err = to.options(); err != nil {
				return err
			}
			r.out.table.Selected = true // OUT.answers.jsonl may have rows that another run selected
			if r.models, err = runModels(cfg.Model); err != nil {
				return err
			}
			if points != "" {
				if r.points, err = parseCheckpoints(points); err != nil {
					return err
				}
			}
			sum, err := r.run(cmd.Context())
			if err != nil {
				return err
			}
			return limit.check(sum.Failed+sum.KeptFailed, sum.Kept+sum.Done+sum.Failed)
		},
	}
	to.add(cmd.Flags(), "answers")
	from.add(cmd.Flags())
	addUnknownFlag(cmd.Flags(), &unknown, "`ACTION` for rows with unknown fields or the name of another model: error (an error line) or ignore")
	addFailFlag(cmd.Flags(), &limit)
	cmd.Flags().BoolVar(&mix, "mix-models", false, "continue an OUT that has answers of another model")
	addEngineFlags(cmd.Flags())
	config.AllowList(cmd.Flags(), config.Model, "answer with `MODEL`, a GGUF file or a pulled model's name; several, as MODEL or ALIAS=MODEL, answer one after another")
	addCaptureFlag(cmd.Flags(), &capture)
	cmd.Flags().StringVar(&points, "checkpoints", "",
		"print sums and norms of the forward pass at `POINTS`: all, or LAYER[:STAGE],...")
	section(cmd.Flags(), debugging, "checkpoints")
	return cmd
}

// runModels returns the models of --model. A single model has no alias.
func runModels(lines string) ([]namedModel, error) {
	if !strings.Contains(lines, "\n") {
		return []namedModel{{file: lines}}, nil
	}
	return namedModels(lines)
}

// runner is one execution of "ingot run", with its settings.
type runner struct {
	cmd           *cobra.Command
	cfg           *config.Config
	in            []string
	from          *inputFlags
	out           *output
	models        []namedModel
	mixModels     bool
	capture       string
	ignoreUnknown bool
	points        *checkpoints // nil if none are printed
}

// run answers the rows with each model, makes OUT, and reports the outcome. Failed rows are not an error.
func (r *runner) run(ctx context.Context) (sum local.Summary, err error) {
	in, err := r.from.open(r.cmd, r.in)
	if err != nil {
		return sum, err
	}
	defer in.Close()    //nolint:errcheck // the file was only read
	defer r.out.clean() //nolint:errcheck // a temporary folder
	if err := r.check(in); err != nil {
		return sum, err
	}
	names := make([]string, len(r.models))
	for i, m := range r.models {
		names[i] = m.alias
	}
	if err := r.out.guard(names); err != nil {
		return sum, err
	}
	for i, m := range r.models {
		if i > 0 {
			if _, err := in.Seek(0, io.SeekStart); err != nil {
				return sum, err
			}
		}
		one, err := r.runModel(ctx, in, m)
		sum.Done += one.Done
		sum.Failed += one.Failed
		sum.Kept += one.Kept
		sum.KeptFailed += one.KeptFailed
		if err != nil {
			return sum, err
		}
	}
	if err := r.out.finish(r.cmd, names, in.Records); err != nil {
		if ctx.Err() != nil {
			return sum, r.out.stopped()
		}
		return sum, err
	}
	if r.points != nil {
		return sum, r.points.missing()
	}
	return sum, nil
}

// check returns an error if OUT cannot be made from the input. It is called before the first row is answered.
func (r *runner) check(in *input) error {
	for _, path := range []string{r.out.path, r.out.failed} {
		if err := in.refuse(path); err != nil {
			return err
		}
	}
	if len(r.models) == 1 && r.out.direct() {
		return nil
	}
	if !in.table.Seekable() {
		return usagef("IN is read again for a table, for a compressed OUT and for each further model, but a pipe can be read only once: write IN to a file first")
	}
	return r.out.check(in.Records)
}

// runModel answers the rows with a model and reports the outcome.
func (r *runner) runModel(ctx context.Context, in *input, m namedModel) (sum local.Summary, err error) {
	out, err := r.out.open(r.cmd, m.alias, local.Batch)
	if err != nil {
		return sum, err
	}
	defer func() {
		if closeErr := out.Close(); err == nil { // answering may have failed with the same error
			err = closeErr
		}
	}()
	sum, err = r.answer(ctx, in, m, out)
	if err != nil && ctx.Err() == nil {
		return sum, err
	}
	title := ""
	if m.alias != "" {
		title = printable(m.alias) + ": "
	}
	r.cmd.PrintErrln(title + summary(sum))
	if codes := out.Codes(); len(codes) > 0 {
		r.cmd.PrintErrln(title + "errors: " + errorsByCode(codes))
	}
	if err != nil {
		return sum, r.out.stopped()
	}
	return sum, nil
}

// loadingModel is the progress shown before the first row.
const loadingModel = "loading the model"

// answer loads the model and answers the rows. It shows the progress, unless --checkpoints prints values of the forward pass.
func (r *runner) answer(ctx context.Context, in *input, m namedModel, out *rows.Output) (sum local.Summary, err error) {
	stderr := r.cmd.ErrOrStderr()
	var show func(local.Progress)
	var trace func(compute.Checkpoint)
	if r.points != nil {
		trace = r.points.printer(stderr)
	} else {
		d := newDisplay(stderr)
		defer d.Close()
		d.Phase(loadingModel)
		stderr, show = d, func(p local.Progress) { d.Show(runCounts(p)) }
	}
	l := newLaunch(r.cfg, stderr)
	l.level, l.capture = r.logLevel(), r.capture
	opts := engineOptions(r.cfg)
	opts.Trace = trace
	eng, err := l.engine(m.file, opts)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	var names, others []string
	if m.alias != "" {
		names = []string{m.alias}
		for _, other := range r.models {
			if other.alias != m.alias {
				others = append(others, other.alias)
			}
		}
	}
	sum, err = local.Run(ctx, eng, in, out, local.Options{
		Models: names, Others: others,
		Format: in.format, IgnoreUnknown: r.ignoreUnknown, MixModels: r.mixModels, Concurrency: r.cfg.Concurrency, Version: programVersion(),
		Progress: show, Logger: newLogger(r.cfg, r.logLevel(), stderr),
	})
	if err != nil {
		err = fmt.Errorf("run %s: %w", strings.Join(r.in, " "), in.hint(err))
	}
	return sum, err
}

// logLevel returns the level of the log. It raises the default level, info, to warn: the summary already has what the worker logs as info.
func (r *runner) logLevel() slog.Level {
	if r.cfg.LogLevel == slog.LevelInfo {
		return slog.LevelWarn
	}
	return r.cfg.LogLevel
}

// summary describes a finished run in one line.
func summary(s local.Summary) string {
	text := countRows(s.Done+s.Failed) + " done"
	if s.Failed > 0 {
		text += fmt.Sprintf(" (%d failed)", s.Failed)
	}
	if s.Kept > 0 {
		text += fmt.Sprintf(", %d kept", s.Kept)
		if s.KeptFailed > 0 {
			text += fmt.Sprintf(" (%d failed)", s.KeptFailed)
		}
		if s.KeptByOtherModels > 0 {
			text += fmt.Sprintf(" (%d by another model)", s.KeptByOtherModels)
		}
	}
	return text + ", " + tokenFigures(s.Done+s.Failed, s.PromptTokens, s.CompletionTokens, s.Elapsed)
}
