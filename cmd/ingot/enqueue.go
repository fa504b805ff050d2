package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/rows"
)

func newEnqueue() *cobra.Command {
	var batch, format string
	cmd := &cobra.Command{
		Use:   "enqueue IN --redis URL",
		Short: "Put the rows of a file into the queue and print the batch id",
		Long: `Enqueue puts one job for each row of IN into Redis and prints the batch id alone on stdout. IN is - for stdin.

Rows are OpenAI Batch lines, bare bodies with "messages" or "prompt", or plain text with one prompt a line.
Rows that cannot be used are recorded as errors; the rest go on. The same file with the same batch id again
adds nothing, so an interrupted run is completed by repeating it with --batch.`,
		Example: `  ingot enqueue prompts.jsonl --redis redis://localhost:6379/0
  ingot enqueue prompts.jsonl --redis redis://localhost:6379/0 --batch nightly-2026-01-02 --model-name glm --priority bulk
  generate-prompts | ingot enqueue - --redis redis://localhost:6379/0`,
		Args: arguments("IN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := settings(cmd, config.Redis)
			if err != nil {
				return err
			}
			if batch == "" {
				batch = enqueue.NewBatchID()
			} else if err := job.CheckBatch(batch); err != nil {
				return &usageError{err}
			}
			rowFormat, err := parseFormat(format, args[0])
			if err != nil {
				return err
			}
			in, err := openInput(cmd, args[0])
			if err != nil {
				return err
			}
			defer in.Close() //nolint:errcheck // it was only read
			rdb, err := dial(cmd, cfg)
			if err != nil {
				return err
			}
			defer rdb.Close() //nolint:errcheck // everything sent was answered

			sum, err := enqueue.Enqueue(cmd.Context(), rdb, in, enqueue.Options{
				Batch: batch, Alias: cfg.ModelName, Priority: cfg.Priority, Format: rowFormat, Version: programVersion(),
			})
			if err != nil {
				return fmt.Errorf("enqueue %s: %w", args[0], enqueueHint(cmd, err, sum))
			}
			cmd.PrintErrln(enqueued(sum))
			_, err = fmt.Fprintln(cmd.OutOrStdout(), batch)
			return err
		},
	}
	config.AddFlag(cmd.Flags(), config.Redis)
	cmd.Flags().StringVar(&batch, "batch", "", "give the batch the id `ID` (default a new one)")
	config.AddFlag(cmd.Flags(), config.ModelName)
	config.AddFlag(cmd.Flags(), config.Priority)
	addFormatFlag(cmd.Flags(), &format)
	return cmd
}

// enqueueHint says how to go on where the batch is made and some of its rows may be missing. Its id was told to nobody yet.
func enqueueHint(cmd *cobra.Command, err error, sum enqueue.Summary) error {
	if cmd.Context().Err() != nil {
		return fmt.Errorf("stopped before the end: run it again with --batch %s to queue the rest", sum.Batch)
	}
	if sum.Rows == 0 || errors.Is(err, rows.ErrOtherFile) {
		return err
	}
	return fmt.Errorf("%w (run it again with --batch %s to queue the rest)", err, sum.Batch)
}

func enqueued(s enqueue.Summary) string {
	text := fmt.Sprintf("%s: %d queued", countRows(s.Rows), s.Added)
	if s.Known > 0 {
		text += fmt.Sprintf(", %d known before", s.Known)
	}
	if s.Rejected > 0 {
		text += fmt.Sprintf(", %d cannot be used (see their error lines in the results)", s.Rejected)
	}
	return text
}

func countRows(n int) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}
