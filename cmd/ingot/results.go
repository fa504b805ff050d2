package main

import (
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/rows"
)

func newResults() *cobra.Command {
	var out string
	var follow, forget bool
	cmd := &cobra.Command{
		Use:   "results BATCH --redis URL -o OUT",
		Short: "Write the results of a batch to a file",
		Long: `Results writes the finished rows of a batch to OUT, which can be - for stdout. It keeps the lines that OUT has, so it
can be interrupted and repeated at any time; each row is in OUT exactly once. Rows that failed are error lines and do
not change the exit code.

With --follow it waits for rows until the batch is finished, and fails if the batch is cancelled. With --forget it deletes
the batch from Redis when OUT, a file, has all results of a finished batch.`,
		Example: `  ingot results nightly-2026-01-02 --redis redis://localhost:6379/0 -o answers.jsonl
  ingot results nightly-2026-01-02 --redis redis://localhost:6379/0 -o - --follow | jq .response.body.choices[0]`,
		Args: arguments("BATCH"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			cfg, err := settings(cmd, config.Redis)
			if err != nil {
				return err
			}
			if out == "" {
				return usagef("-o OUT is missing")
			}
			if forget && out == stdio {
				return usagef("--forget needs a file as OUT")
			}
			batch := args[0]
			queue, err := dialBatch(cmd, cfg, args)
			if err != nil {
				return err
			}
			defer queue.Close() //nolint:errcheck // everything sent was answered
			// Checked first, so that a wrong batch id does not create an empty file.
			s, err := queue.Status(cmd.Context(), batch)
			if err != nil {
				return fmt.Errorf("read results: %w", err)
			}
			if follow && !s.Ended() {
				workers, err := queue.Workers(cmd.Context(), s.Alias)
				if err != nil {
					return fmt.Errorf("read results: %w", err)
				}
				if workers == 0 {
					cmd.PrintErrf("no worker serves model name %q: waiting for one\n", s.Alias)
				}
				lost, err := queue.Lost(cmd.Context(), s)
				if err != nil {
					return fmt.Errorf("read results: %w", err)
				}
				if lost > 0 {
					cmd.PrintErrf("%s neither recorded nor queued: waiting until the file is enqueued again with --batch %s\n",
						countRows(lost), batch)
				}
			}
			output, err := openOutput(cmd, out, batch)
			if err != nil {
				return err
			}
			closeOutput := sync.OnceValue(output.Close)
			defer func() { err = errors.Join(err, closeOutput()) }()
			c, err := enqueue.Collect(cmd.Context(), queue, output, enqueue.CollectOptions{Follow: follow})
			if err != nil && cmd.Context().Err() == nil {
				return fmt.Errorf("read results: %w", err)
			}
			cmd.PrintErrln(collected(c))
			if err != nil {
				return errors.New("stopped before the end: run it again for the rest")
			}
			if c.Foreign > 0 {
				return fmt.Errorf("%s was %w than batch %s, which lacks %s of it: choose another output",
					out, rows.ErrOtherFile, batch, countRows(c.Foreign))
			}
			if forget && c.Finished {
				if err := closeOutput(); err != nil { // it is on the disk after this
					return nil // the deferred call reports it
				}
				if err := queue.Purge(cmd.Context(), batch); err != nil {
					return err
				}
				cmd.PrintErrf("%s: deleted from Redis\n", batch)
			}
			if follow && c.Cancelled {
				return fmt.Errorf("read results: batch %s: %w", batch, job.ErrCancelled)
			}
			return nil
		},
	}
	config.AddFlag(cmd.Flags(), config.Redis)
	cmd.Flags().StringVarP(&out, "out", "o", "", "write results to `OUT`; - for stdout")
	cmd.Flags().BoolVar(&follow, "follow", false, "wait for rows until the batch is finished")
	cmd.Flags().BoolVar(&forget, "forget", false, "delete a finished batch from Redis when OUT has all its results")
	return cmd
}

// collected describes what results has written in one line.
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
