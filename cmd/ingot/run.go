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
	"github.com/ingot-run/ingot/config/launch"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/prompt"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/hub"
	"github.com/ingot-run/ingot/internal/progress"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/worker/local"
)

type runCommand struct {
	from            inputFlags
	to              outputFlags
	unknown         unknownFlag
	limit           failLimit
	mixModels       bool
	capture, points string
}

func newRun() *cobra.Command {
	var c runCommand
	cmd := &cobra.Command{
		Use:   "run IN... -o OUT --model MODEL",
		Short: "Answer a file of prompts on this machine",
		Args:  atLeast("IN"),
		RunE:  c.run,
	}
	flags := cmd.Flags()
	c.to.add(flags, "answers")
	c.from.add(flags)
	c.unknown.add(flags, "`ACTION` for rows with unknown fields or the name of another model: error (an error line) or ignore")
	c.limit.add(flags)
	flags.BoolVar(&c.mixModels, "mix-models", false, "continue an OUT that has answers of another model")
	addEngineFlags(flags)
	config.AllowList(flags, config.Model, "answer with `MODEL`, a GGUF file or a pulled model's name; several, as MODEL or ALIAS=MODEL, answer one after another")
	addCaptureFlag(flags, &c.capture)
	flags.StringVar(&c.points, "checkpoints", "", "print sums and norms of the forward pass at `POINTS`: all, or LAYER[:STAGE],...")
	section(flags, debugging, "checkpoints")
	return cmd
}

func (c *runCommand) run(cmd *cobra.Command, args []string) error {
	if c.from.dryRun != 0 {
		return c.dryRun(cmd, args)
	}
	cfg, err := settings(cmd)
	if err != nil {
		return err
	}
	if err := cfg.Require(config.Model); err != nil {
		cmd.PrintErr(suggestions())
		return &usageError{err}
	}
	r := runner{cmd: cmd, cfg: cfg, in: args, from: &c.from, mixModels: c.mixModels, capture: c.capture}
	if r.ignoreUnknown, err = c.unknown.ignores(); err != nil {
		return err
	}
	if r.out, err = c.to.open(cmd); err != nil {
		return err
	}
	form, err := c.from.form.constraint(c.from.given)
	if err != nil {
		return &usageError{err}
	}
	if form != nil && form.Schema != "" {
		c.to.fieldsOf(form.Schema, r.out)
	}
	r.out.Table.Selected = c.from.choose != (table.Selection{}) // OUT.answers.jsonl may have rows that another run selected
	if r.models, err = runModels(cfg.Model); err != nil {
		return err
	}
	if c.points != "" {
		if r.points, err = compute.ParseCheckpoints(c.points); err != nil {
			return usagef("--checkpoints %q: %w", c.points, err)
		}
	}
	sum, err := r.run(cmd.Context())
	if err != nil {
		return err
	}
	return c.limit.check(sum.Failed+sum.KeptFailed+r.out.Unparsed, sum.Kept+sum.Done+sum.Failed)
}

func (c *runCommand) dryRun(cmd *cobra.Command, args []string) (err error) {
	ignore, err := c.unknown.ignores()
	if err != nil {
		return err
	}
	in, err := c.from.open(cmd, args)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // the file was only read
	cfg, err := settings(cmd)
	if err != nil {
		return err
	}
	if cfg.Model == "" {
		return printRequests(cmd, in, ignore, func(rows.Row) (int, *openai.Error) { return 0, nil })
	}
	models, err := runModels(cfg.Model)
	if err != nil {
		return err
	}
	eng, err := newLaunch(cfg, io.Discard).Engine(models[0].Model, launch.EngineOptions(cfg))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	return printRequests(cmd, in, ignore, func(row rows.Row) (int, *openai.Error) { return promptTokens(cmd.Context(), eng, row) })
}

// runModels returns the models of --model. A single model has no alias.
func runModels(lines string) ([]hub.Aliased, error) {
	if !strings.Contains(lines, "\n") {
		return []hub.Aliased{{Model: lines}}, nil
	}
	return aliasedModels(lines)
}

type runner struct {
	cmd           *cobra.Command
	cfg           *config.Config
	in            []string
	from          *inputFlags
	out           *export.Output
	models        []hub.Aliased
	mixModels     bool
	capture       string
	ignoreUnknown bool
	points        *compute.Checkpoints // nil if none are printed
}

// run answers the rows with each model, makes OUT, and reports the outcome. Failed rows are not an
// error.
func (r *runner) run(ctx context.Context) (sum local.Summary, err error) {
	in, err := r.from.open(r.cmd, r.in)
	if err != nil {
		return sum, err
	}
	defer in.Close()    //nolint:errcheck // the file was only read
	defer r.out.Close() //nolint:errcheck // a temporary folder
	if err := r.check(in); err != nil {
		return sum, err
	}
	names := make([]string, len(r.models))
	for i, m := range r.models {
		names[i] = m.Alias
	}
	if err := r.out.Guard(names...); err != nil {
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
	if err := r.out.Finish(ctx, in.Answered, names...); err != nil {
		if ctx.Err() != nil {
			return sum, r.out.Stopped()
		}
		return sum, in.Hint(err)
	}
	if r.points != nil {
		if err := r.points.Missing(); err != nil {
			return sum, fmt.Errorf("--checkpoints: %w", err)
		}
	}
	return sum, nil
}

// check returns an error if OUT cannot be made from the input. It is called before the first row is
// answered.
func (r *runner) check(in *prompt.Input) error {
	if err := refuseInput(r.out, in.Table.Paths()); err != nil {
		return err
	}
	if len(r.models) == 1 && r.out.Appends() {
		return nil
	}
	if !in.Table.Seekable() {
		return usagef("IN is read again for a table, for a compressed OUT and for each further model, but a pipe can be read only once: write IN to a file first")
	}
	return checkColumns(r.out, in.Table.Records)
}

func (r *runner) runModel(ctx context.Context, in *prompt.Input, m hub.Aliased) (sum local.Summary, err error) {
	out, err := r.out.Open(ctx, m.Alias, local.Batch)
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
	title := r.title(m)
	r.cmd.PrintErrln(title + summary(sum))
	if text := emptyAnswers(sum.Empty, sum.Done); text != "" {
		r.cmd.PrintErrln(title + text)
	}
	if codes := out.Codes(); len(codes) > 0 {
		r.cmd.PrintErrln(title + "errors: " + errorsByCode(codes))
	}
	if err != nil {
		return sum, r.out.Stopped()
	}
	return sum, nil
}

// title returns the beginning of a message about a model: its alias if there are several models.
func (r *runner) title(m hub.Aliased) string {
	if m.Alias == "" {
		return ""
	}
	return textfmt.Printable(m.Alias) + ": "
}

const loadingModel = "loading the model"

// answer loads the model and answers the rows. It shows the progress, unless --checkpoints prints
// values of the forward pass.
func (r *runner) answer(ctx context.Context, in *prompt.Input, m hub.Aliased, out *rows.Output) (sum local.Summary, err error) {
	stderr := r.cmd.ErrOrStderr()
	var show func(local.Progress)
	var trace func(compute.Checkpoint)
	if r.points != nil {
		trace = func(p compute.Checkpoint) { r.points.Print(stderr, p) }
	} else {
		d := newDisplay(stderr)
		defer d.Close()
		d.Phase(loadingModel)
		stderr, show = d, func(p local.Progress) {
			d.Show(progress.Counts{Total: p.Total, Before: p.Kept, Done: p.Done, Failed: p.Failed, Tokens: p.CompletionTokens})
		}
	}
	l := newLaunch(r.cfg, stderr)
	l.Log, l.Capture = newLogger(r.cfg, r.logLevel(), stderr), r.capture
	opts := launch.EngineOptions(r.cfg)
	opts.Trace = trace
	eng, err := l.Engine(m.Model, opts)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	var names, others []string
	if m.Alias != "" {
		names = []string{m.Alias}
		for _, other := range r.models {
			if other.Alias != m.Alias {
				others = append(others, other.Alias)
			}
		}
	}
	sum, err = local.Run(ctx, eng, in, out, local.Options{
		Continued: r.from.warnOfContinued(stderr, r.title(m)),
		Alias:     m.Alias, Models: names, Others: others,
		Format: in.Format, RecordSum: in.RecordSum, IgnoreUnknown: r.ignoreUnknown, MixModels: r.mixModels, Concurrency: r.cfg.Concurrency, Version: programVersion(),
		Progress: show, Logger: newLogger(r.cfg, r.logLevel(), stderr),
	})
	if err != nil {
		err = fmt.Errorf("run %s: %w", strings.Join(r.in, " "), in.Hint(err))
	}
	return sum, err
}

// logLevel returns the level of the log. It raises the default level, info, to warn: the summary
// already has what the worker logs as info.
func (r *runner) logLevel() slog.Level {
	if r.cfg.LogLevel == slog.LevelInfo {
		return slog.LevelWarn
	}
	return r.cfg.LogLevel
}

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
