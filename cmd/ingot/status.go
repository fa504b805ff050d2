package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

type statusCommand struct{ asJSON, watch bool }

func newStatus() *cobra.Command {
	var c statusCommand
	cmd := redisCommand(&cobra.Command{
		Use:   "status [BATCH] --redis URL",
		Short: "Show the progress of a batch, or list all batches",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && c.watch {
				return usagef("--watch needs BATCH, the batch to watch")
			}
			return optionalArgument(nil, args)
		},
	}, c.run)
	cmd.Flags().BoolVar(&c.watch, "watch", false, "show the progress until the batch has ended")
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print JSON")
	return cmd
}

func (c *statusCommand) run(cmd *cobra.Command, q *redisqueue.Queue, args []string) error {
	if len(args) == 0 {
		return listBatches(cmd, q, c.asJSON)
	}
	if c.watch {
		d := newDisplay(cmd.ErrOrStderr())
		waiting := stalls{queue: q, out: d}
		err := enqueue.Watch(cmd.Context(), q, args[0], func(s queue.Status) {
			d.Show(batchCounts(s))
			waiting.look(cmd.Context(), s)
		})
		d.Close()
		if err != nil {
			if cmd.Context().Err() != nil {
				return errors.New("stopped watching: the batch has not ended")
			}
			return fmt.Errorf("read status: %w", err)
		}
	}
	s, err := readStatus(cmd.Context(), q, args[0])
	if err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	if c.asJSON {
		return writeJSON(cmd.OutOrStdout(), s)
	}
	return s.write(cmd.OutOrStdout())
}

type batchStatus struct {
	queue.Status
	Models []servedModel `json:"models"`
	Lost   int           `json:"lost"` // rows that are neither recorded nor queued; 0 unless the batch's queues are empty
}

type servedModel struct {
	queue.Model
	Workers int  `json:"workers"` // number of workers that serve the name
	Paused  bool `json:"paused"`  // workers take none of its rows
}

func readStatus(ctx context.Context, q *redisqueue.Queue, batch string) (s batchStatus, err error) {
	if _, err = q.Expire(ctx, batch); err != nil {
		return s, err
	}
	if s.Status, err = q.Status(ctx, batch); err != nil {
		return s, err
	}
	paused, err := q.Aliases(ctx)
	if err != nil {
		return s, err
	}
	s.Models = make([]servedModel, len(s.Status.Models))
	for i, m := range s.Status.Models {
		workers, err := q.Workers(ctx, m.Alias)
		if err != nil {
			return s, err
		}
		s.Models[i] = servedModel{m, workers, paused[m.Alias]}
	}
	s.Lost, err = q.Missing(ctx, s.Status)
	return s, err
}

func listBatches(cmd *cobra.Command, q *redisqueue.Queue, asJSON bool) error {
	all, err := q.Batches(cmd.Context())
	if err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	all = slices.DeleteFunc(all, func(s queue.Status) bool {
		if s.Damage != "" {
			cmd.PrintErrf("skipped %s\n", textfmt.Printable(s.Damage))
		}
		return s.Damage != "" || s.Priority == queue.Interactive // a request of a server's client
	})
	if asJSON {
		return writeJSON(cmd.OutOrStdout(), append([]queue.Status{}, all...)) // an empty list is written as [], not null
	}
	t := textfmt.NewTable(cmd.OutOrStdout(), "batch", "state", "rows", "answered", "failed", "model name", "priority", "created")
	for _, s := range all {
		total := "?" // more rows are being queued
		if s.Total > 0 || s.State == queue.Completed {
			total = strconv.Itoa(s.Total)
		}
		t.Line(s.Batch, s.State, total, s.Done, s.Failed, strings.Join(s.Aliases(), ","), s.Priority, s.Created.Local().Format(time.DateTime))
	}
	return t.Flush()
}

func (s *batchStatus) write(w io.Writer) error {
	t := textfmt.NewTable(w)
	line := t.Linef
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
