package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/enqueue/fleet"
	"github.com/ingot-run/ingot/files/rows"
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
	r := fleet.Collection{Queue: queue, Batch: args[0], Out: out, Follow: c.follow, Forget: c.forget, Stderr: cmd.ErrOrStderr()}
	sum, err := r.Run(cmd.Context())
	if err == nil {
		err = out.Finish(cmd.Context(), in, "")
	}
	if err != nil {
		return err
	}
	sum.AddUnparsed(out.Unparsed)
	if err := c.report.write(cmd, sum); err != nil || !sum.Finished {
		return err
	}
	if c.forget { // OUT has all results on the disk, and a table was made
		if err := queue.Purge(cmd.Context(), args[0]); err != nil {
			return err
		}
		cmd.PrintErrf("%s: deleted from Redis\n", args[0])
	}
	return sum.Check(c.limit)
}

// warnOfLost prints why a batch may not finish by itself although workers serve it: lost rows.
func warnOfLost(cmd *cobra.Command, q *redisqueue.Queue, s queue.Status) error {
	lost, err := q.Missing(cmd.Context(), s)
	if lost > 0 {
		cmd.PrintErrf("%s lost (neither recorded nor queued): waiting until the file is enqueued again with --batch %s\n", countRows(lost), s.Batch)
	}
	return err
}
