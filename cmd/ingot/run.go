package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/launch"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
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
	var points *compute.Checkpoints
	if c.points != "" {
		if points, err = compute.ParseCheckpoints(c.points); err != nil {
			return usagef("--checkpoints %q: %w", c.points, err)
		}
	}
	job, err := c.job(cmd, cfg, args)
	if err != nil {
		return err
	}
	defer job.In.Close() //nolint:errcheck // the file was only read
	job.Open, job.NoProgress = openEngine(cfg, c.capture, points, job.Stderr), points != nil
	sum, err := job.Run(cmd.Context())
	if err != nil {
		return err
	}
	if points != nil {
		if err := points.Missing(); err != nil {
			return fmt.Errorf("--checkpoints: %w", err)
		}
	}
	sum.Out = c.to.Path
	if err := c.report.write(cmd, sum); err != nil {
		return err
	}
	return sum.Check(c.limit)
}

// job returns the job that the flags describe. It opens the input, which the caller closes.
func (c *runCommand) job(cmd *cobra.Command, cfg *config.Config, args []string) (*local.Job, error) {
	ignore, err := c.unknown.ignores()
	if err != nil {
		return nil, err
	}
	out, err := c.output(cmd)
	if err != nil {
		return nil, err
	}
	models, err := runModels(cfg.Model)
	if err != nil {
		return nil, err
	}
	job, err := newJob(cmd, cfg, &c.from, args)
	if err != nil {
		return nil, err
	}
	job.Out, job.Models, job.IgnoreUnknown, job.RetryFailed, job.Overwrite = out, models, ignore, c.again.retryFailed, c.again.overwrite
	job.MixModels, job.FailFast = c.again.mixModels, c.again.failFast
	return job, nil
}

// output returns the output, completed with what the flags of the input mean for it.
func (c *runCommand) output(cmd *cobra.Command) (*export.Output, error) {
	out, err := c.to.open(cmd)
	if err != nil {
		return nil, err
	}
	form, err := c.from.form.Read(c.from.given)
	if err != nil {
		return nil, &usageError{err}
	}
	if form != nil && form.Schema != "" {
		c.to.UseSchema(form.Schema, out)
	}
	out.Table.Selected = c.from.file.Select != (table.Selection{}) // OUT.answers.jsonl may have rows that another run selected
	return out, nil
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
	eng, err := newLaunch(cmd.Context(), cfg, io.Discard).Engine(models[0].Name, launch.EngineOptions(cfg))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	return printRequests(cmd, in, ignore, func(row rows.Row) (int, *openai.Error) { return local.PromptTokens(cmd.Context(), eng, row) })
}
