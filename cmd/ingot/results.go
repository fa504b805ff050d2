package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/enqueue/fleet"
	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/progress"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

type resultsCommand struct {
	to             outputFlags
	rows           recordFlags
	limit          rows.FailLimit
	report         summaryFlags
	follow, forget bool
}

func newResults() *cobra.Command {
	var c resultsCommand
	cmd := &cobra.Command{
		Use:   "results BATCH --redis URL -o OUT",
		Short: "Write the results of a batch to a file",
		Args:  arguments("BATCH"),
		RunE:  c.run,
	}
	flags := cmd.Flags()
	config.AddFlag(flags, config.Redis)
	c.to.add(flags, "results")
	c.rows.add(flags, "give each answer of a table the columns of its row in `ROWS`, the file of the batch")
	flags.BoolVar(&c.follow, "follow", false, "wait for rows until the batch is finished")
	addFailLimit(flags, &c.limit)
	c.report.add(flags, "")
	flags.BoolVar(&c.forget, "forget", false, "delete results from Redis once OUT has them, and the batch once OUT has all its results")
	return cmd
}

func (c *resultsCommand) run(cmd *cobra.Command, args []string) error {
	c.report.begin(cmd)
	if err := c.report.checkStdout(c.to.Path); err != nil {
		return err
	}
	cfg, err := settings(cmd, config.Redis)
	if err != nil {
		return err
	}
	out, err := c.to.open(cmd)
	if err != nil {
		return err
	}
	if c.forget && !out.Regular() {
		return usagef("--forget needs a file as OUT, which keeps what Redis deletes: %s is not a regular file", out.Path)
	}
	if err := out.CheckPaths([]string{c.rows.path}); err != nil {
		return err
	}
	in, err := c.rows.open(out)
	if err != nil {
		return err
	}
	queue, err := dialBatch(cmd, cfg, args)
	if err != nil {
		return err
	}
	defer queue.Close() //nolint:errcheck // Redis has answered every command
	// The status is checked first, so that a wrong batch id does not create an empty file.
	s, err := queue.Status(cmd.Context(), args[0])
	if err == nil && c.follow && !s.Ended() {
		err = warnOfLost(cmd, queue, s)
	}
	if err != nil {
		return fmt.Errorf("read results: %w", err)
	}
	if err := errors.Join(out.Guard(""), out.CheckColumns(in)); err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // a temporary folder
	r := collecting{cmd: cmd, queue: queue, batch: args[0], output: out, follow: c.follow, forget: c.forget}
	got, err := r.run(cmd.Context())
	if err == nil {
		err = out.Finish(cmd.Context(), in, "")
	}
	if err == nil {
		err = c.report.write(cmd, newResultsSummary(args[0], c.to.Path, out.Unparsed, got, r.status, r.codes))
	}
	if err != nil || !got.Finished {
		return err
	}
	if c.forget { // OUT has all results on the disk, and a table was made
		if err := queue.Purge(cmd.Context(), args[0]); err != nil {
			return err
		}
		cmd.PrintErrf("%s: deleted from Redis\n", args[0])
	}
	return c.limit.Check(got.Failed+out.Unparsed, got.Kept+got.Written)
}

// warnOfLost prints why a batch may not finish by itself although workers serve it: lost rows.
func warnOfLost(cmd *cobra.Command, q *redisqueue.Queue, s queue.Status) error {
	lost, err := q.Missing(cmd.Context(), s)
	if lost > 0 {
		cmd.PrintErrf("%s lost (neither recorded nor queued): waiting until the file is enqueued again with --batch %s\n", countRows(lost), s.Batch)
	}
	return err
}

type collecting struct {
	cmd            *cobra.Command
	queue          *redisqueue.Queue
	batch          string
	output         *export.Output
	follow, forget bool

	status queue.Status             // the last one
	codes  map[string]rows.Failures // failed rows in OUT
}

// run writes the results and reports the outcome. Failed rows are not an error.
func (r *collecting) run(ctx context.Context) (c enqueue.Collected, err error) {
	output, err := r.output.Open(ctx, "", r.batch)
	if err != nil {
		return c, err
	}
	defer func() {
		if closeErr := output.Close(); err == nil { // writing may have failed with the same error
			err = closeErr
		}
	}()
	if r.forget && !output.Regular() { // the path may have changed since the flags were checked
		return c, fmt.Errorf("--forget: %s is not a regular file", r.output.Path)
	}
	c, s, err := r.collect(ctx, output)
	if err != nil && ctx.Err() == nil {
		return c, fmt.Errorf("read results: %w", err)
	}
	r.status, r.codes = s, output.Codes()
	r.report(c, s, output)
	if err != nil {
		return c, r.output.Stopped()
	}
	if err := c.Check(r.batch, r.output.Path); err != nil {
		return c, err
	}
	if r.follow && c.Cancelled {
		return c, fmt.Errorf("read results of %s: %w: %s", r.batch, queue.ErrCancelled, r.afterCancel())
	}
	return c, nil
}

// afterCancel says how to use the results of a cancelled batch.
func (r *collecting) afterCancel() string {
	if r.output.Appends() {
		return r.output.Path + " has the rows that ended before; to answer the others, enqueue the file as another batch"
	}
	return "to make " + r.output.Path + " of the rows that ended before, run the same command without --follow"
}

func (r *collecting) collect(ctx context.Context, output *rows.Output) (enqueue.Collected, queue.Status, error) {
	d := newDisplay(r.cmd.ErrOrStderr())
	defer d.Close()
	var last queue.Status
	waiting := fleet.Stalls{Queue: r.queue, Out: d}
	c, err := enqueue.Collect(ctx, r.queue, output, enqueue.CollectOptions{
		Follow: r.follow, Free: r.forget,
		Progress: func(s queue.Status) {
			last = s
			d.Show(batchCounts(s))
			if r.follow {
				waiting.Look(ctx, s)
			}
		},
	})
	return c, last, err
}

func (r *collecting) report(c enqueue.Collected, s queue.Status, output *rows.Output) {
	r.cmd.PrintErrln(c.String())
	if s.Ended() {
		r.cmd.PrintErrln(progress.Figures(s.Done+s.Failed, s.PromptTokens, s.CompletionTokens, s.Took()))
	}
	if text := rows.WarnOfEmpty(output.Empty(), c.Written); text != "" {
		r.cmd.PrintErrln(text)
	}
	printFailures(r.cmd, "", output.Codes())
}
