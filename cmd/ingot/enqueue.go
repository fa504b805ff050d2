package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/enqueue/fleet"
	"github.com/ingot-run/ingot/files/prompt"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/progress"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

type enqueueCommand struct {
	from                inputFlags
	unknown             unknownFlag
	report              summaryFlags
	batch               string
	weight              int
	mixModels           bool
	retention, deadline time.Duration
}

func newEnqueue() *cobra.Command {
	var c enqueueCommand
	cmd := &cobra.Command{
		Use:   "enqueue IN... --redis URL",
		Short: "Queue the rows of a file and print the batch id",
		Args:  atLeast("IN"),
		RunE:  c.run,
	}
	flags := cmd.Flags()
	config.AddFlag(flags, config.Redis)
	c.from.add(flags)
	flags.Lookup("dry-run").Usage = "print `N` requests, and queue none"
	c.unknown.add(flags, "`ACTION` for rows with unknown fields: error (an error line) or ignore. With ignore, names of models are ignored too")
	flags.StringVar(&c.batch, "batch", "", "`ID` of the batch (default a new one)")
	config.AddFlag(flags, config.Alias, config.Priority)
	flags.IntVar(&c.weight, "weight", 0, "`SHARE` of the workers among the batches of one priority, 1 to 1000 (default 1, or that of the existing batch)")
	flags.BoolVar(&c.mixModels, "mix-models", false, "let workers with different model files answer the batch")
	flags.DurationVar(&c.retention, "retention", enqueue.DefaultRetention, "keep the results of a new batch for `TIME` after its end, such as 24h")
	c.report.add(flags, "; the batch id is printed to stdout")
	flags.DurationVar(&c.deadline, "deadline", 0, "end the batch after `TIME`, such as 24h: rows without an answer become error lines (default never)")
	return cmd
}

func (c *enqueueCommand) run(cmd *cobra.Command, args []string) error {
	c.report.begin(cmd)
	ignore, err := c.unknown.ignores()
	if err != nil {
		return err
	}
	if c.from.dryRun != 0 {
		return c.dryRun(cmd, args, ignore)
	}
	cfg, err := settings(cmd, config.Redis)
	if err != nil {
		return err
	}
	if err := c.check(cmd); err != nil {
		return err
	}
	in, err := c.from.open(cmd, args)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // the file was only read
	noteNoRows(cmd, in)
	q, err := dial(cmd, cfg)
	if err != nil {
		return err
	}
	defer q.Close() //nolint:errcheck // Redis has answered every command
	options := enqueue.Options{
		Batch: c.batch, Alias: cfg.Alias, Priority: cfg.Priority, Format: in.Format, RecordSum: in.RecordSum,
		IgnoreUnknown: ignore, ByModel: !ignore, Retention: c.retention, MixModels: c.mixModels, Version: programVersion(), Weight: c.weight,
	}
	continued := 0 // rows with a text that the model continues
	options.Continued = func(n int) { continued = n }
	if fleet.NoTemplates(cmd.Context(), q, cfg.Alias) {
		options.Chats = func(n int) { cmd.PrintErrln(prompt.WarnOfNoTemplate(n, c.from.makesMessages())) }
	}
	options.Existing = func(b queue.Batch) { c.warnOfExisting(cmd, b) }
	if c.deadline > 0 {
		options.Deadline = time.Now().Add(c.deadline)
	}
	stderr := cmd.ErrOrStderr()
	d := progress.New(stderr, progress.Options{Terminal: textfmt.IsTerminal(stderr)})
	options.Progress = func(s enqueue.Summary) {
		d.Show(progress.Counts{Total: s.Total, Before: s.Known, Done: s.Added, Failed: s.Rejected})
	}
	sum, err := enqueue.Enqueue(cmd.Context(), q, in, options)
	d.Close()
	if err != nil {
		return fmt.Errorf("enqueue %s: %w", strings.Join(args, " "), sum.Hint(cmd.Context(), in.Hint(err)))
	}
	cmd.PrintErrln(sum.String())
	printModels(cmd, cfg.Alias, sum.Models)
	if !c.from.texts() && continued > 0 && fleet.ServesChats(cmd.Context(), q, cfg.Alias, sum.Models) {
		cmd.PrintErrln(prompt.WarnOfContinued(continued))
	}
	warnOfWaiting(cmd, q, cfg.Alias, sum.Models)
	if c.report.json {
		return c.report.write(cmd, enqueueSummary{c.batch, sum.Rows, sum.Added, sum.Known, sum.Rejected, sum.Models})
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), c.batch)
	return err
}

// warnOfExisting prints which flags had no effect, because the batch existed already.
func (c *enqueueCommand) warnOfExisting(cmd *cobra.Command, b queue.Batch) {
	deadline := "it has no deadline"
	if at := b.Deadline; !at.IsZero() {
		deadline = "its deadline stays " + at.UTC().Format(time.RFC3339)
	}
	for _, f := range []struct {
		flag, kept string
		ignored    bool
	}{
		{"retention", "it keeps its retention", true},
		{"deadline", deadline, true},
		{"unknown-fields", "names of models in its rows still decide which workers answer them", c.unknown == unknownIgnore && b.ByModel},
		{"unknown-fields", "all of its rows go to one model name", c.unknown != unknownIgnore && !b.ByModel},
	} {
		if f.ignored && cmd.Flags().Changed(f.flag) {
			cmd.PrintErrf("--%s has no effect: batch %s exists already, and %s\n", f.flag, b.ID, f.kept)
		}
	}
}

// check checks the flags of the batch. If --batch is not given, it makes a new id.
func (c *enqueueCommand) check(cmd *cobra.Command) error {
	if c.batch == "" {
		c.batch = enqueue.NewBatchID()
	} else if err := queue.CheckBatch(c.batch); err != nil {
		return &usageError{err}
	}
	if c.deadline < 0 {
		return usagef("--deadline: %v is negative: give a time such as 24h", c.deadline)
	}
	if err := enqueue.CheckRetention(c.retention); err != nil {
		return usagef("--retention: %w", err)
	}
	if cmd.Flags().Changed("weight") {
		if err := enqueue.CheckWeight(c.weight); err != nil {
			return usagef("--weight: %w", err)
		}
	}
	return nil
}

func (c *enqueueCommand) dryRun(cmd *cobra.Command, args []string, ignore bool) error {
	in, err := c.from.open(cmd, args)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // the file was only read
	noteNoRows(cmd, in)
	if ignore {
		return printRequests(cmd, in, ignore, nil)
	}
	cfg, err := settings(cmd)
	if err != nil {
		return err
	}
	models := enqueue.NewModels(cfg.Alias)
	err = printRequests(cmd, in, ignore, func(row rows.Row) (int, *openai.Error) {
		_, err := models.Of(row)
		return 0, err
	})
	if err == nil {
		printModels(cmd, cfg.Alias, models.Rows())
	}
	return err
}

// warnOfWaiting prints why the rows of a batch may wait. They are queued in any case.
func warnOfWaiting(cmd *cobra.Command, q *redisqueue.Queue, alias string, models map[string]int) {
	err := fleet.WarnOfWaiting(cmd.Context(), q, alias, models, func(text string) { cmd.PrintErrln(text) })
	if err != nil {
		cmd.PrintErrf("the rows are queued, but whether a worker serves them is unknown: %s\n", textfmt.OneLine(err.Error()))
	}
}

func printModels(cmd *cobra.Command, alias string, models map[string]int) {
	if text := enqueue.ModelCounts(alias, models); text != "" {
		cmd.PrintErrln(text)
	}
}
