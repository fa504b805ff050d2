package main

import (
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
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

func newEnqueue() *cobra.Command {
	var batch, unknown string
	var from inputFlags
	var retention time.Duration
	var mix bool
	var limit time.Duration
	var weight int
	cmd := &cobra.Command{
		Use:   "enqueue IN... --redis URL",
		Short: "Queue the rows of a file and print the batch id",
		Long: `Enqueue puts a job for each row of IN into Redis and prints the batch id, and nothing else, to stdout. IN can be - for
stdin, which is read to its end before the first row is queued.

A row that names a model (its field "model") is queued for the workers with that name, the others for those of --model-name.
With --unknown-fields ignore, all rows go to --model-name. For each name, a batch accepts answers of only
one model file, unless --mix-models is given.

Workers take rows in turn from all batches of the same model name and priority. For each row of a batch with weight 1, they
take three rows of a batch with --weight 3. To change the weight of a queued batch, enqueue its file again with --batch ID
and --weight.

Formats of IN:` + formatsHelp() + `

A table needs --prompt, unless its columns are those of a common kind of data set. Row defaults fill fields that a row
leaves out.

An invalid row gets an error line in the results. With --deadline, so does a row that has no answer by then. If enqueue
was interrupted, repeat it with --batch ID: rows that are already queued or answered are skipped.`,
		Example: `  ingot enqueue prompts.jsonl --redis redis://localhost:6379/0
  ingot enqueue prompts.jsonl --redis redis://localhost:6379/0 --batch nightly-2026-01-02 --model-name glm --priority bulk
  ingot enqueue prompts.jsonl --redis redis://localhost:6379/0 --deadline 24h
  ingot enqueue reviews.csv --redis redis://localhost:6379/0 --prompt 'Translate: {{.text}}' --max-tokens 200
  generate-prompts | ingot enqueue - --redis redis://localhost:6379/0`,
		Args: atLeast("IN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if from.dryRun != 0 {
				return dryRun(cmd, &from, args, unknown)
			}
			cfg, err := settings(cmd, config.Redis)
			if err != nil {
				return err
			}
			if batch == "" {
				batch = enqueue.NewBatchID()
			} else if err := queue.CheckBatch(batch); err != nil {
				return &usageError{err}
			}
			if limit < 0 {
				return usagef("--deadline: %v is negative: give a time such as 24h", limit)
			}
			if err := enqueue.CheckRetention(retention); err != nil {
				return usagef("--retention: %w", err)
			}
			if cmd.Flags().Changed("weight") {
				if err := enqueue.CheckWeight(weight); err != nil {
					return usagef("--weight: %w", err)
				}
			}
			ignore, err := ignoresUnknown(unknown)
			if err != nil {
				return err
			}
			in, err := from.open(cmd, args)
			if err != nil {
				return err
			}
			defer in.Close() //nolint:errcheck // the file was only read
			queue, err := dial(cmd, cfg)
			if err != nil {
				return err
			}
			defer queue.Close() //nolint:errcheck // Redis has answered every command

			var deadline time.Time
			if limit > 0 {
				deadline = time.Now().Add(limit)
			}
			stderr := cmd.ErrOrStderr()
			d := progress.New(stderr, progress.Options{Terminal: isTerminal(stderr)})
			sum, err := enqueue.Enqueue(cmd.Context(), queue, in, enqueue.Options{
				Batch: batch, Alias: cfg.ModelName, Priority: cfg.Priority, Format: in.format,
				IgnoreUnknown: ignore, ByModel: !ignore, Retention: retention, MixModels: mix, Version: programVersion(),
				Deadline: deadline, Weight: weight,
				Progress: func(s enqueue.Summary) { d.Show(queuedCounts(s)) },
			})
			d.Close()
			if err != nil {
				return fmt.Errorf("enqueue %s: %w", strings.Join(args, " "), enqueueHint(cmd, in.hint(err), sum))
			}
			cmd.PrintErrln(enqueued(sum))
			printModels(cmd, cfg.ModelName, sum.Models)
			if err := warnOfNoWorker(cmd, queue, cfg.ModelName, sum.Models); err != nil { // the rows are queued in any case
				cmd.PrintErrf("the rows are queued, but whether a worker serves them is unknown: %s\n", oneLine(err.Error()))
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), batch)
			return err
		},
	}
	config.AddFlag(cmd.Flags(), config.Redis)
	from.add(cmd.Flags())
	addUnknownFlag(cmd.Flags(), &unknown, "`ACTION` for rows with unknown fields: error (an error line) or ignore. With ignore, names of models are ignored too")
	cmd.Flags().StringVar(&batch, "batch", "", "`ID` of the batch (default a new one)")
	config.AddFlag(cmd.Flags(), config.ModelName)
	config.AddFlag(cmd.Flags(), config.Priority)
	cmd.Flags().IntVar(&weight, "weight", 0, "`SHARE` of the workers among the batches of one priority, 1 to 1000 (default 1, or that of the existing batch)")
	cmd.Flags().BoolVar(&mix, "mix-models", false, "let workers with different model files answer the batch")
	cmd.Flags().DurationVar(&retention, "retention", enqueue.DefaultRetention,
		"keep the results of a new batch for `TIME` after its end, such as 24h")
	cmd.Flags().DurationVar(&limit, "deadline", 0, "end the batch after `TIME`, such as 24h: rows without an answer become error lines (default never)")
	return cmd
}

// printModels prints how many rows go to each model name, unless all go to alias.
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

// warnOfNoWorker prints a warning for each of a batch's model names that no worker serves or that is paused. A name without workers may be
// misspelt. models has the number of rows of each name. If models is empty, all rows go to alias.
func warnOfNoWorker(cmd *cobra.Command, queue *redisqueue.Queue, alias string, models map[string]int) error {
	paused, err := queue.Aliases(cmd.Context())
	if err != nil {
		return err
	}
	if len(models) == 0 {
		models = map[string]int{alias: 0}
	}
	for _, name := range slices.Sorted(maps.Keys(models)) {
		workers, err := queue.Workers(cmd.Context(), name)
		rows := "the rows"
		if len(models) > 1 {
			rows = fmt.Sprintf("its rows (%d)", models[name])
		}
		switch {
		case err != nil:
			return err
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

// enqueueHint adds a hint to the error of a failed enqueue: the command that queues the remaining rows. The hint names the batch, whose id
// has not been printed yet.
func enqueueHint(cmd *cobra.Command, err error, sum enqueue.Summary) error {
	if cmd.Context().Err() != nil && sum.Rows == 0 {
		return errors.New("stopped before a row was queued")
	}
	if cmd.Context().Err() != nil {
		return fmt.Errorf("stopped before all rows were queued: run the same command with --batch %s to queue the others", sum.Batch)
	}
	incomplete := sum.Rows > 0 || errors.Is(err, queue.ErrUnavailable) // if true, the batch may exist
	if !incomplete || errors.Is(err, rows.ErrOtherFile) {
		return err
	}
	return fmt.Errorf("%w (run the same command with --batch %s to queue the remaining rows)", err, sum.Batch)
}

// enqueued describes a finished enqueue in one line.
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

func countRows(n int) string { return count(n, "row") }

// count formats a number and the thing that it counts, such as "2 rows".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
