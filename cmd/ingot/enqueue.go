package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/enqueue"
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
	if noTemplates(cmd.Context(), q, cfg.Alias) {
		options.Chats = c.from.warnOfNoTemplate(cmd.ErrOrStderr(), "")
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
		return fmt.Errorf("enqueue %s: %w", strings.Join(args, " "), enqueueHint(cmd, in.Hint(err), sum))
	}
	cmd.PrintErrln(enqueued(sum))
	printModels(cmd, cfg.Alias, sum.Models)
	if warn := c.from.warnOfContinued(cmd.ErrOrStderr(), ""); warn != nil && continued > 0 && servesChats(cmd.Context(), q, cfg.Alias, sum.Models) {
		warn(continued)
	}
	if err := warnOfNoWorker(cmd, q, cfg.Alias, sum.Models); err != nil { // the rows are queued in any case
		cmd.PrintErrf("the rows are queued, but whether a worker serves them is unknown: %s\n", textfmt.OneLine(err.Error()))
	}
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
		return printRequests(cmd, in, ignore, func(rows.Row) (int, *openai.Error) { return 0, nil })
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

func printModels(cmd *cobra.Command, alias string, models map[string]int) {
	if len(models) == 0 || len(models) == 1 && models[alias] > 0 {
		return
	}
	var counts []string
	for _, name := range slices.Sorted(maps.Keys(models)) {
		counts = append(counts, fmt.Sprintf("%s %d", name, models[name]))
	}
	cmd.PrintErrln("rows by model name: " + strings.Join(counts, ", "))
}

// warnOfNoWorker prints a warning for each of a batch's model names that no worker serves or that
// is paused. A name without workers may be misspelt. models has the number of rows of each name. If
// models is empty, all rows go to alias.
func warnOfNoWorker(cmd *cobra.Command, q *redisqueue.Queue, alias string, models map[string]int) error {
	paused, err := q.Aliases(cmd.Context())
	if err != nil {
		return err
	}
	fleet, err := q.Fleet(cmd.Context())
	if err != nil {
		return err
	}
	if len(models) == 0 {
		models = map[string]int{alias: 0}
	}
	for _, name := range slices.Sorted(maps.Keys(models)) {
		workers, err := q.Workers(cmd.Context(), name)
		loads := slices.IndexFunc(fleet, func(w queue.Worker) bool { return w.Live() && w.Loading == name && !q.Silent(w) })
		rows := "the rows"
		if len(models) > 1 {
			rows = fmt.Sprintf("its rows (%d)", models[name])
		}
		switch {
		case err != nil:
			return err
		case workers == 0 && loads >= 0:
			cmd.PrintErrf("worker %s loads the model for model name %q: %s wait for it\n", textfmt.Printable(fleet[loads].Name), name, rows)
		case workers == 0 && name != alias:
			cmd.PrintErrf("no worker serves model name %q: %s wait for one. To send all rows to %q, cancel the batch and queue the file with --unknown-fields ignore\n",
				name, rows, alias)
		case workers == 0:
			cmd.PrintErrf("no worker serves model name %q: %s wait for one\n", name, rows)
		case paused[name]:
			cmd.PrintErrf("model name %q is paused: %s wait for \"ingot resume %s\"\n", name, rows, name)
		}
	}
	return nil
}

// servesChats reports whether a worker that can answer a batch has a model with a chat template.
// alias and models are as in warnOfNoWorker.
func servesChats(ctx context.Context, q *redisqueue.Queue, alias string, models map[string]int) bool {
	fleet, err := q.Fleet(ctx)
	return err == nil && slices.ContainsFunc(fleet, func(w queue.Worker) bool {
		serves := w.Serves(alias)
		for name := range models {
			serves = serves || w.Serves(name)
		}
		return w.Live() && w.Chat && serves
	})
}

// noTemplates reports whether workers serve an alias, and no model of theirs has a chat template.
func noTemplates(ctx context.Context, q *redisqueue.Queue, alias string) bool {
	fleet, err := q.Fleet(ctx)
	serving := slices.DeleteFunc(fleet, func(w queue.Worker) bool { return !w.Live() || !w.Serves(alias) })
	return err == nil && len(serving) > 0 && !slices.ContainsFunc(serving, func(w queue.Worker) bool { return w.Chat })
}

// enqueueHint adds a hint to the error of a failed enqueue: the command that queues the remaining
// rows. The hint names the batch, whose id has not been printed yet.
func enqueueHint(cmd *cobra.Command, err error, sum enqueue.Summary) error {
	if cmd.Context().Err() != nil && sum.Rows == 0 {
		return errors.New("stopped before a row was queued")
	}
	if cmd.Context().Err() != nil {
		return fmt.Errorf("stopped before all rows were queued: run the same command with --batch %s to queue the others", sum.Batch)
	}
	incomplete := sum.Rows > 0 || errors.Is(err, queue.ErrUnavailable) // if true, the batch may exist
	if !incomplete || errors.Is(err, rows.ErrOtherFile) || errors.Is(err, queue.ErrCancelled) || errors.Is(err, queue.ErrNoBatch) {
		return err
	}
	return fmt.Errorf("%w (run the same command with --batch %s to queue the remaining rows)", err, sum.Batch)
}

func enqueued(s enqueue.Summary) string {
	text := fmt.Sprintf("%s: %d queued", countRows(s.Rows), s.Added)
	if s.Known > 0 {
		text += fmt.Sprintf(", %d already in the batch", s.Known)
	}
	if s.Rejected > 0 {
		text += fmt.Sprintf(", %d cannot be used (see their error lines in the results)", s.Rejected)
	}
	return text
}
