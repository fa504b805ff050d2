package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/job"
)

func newStatus() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status BATCH --redis URL",
		Short: "Show how far a batch is",
		Example: `  ingot status nightly-2026-01-02 --redis redis://localhost:6379/0
  ingot status nightly-2026-01-02 --redis redis://localhost:6379/0 --json | jq .state`,
		Args: arguments("BATCH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := settings(cmd, config.Redis)
			if err != nil {
				return err
			}
			if err := job.CheckBatch(args[0]); err != nil {
				return &usageError{err}
			}
			rdb, _, err := job.Dial(cmd.Context(), cfg.Redis)
			if err != nil {
				return err
			}
			defer rdb.Close() //nolint:errcheck // everything sent was answered
			s, err := enqueue.Status(cmd.Context(), rdb, args[0])
			if err != nil {
				return fmt.Errorf("read status: %w", err)
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), s)
			}
			return writeStatus(cmd.OutOrStdout(), s)
		},
	}
	config.AddFlag(cmd.Flags(), config.Redis)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func writeStatus(w io.Writer, s job.Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, name+"\t"+format+"\n", args...) //nolint:errcheck // Flush reports it
	}
	moment := func(name string, at *time.Time) {
		if at != nil {
			line(name, "%s", at.Local().Format(time.DateTime))
		}
	}
	line("batch", "%s", s.Batch)
	line("model name", "%s", s.Alias)
	line("priority", "%s", s.Priority)
	line("state", "%s", s.State)
	if s.State == job.Enqueueing {
		line("rows", "%d answered, %d failed, %d running, more to come", s.Done, s.Failed, s.Running)
	} else {
		line("rows", "%d: %d answered, %d failed, %d running, %d waiting", s.Total, s.Done, s.Failed, s.Running, s.Waiting())
	}
	line("tokens", "%d of prompts, %d of answers", s.PromptTokens, s.CompletionTokens)
	line("speed", "%.1f rows/s, %.1f tokens/s", s.RowsPerSecond, s.TokensPerSecond)
	moment("created", &s.Created)
	moment("started", s.Started)
	moment("finished", s.Finished)
	moment("kept until", s.Expires)
	return t.Flush()
}
