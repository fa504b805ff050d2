package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

func newStatus() *cobra.Command {
	var asJSON, watch bool
	cmd := &cobra.Command{
		Use:   "status [BATCH] --redis URL",
		Short: "Show the progress of a batch, or list all batches",
		Long: `Status shows the progress of a batch: rows, speed, and the number of workers that serve its model names. Without BATCH it
lists all batches, the newest first. With --watch it shows the progress of BATCH, the speed of the last minute and the time
left. When the batch has ended, it prints the status.`,
		Example: `  ingot status --redis redis://localhost:6379/0
  ingot status nightly-2026-01-02 --redis redis://localhost:6379/0
  ingot status nightly-2026-01-02 --redis redis://localhost:6379/0 --watch
  ingot status nightly-2026-01-02 --redis redis://localhost:6379/0 --json | jq .state`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && watch {
				return usagef("--watch needs BATCH, the batch to watch")
			}
			if len(args) == 0 {
				return nil
			}
			return arguments("BATCH")(cmd, args)
		},
		RunE: onRedis(func(cmd *cobra.Command, queue *redisqueue.Queue, args []string) error {
			if len(args) == 0 {
				return listBatches(cmd, queue, asJSON)
			}
			var s batchStatus
			var err error
			if watch {
				if err := watchBatch(cmd, queue, args[0]); err != nil {
					if cmd.Context().Err() != nil {
						return errors.New("stopped watching: the batch has not ended")
					}
					return fmt.Errorf("read status: %w", err)
				}
			}
			if _, err = queue.Expire(cmd.Context(), args[0]); err != nil {
				return fmt.Errorf("read status: %w", err)
			}
			if s.Status, err = queue.Status(cmd.Context(), args[0]); err != nil {
				return fmt.Errorf("read status: %w", err)
			}
			if s.Models, err = servedModels(cmd, queue, s.Status); err != nil {
				return fmt.Errorf("read status: %w", err)
			}
			if s.Lost, err = queue.Lost(cmd.Context(), s.Status); err != nil {
				return fmt.Errorf("read status: %w", err)
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), s)
			}
			return writeStatus(cmd.OutOrStdout(), s)
		}),
	}
	config.AddFlag(cmd.Flags(), config.Redis)
	cmd.Flags().BoolVar(&watch, "watch", false, "show the progress until the batch has ended")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// batchStatus is the state of a batch as status prints it.
type batchStatus struct {
	queue.Status
	Models []servedModel `json:"models"` // the model names of the batch
	Lost   int           `json:"lost"`   // rows that are neither recorded nor queued; 0 unless the batch's queues are empty
}

// servedModel is a model name of a batch, with the workers that serve it.
type servedModel struct {
	queue.Model
	Workers int  `json:"workers"` // number of workers that serve the name
	Paused  bool `json:"paused"`  // workers take none of its rows
}

// servedModels returns the model names of a batch.
func servedModels(cmd *cobra.Command, queue *redisqueue.Queue, s queue.Status) ([]servedModel, error) {
	paused, err := queue.Aliases(cmd.Context())
	if err != nil {
		return nil, err
	}
	models := make([]servedModel, len(s.Models))
	for i, m := range s.Models {
		workers, err := queue.Workers(cmd.Context(), m.Alias)
		if err != nil {
			return nil, err
		}
		models[i] = servedModel{m, workers, paused[m.Alias]}
	}
	return models, nil
}

// watchBatch shows the progress of a batch until it has ended.
func watchBatch(cmd *cobra.Command, q *redisqueue.Queue, batch string) error {
	d := newDisplay(cmd.ErrOrStderr())
	defer d.Close()
	return enqueue.Watch(cmd.Context(), q, batch, func(s queue.Status) { d.Show(batchCounts(s)) })
}

func listBatches(cmd *cobra.Command, q *redisqueue.Queue, asJSON bool) error {
	all, err := q.Batches(cmd.Context())
	if err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	all = slices.DeleteFunc(all, func(s queue.Status) bool {
		if s.Damage != "" {
			cmd.PrintErrf("skipped %s\n", printable(s.Damage))
		}
		return s.Damage != ""
	})
	if asJSON {
		return writeJSON(cmd.OutOrStdout(), append([]queue.Status{}, all...)) // an empty list is written as [], not null
	}
	t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "batch\tstate\trows\tanswered\tfailed\tmodel name\tpriority\tcreated") //nolint:errcheck // Flush reports it
	for _, s := range all {
		total := "?" // more rows are being queued
		if s.Total > 0 || s.State == queue.Completed {
			total = strconv.Itoa(s.Total)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", s.Batch, s.State, total, s.Done, s.Failed, strings.Join(s.Aliases(), ","), s.Priority, //nolint:errcheck // Flush reports it
			s.Created.Local().Format(time.DateTime))
	}
	return t.Flush()
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func writeStatus(w io.Writer, s batchStatus) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, printable(fmt.Sprintf(format, args...))) //nolint:errcheck // Flush reports it
	}
	moment := func(name string, at *time.Time) {
		if at != nil {
			line(name, "%s", at.Local().Format(time.DateTime))
		}
	}
	line("batch", "%s", s.Batch)
	line("model name", "%s", strings.Join(s.Aliases(), ", "))
	if s.Weight > 1 {
		line("priority", "%s, weight %d", s.Priority, s.Weight)
	} else {
		line("priority", "%s", s.Priority)
	}
	line("state", "%s", s.State)
	switch s.State {
	case queue.Enqueueing:
		line("rows", "%d answered, %d failed, %d running, more to come", s.Done, s.Failed, s.Running)
	case queue.Cancelled:
		line("rows", "%d answered, %d failed, the rest cancelled", s.Done, s.Failed)
	default:
		line("rows", "%d: %d answered, %d failed, %d running, %d waiting", s.Total, s.Done, s.Failed, s.Running, s.Waiting())
	}
	if s.Lost > 0 {
		line("lost", "%s neither recorded nor queued: enqueue the file again with --batch %s", countRows(s.Lost), s.Batch)
	}
	for _, m := range s.Models {
		switch {
		case s.Ended():
			continue
		case m.Workers == 0:
			line("workers", "none serves model name %q now", m.Alias)
		case len(s.Models) == 1:
			line("workers", "%d", m.Workers)
		default:
			line("workers", "%d with model name %q", m.Workers, m.Alias)
		}
		if m.Paused {
			line("paused", "no rows of model name %q are taken: ingot resume %s", m.Alias, m.Alias)
		}
	}
	line("tokens", "%d of prompts, %d of answers", s.PromptTokens, s.CompletionTokens)
	line("speed", "%.1f rows/s, %.1f tokens/s", s.RowsPerSecond, s.TokensPerSecond)
	moment("created", &s.Created)
	moment("started", s.Started)
	moment("finished", s.Finished)
	moment("cancelled", s.Cancelled)
	moment("deadline", s.Deadline)
	moment("kept until", s.Expires)
	return t.Flush()
}
