package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

func newResults() *cobra.Command {
	var to outputFlags
	var input, format string
	var follow, forget bool
	var limit failLimit
	cmd := &cobra.Command{
		Use:   "results BATCH --redis URL -o OUT",
		Short: "Write the results of a batch to a file",
		Long: `Results writes the finished rows of a batch to OUT, which can be - for stdout. It keeps the lines that OUT has, so it
can be interrupted and repeated at any time; each row is in OUT exactly once. Rows that failed are error lines. If every
row of a finished batch failed, the exit code is 3; --fail-on-error sets another limit.

If OUT is a table, such as .csv or .parquet, it is made at the end from the rows that are finished by then. Their lines
stay in OUT.answers.jsonl, which the next "ingot results" continues. With --input ROWS, the file of the batch, each
answer has the columns of its row. "ingot export --help" describes tables.

With --follow it waits for rows until the batch is finished, and fails if the batch is cancelled. With --forget it deletes a
result from Redis once the file OUT has it on the disk. It deletes the batch once the batch is finished and OUT has all results.`,
		Example: `  ingot results nightly-2026-01-02 --redis redis://localhost:6379/0 -o answers.jsonl
  ingot results nightly-2026-01-02 --redis redis://localhost:6379/0 -o - --follow | jq .response.body.choices[0]
  ingot results nightly-2026-01-02 --redis redis://localhost:6379/0 -o answers.parquet --input prompts.csv`,
		Args: arguments("BATCH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := settings(cmd, config.Redis)
			if err != nil {
				return err
			}
			out, err := to.options()
			if err != nil {
				return err
			}
			if forget && out.path == stdio {
				return usagef("--forget needs a file as OUT, which keeps what Redis deletes")
			}
			if out.failed != "" && input == "" {
				return usagef("--failed needs --input ROWS, from which it takes the failed rows")
			}
			in, err := openRecords(input, format)
			if err != nil {
				return err
			}
			batch := args[0]
			queue, err := dialBatch(cmd, cfg, args)
			if err != nil {
				return err
			}
			defer queue.Close() //nolint:errcheck // Redis has answered every command
			// The status is checked first, so that a wrong batch id does not create an empty file.
			s, err := queue.Status(cmd.Context(), batch)
			if err != nil {
				return fmt.Errorf("read results: %w", err)
			}
			if follow && !s.Ended() {
				for _, alias := range s.Aliases() {
					workers, err := queue.Workers(cmd.Context(), alias)
					if err != nil {
						return fmt.Errorf("read results: %w", err)
					}
					if workers == 0 {
						cmd.PrintErrf("no worker serves model name %q: waiting for one\n", alias)
					}
				}
				lost, err := queue.Lost(cmd.Context(), s)
				if err != nil {
					return fmt.Errorf("read results: %w", err)
				}
				if lost > 0 {
					cmd.PrintErrf("%s lost (neither recorded nor queued): waiting until the file is enqueued again with --batch %s\n",
						countRows(lost), batch)
				}
			}
			if err := errors.Join(out.guard([]string{""}), out.check(in)); err != nil {
				return err
			}
			defer out.clean() //nolint:errcheck // a temporary folder
			r := collecting{cmd: cmd, queue: queue, batch: batch, output: out, follow: follow, forget: forget}
			c, err := r.run(cmd.Context())
			if err == nil {
				err = out.finish(cmd, []string{""}, in)
			}
			if err != nil || !c.Finished {
				return err
			}
			return limit.check(c.Failed, c.Kept+c.Written)
		},
	}
	config.AddFlag(cmd.Flags(), config.Redis)
	to.add(cmd.Flags(), "results")
	cmd.Flags().StringVar(&input, "input", "", "give each answer of a table the columns of its row in `ROWS`, the file of the batch")
	cmd.Flags().StringVar(&format, "format", string(table.Auto), "`FORMAT` of ROWS: "+table.FormatNames())
	cmd.Flags().BoolVar(&follow, "follow", false, "wait for rows until the batch is finished")
	addFailFlag(cmd.Flags(), &limit)
	cmd.Flags().BoolVar(&forget, "forget", false, "delete results from Redis once OUT has them, and the batch once OUT has all its results")
	return cmd
}

// collecting is one execution of "ingot results" with its settings.
type collecting struct {
	cmd            *cobra.Command
	queue          *redisqueue.Queue
	batch          string
	output         *output
	follow, forget bool
}

// run writes the results and reports the outcome. Failed rows are not an error.
func (r *collecting) run(ctx context.Context) (c enqueue.Collected, err error) {
	output, err := r.output.open(r.cmd, "", r.batch)
	if err != nil {
		return c, err
	}
	closeOutput := sync.OnceValue(output.Close)
	defer func() { err = errors.Join(err, closeOutput()) }()
	c, s, err := r.collect(ctx, output)
	if err != nil && ctx.Err() == nil {
		return c, fmt.Errorf("read results: %w", err)
	}
	r.report(c, s, output)
	if err != nil {
		return c, r.output.stopped()
	}
	if err := problem(c, r.batch, r.output.path); err != nil {
		return c, err
	}
	if r.forget && c.Finished {
		if err := closeOutput(); err != nil { // Close writes the output to the disk
			return c, nil // the deferred call returns the error of Close
		}
		if err := r.queue.Purge(ctx, r.batch); err != nil {
			return c, err
		}
		r.cmd.PrintErrf("%s: deleted from Redis\n", r.batch)
	}
	if r.follow && c.Cancelled {
		return c, fmt.Errorf("read results of %s: %w", r.batch, queue.ErrCancelled)
	}
	return c, nil
}

// problem returns an error if the output and the results of the batch do not match.
func problem(c enqueue.Collected, batch, out string) error {
	switch {
	case c.Foreign > 0:
		return fmt.Errorf("%s was %w than batch %s: the batch lacks %s of the output; choose another output",
			out, rows.ErrOtherFile, batch, countRows(c.Foreign))
	case c.Damaged > 0:
		return fmt.Errorf("batch %s: Redis holds %s that cannot be read, so %s is incomplete; the first is %s",
			batch, count(c.Damaged, "result"), out, c.FirstDamage)
	case c.Freed > 0:
		return fmt.Errorf("batch %s: %s lacks %s that an earlier collection with --forget wrote to another output and deleted from Redis",
			batch, out, countRows(c.Freed))
	}
	return nil
}

// collect writes the results, shows the progress, and returns the last status of the batch.
func (r *collecting) collect(ctx context.Context, output *rows.Output) (enqueue.Collected, queue.Status, error) {
	d := newDisplay(r.cmd.ErrOrStderr())
	defer d.Close()
	var last queue.Status
	c, err := enqueue.Collect(ctx, r.queue, output, enqueue.CollectOptions{
		Follow: r.follow, Free: r.forget,
		Progress: func(s queue.Status) {
			last = s
			d.Show(batchCounts(s))
		},
	})
	return c, last, err
}

// report prints a summary of the output. If the batch has ended, it also prints the batch's figures and errors.
func (r *collecting) report(c enqueue.Collected, s queue.Status, output *rows.Output) {
	r.cmd.PrintErrln(collected(c))
	if s.Ended() {
		r.cmd.PrintErrln(tokenFigures(s.Done+s.Failed, s.PromptTokens, s.CompletionTokens, s.Took()))
	}
	if codes := output.Codes(); len(codes) > 0 {
		r.cmd.PrintErrln("errors: " + errorsByCode(codes))
	}
}

// collected describes in one line what the command has written.
func collected(c enqueue.Collected) string {
	text := countRows(c.Kept + c.Written)
	if c.Kept > 0 {
		text += fmt.Sprintf(", %d of them new", c.Written)
	}
	if c.Failed > 0 {
		text += fmt.Sprintf(", %d failed", c.Failed)
	}
	switch {
	case c.Finished:
		return text + ": the batch is finished"
	case c.Cancelled:
		return text + ": the batch is cancelled, and there are no more"
	}
	return text + ": the batch is not finished"
}
