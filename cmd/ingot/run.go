package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	limit           rows.FailLimit
	again           againFlags
	report          summaryFlags
	capture, points string
}

// againFlags say what a run does with the results that OUT has, and when it gives up.
type againFlags struct {
	mixModels   bool
	retryFailed bool
	overwrite   bool
	failFast    int
}

func (a *againFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&a.retryFailed, "retry-failed", false, "answer the failed rows of OUT again")
	flags.BoolVar(&a.overwrite, "overwrite", false, "answer rows of OUT again that have changed since, and replace a table that has more rows")
	flags.BoolVar(&a.mixModels, "mix-models", false, "continue an OUT that has answers of another model")
	flags.IntVar(&a.failFast, "fail-fast", defaultFailFast, "stop if the first `N` rows all fail with one code; 0 for never")
}

const defaultFailFast = 20

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
	columnsFrom := flags.Lookup("columns-from")
	columnsFrom.Usage = strings.Replace(columnsFrom.Usage, "(default none)", "(default json with a --schema of objects, else none)", 1)
	c.from.add(flags)
	c.unknown.add(flags, "`ACTION` for rows with unknown fields or the name of another model: error (an error line) or ignore")
	addFailLimit(flags, &c.limit)
	c.again.add(flags)
	c.report.add(flags, "")
	addEngineFlags(flags)
	config.AddFlag(flags, config.Sampling)
	config.AllowList(flags, config.Model, "answer with `MODEL`, a GGUF file or a pulled model's name; several, as MODEL or ALIAS=MODEL, answer one after another")
	addCaptureFlag(flags, &c.capture)
	flags.StringVar(&c.points, "checkpoints", "", "print sums and norms of the forward pass at `POINTS`: all, or LAYER[:STAGE],...")
	section(flags, debugging, "checkpoints")
	return cmd
}

func (c *runCommand) run(cmd *cobra.Command, args []string) error {
	c.report.begin(cmd)
	if err := c.report.checkStdout(c.to.Path); err != nil {
		return err
	}
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
	if c.again.failFast < 0 {
		return usagef("--fail-fast: %d is negative: give a number of rows, or 0 to never stop", c.again.failFast)
	}
	r := runner{cmd: cmd, cfg: cfg, in: args, from: &c.from, again: c.again, capture: c.capture}
	if r.ignoreUnknown, err = c.unknown.ignores(); err != nil {
		return err
	}
	if r.out, err = c.to.open(cmd); err != nil {
		return err
	}
	form, err := c.from.form.Read(c.from.given)
	if err != nil {
		return &usageError{err}
	}
	if form != nil && form.Schema != "" {
		c.to.UseSchema(form.Schema, r.out)
	}
	r.out.Table.Selected = c.from.file.Select != (table.Selection{}) // OUT.answers.jsonl may have rows that another run selected
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
	r.summary.Out = c.to.Path
	r.summary.addUnparsed(r.out.Unparsed)
	if err := c.report.write(cmd, r.summary); err != nil {
		return err
	}
	return c.limit.Check(sum.Failed+sum.KeptFailed+r.out.Unparsed, sum.Kept+sum.Done+sum.Failed)
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
	noteNoRows(cmd, in)
	cfg, err := settings(cmd)
	if err != nil {
		return err
	}
	if cfg.Model == "" {
		return printRequests(cmd, in, ignore, nil)
	}
	models, err := runModels(cfg.Model)
	if err != nil {
		return err
	}
	eng, err := newLaunch(cmd.Context(), cfg, io.Discard).Engine(models[0].Model, launch.EngineOptions(cfg))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	return printRequests(cmd, in, ignore, func(row rows.Row) (int, *openai.Error) { return local.PromptTokens(cmd.Context(), eng, row) })
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
	again         againFlags
	capture       string
	ignoreUnknown bool
	points        *compute.Checkpoints // nil if none are printed
	summary       runSummary
	loading       time.Duration // time for which the last model was loaded; 0 if none was needed
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
	r.out.Overwrite = r.again.overwrite
	if err := r.out.Guard(names...); err != nil {
		return sum, err
	}
	for _, m := range r.models { // before the input is read as a whole
		if _, err := launch.ModelFile(m.Model); err != nil {
			return sum, err
		}
	}
	noteNoRows(r.cmd, in)
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
	if err := r.out.CheckInputs(in.Table.Paths()); err != nil {
		return err
	}
	if len(r.models) == 1 && r.out.Appends() {
		return nil
	}
	if !in.Table.Seekable() {
		return usagef("IN is read again for a table, for a compressed OUT and for each further model, but a pipe can be read only once: write IN to a file first")
	}
	return r.out.CheckColumns(in.Table.Records)
}

func (r *runner) runModel(ctx context.Context, in *prompt.Input, m hub.Aliased) (sum local.Summary, err error) {
	out, err := r.out.Open(ctx, m.Alias, local.Batch)
	if err != nil {
		return sum, err
	}
	defer func() {
		if err != nil {
			_ = out.Abandon() // answering may have failed with the same error
			return
		}
		err = out.Close()
	}()
	sum, err = r.answer(ctx, in, m, out)
	var stopped *local.FailFastError
	if err != nil && ctx.Err() == nil && !errors.As(err, &stopped) {
		return sum, err
	}
	title := r.title(m)
	r.summary.add(sum, out.Codes(), r.loading)
	r.cmd.PrintErrln(title + summary(sum) + r.loaded())
	if text := rows.WarnOfEmpty(sum.Empty, sum.Done); text != "" {
		r.cmd.PrintErrln(title + text)
	}
	printFailures(r.cmd, title, out.Codes())
	switch {
	case stopped != nil:
		return sum, fmt.Errorf("%w: correct the cause and run the command again, or give --fail-fast 0 to answer the other rows anyway", stopped)
	case err != nil:
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

// loadingText names the size of the model that is loaded, if it is known.
func loadingText(name string) string {
	path, err := launch.ModelFile(name)
	if err != nil {
		return loadingModel
	}
	info, err := os.Stat(path)
	if err != nil {
		return loadingModel
	}
	return fmt.Sprintf("%s (%s)", loadingModel, humanize.Bytes(uint64(info.Size())))
}

// loadingShare returns a function that shows which share of a model is loaded.
func loadingShare(d *progress.Display, text string) func(done, total int64) {
	last := int64(-1)
	return func(done, total int64) {
		if share := 100 * done / max(total, 1); share > last {
			last = share
			d.Phase(fmt.Sprintf("%s, %d%%", text, share))
		}
	}
}

// answer loads the model and answers the rows. It shows the progress, unless --checkpoints prints
// values of the forward pass.
func (r *runner) answer(ctx context.Context, in *prompt.Input, m hub.Aliased, out *rows.Output) (sum local.Summary, err error) {
	stderr := r.cmd.ErrOrStderr()
	var show func(local.Progress)
	var trace func(compute.Checkpoint)
	var loading func(done, total int64)
	if r.points != nil {
		trace = func(p compute.Checkpoint) { r.points.Print(stderr, p) }
	} else {
		d := newDisplay(stderr)
		defer d.Close()
		end := r.from.notes.Divert(d)
		defer end()
		text := loadingText(m.Model)
		d.Phase(text)
		loading = loadingShare(d, text)
		stderr, show = d, func(p local.Progress) {
			d.Show(progress.Counts{Total: p.Total, Before: p.Kept, Done: p.Done, Failed: p.Failed, Tokens: p.Generated})
		}
	}
	var failedToo map[int]bool
	if r.again.retryFailed && in.Table.Seekable() {
		if failedToo, err = r.out.FailedAnswers(ctx, m.Alias, in.Answered); err != nil {
			return sum, in.Hint(err)
		}
	}
	prepared, err := local.Prepare(in, out, local.PrepareOptions{
		Format: in.Format, RecordSum: in.RecordSum, RetryFailed: r.again.retryFailed, FailedToo: failedToo, Overwrite: r.again.overwrite, Selected: r.out.Table.Selected, Missing: r.missing,
	})
	if err != nil {
		return sum, r.refused(in, err)
	}
	if prepared.Known && prepared.Rows == 0 {
		return sum, nil
	}
	l := newLaunch(ctx, r.cfg, stderr)
	l.Log, l.Capture = newLogger(r.cfg, r.logLevel(), stderr), r.capture
	l.Tuner.Log = l.Log
	opts := launch.EngineOptions(r.cfg)
	opts.Trace, opts.Loading = trace, loading
	start := time.Now()
	eng, err := l.Engine(m.Model, opts)
	if err != nil {
		return sum, err
	}
	r.loading = time.Since(start)
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
		Prepared: &prepared, Overwrite: r.again.overwrite, FailFast: r.again.failFast,
		Continued: r.from.warnOfContinued(stderr, r.title(m)), NoTemplate: r.from.warnOfNoTemplate(stderr, r.title(m)),
		Alias: m.Alias, Models: names, Others: others,
		Format: in.Format, RecordSum: in.RecordSum, IgnoreUnknown: r.ignoreUnknown, MixModels: r.again.mixModels, Concurrency: r.cfg.Concurrency, Version: programVersion(),
		Progress: show, Logger: newLogger(r.cfg, r.logLevel(), stderr),
	})
	if err != nil {
		err = r.refused(in, err)
	}
	return sum, err
}

// missing is called with the number of results in OUT of rows that the input does not have. It
// returns an error if they show that the input is another one, or if a table would lose them.
func (r *runner) missing(results int) error {
	if r.out.Appends() && len(r.models) == 1 {
		return nil // lines stay
	}
	if !r.out.Table.Selected {
		return fmt.Errorf("%s was %w: it has %s that the input does not have: choose another OUT (-o), or give --overwrite to drop them",
			r.out.Path, rows.ErrOtherFile, textfmt.Count(results, "answered row"))
	}
	if !r.out.Exists() {
		return nil // the results are of a run that did not end
	}
	return fmt.Errorf("%s has %s that this command leaves out (--where, --skip, --sample or --limit): "+
		"choose another OUT (-o), or give --overwrite to write it without them", r.out.Path, textfmt.Count(results, "answered row"))
}

// refused adds the command's input and a remedy to an error of answering rows.
func (r *runner) refused(in *prompt.Input, err error) error {
	var changed *rows.ChangedError
	switch {
	case errors.As(err, &changed):
		err = fmt.Errorf("%w: choose another OUT (-o), or give --overwrite to answer these rows again", in.Hint(err))
	case errors.Is(err, local.ErrNoTemplate):
		err = fmt.Errorf("%w: %s", err, prompt.AdviseNoTemplate(r.from.makesMessages()))
	default:
		err = in.Hint(err)
	}
	return fmt.Errorf("run %s: %w", strings.Join(r.in, " "), err)
}

// logLevel returns the level of the log. It raises the default level, info, to warn: the summary
// already has what the worker logs as info.
func (r *runner) logLevel() slog.Level {
	if r.cfg.LogLevel == slog.LevelInfo {
		return slog.LevelWarn
	}
	return r.cfg.LogLevel
}

// loaded says how long loading the model took.
func (r *runner) loaded() string {
	if r.loading == 0 {
		return ""
	}
	return fmt.Sprintf("; the model was loaded in %s", r.loading.Round(time.Millisecond))
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
	return text + ", " + progress.Figures(s.Done+s.Failed, s.PromptTokens, s.CompletionTokens, s.Elapsed)
}
