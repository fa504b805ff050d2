package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/schedule"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

func newEvalSchedule() *cobra.Command {
	var c evalSchedule
	cmd := &cobra.Command{
		Use:   "schedule -f FILE --redis URL",
		Short: "Run evaluations at set times",
		Args:  noCommand,
		RunE:  c.run,
	}
	cmd.Flags().StringVarP(&c.file, "file", "f", "", "run the evaluations of the schedule `FILE`")
	c.runs.add(cmd.Flags())
	config.AddFlag(cmd.Flags(), config.Redis)
	cmd.AddCommand(newScheduleList(), newScheduleRunNow(), newSchedulePause(), newScheduleResume())
	return cmd
}

type evalSchedule struct {
	file string
	runs runsFlag
}

func (c *evalSchedule) run(cmd *cobra.Command, _ []string) error {
	if c.file == "" {
		return usagef("-f FILE is missing")
	}
	cfg, err := settings(cmd, config.Redis)
	if err != nil {
		return err
	}
	queue, err := dial(cmd, cfg)
	if err != nil {
		return err
	}
	defer queue.Close() //nolint:errcheck // Redis has answered every command
	log := newLogger(cfg, cmd.ErrOrStderr())
	fleet := scheduled{queue: queue, log: log}
	e := schedule.Evaluator{
		Folder: c.runs.folder, Version: programVersion(), Note: func(text string) { cmd.PrintErrln(text) }, Answer: fleet.answering,
	}
	s, err := schedule.New(queue.Client(), schedule.Options{File: c.file, Evaluate: e.Evaluate, Logger: log})
	if err != nil {
		return err
	}
	return s.Run(cmd.Context())
}

// scheduled answers the requests of scheduled runs with a fleet.
type scheduled struct {
	queue *redisqueue.Queue
	log   *slog.Logger
}

func (f *scheduled) answering(e *schedule.Entry, alias, batch string) eval.Answer {
	return func(ctx context.Context, requests, answers string) error {
		workers, err := f.queue.Workers(ctx, alias)
		if err == nil && workers == 0 {
			f.log.WarnContext(ctx, "no worker serves the model name: the rows wait for one until the deadline", "batch", batch, "model", alias)
		}
		if err == nil {
			err = enqueueRequests(ctx, f.queue, requests, enqueue.Options{Batch: batch, Alias: alias, Deadline: time.Now().Add(e.Deadline)})
		}
		if err == nil {
			err = f.collect(ctx, batch, answers)
		}
		if err == nil || errors.Is(err, rows.ErrOtherFile) || errors.Is(err, queue.ErrCancelled) {
			return err
		}
		return &schedule.UnansweredError{Err: err}
	}
}

func (f *scheduled) collect(ctx context.Context, batch, answers string) error {
	out, err := rows.OpenOutput(answers, batch)
	if err != nil {
		return err
	}
	c, err := enqueue.Collect(ctx, f.queue, out, enqueue.CollectOptions{Follow: true})
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("read results: %w", err)
	}
	if err := c.Check(batch, answers); err != nil {
		return err
	}
	if c.Cancelled {
		return fmt.Errorf("read results of %s: %w", batch, queue.ErrCancelled)
	}
	return nil
}

// scheduleCommand completes a command about a schedule. args may name one entry of the schedule.
func scheduleCommand(cmd *cobra.Command, run func(cmd *cobra.Command, t *schedule.Table, args []string) error) *cobra.Command {
	config.AddFlag(cmd.Flags(), config.Redis)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, name := range args {
			if err := eval.CheckName("entry", name); err != nil {
				return &usageError{err}
			}
		}
		return onRedis(func(cmd *cobra.Command, queue *redisqueue.Queue, _ []string) error {
			return run(cmd, schedule.NewTable(queue.Client()), args)
		})(cmd, nil)
	}
	return cmd
}

func newScheduleList() *cobra.Command {
	const last = 20
	var out jsonFlag
	cmd := scheduleCommand(&cobra.Command{
		Use:   "list [ENTRY] --redis URL",
		Short: "List the entries of the schedule, or the last runs of one",
		Args:  optionalArgument,
	}, func(cmd *cobra.Command, t *schedule.Table, args []string) error {
		if len(args) == 1 {
			slots, err := t.Slots(cmd.Context(), args[0], last)
			if err != nil {
				return err
			}
			return out.write(cmd, slots, func(w io.Writer) error { return schedule.WriteSlots(w, slots) })
		}
		s, err := t.List(cmd.Context(), last)
		if err != nil {
			return err
		}
		return out.write(cmd, s, func(w io.Writer) error {
			if len(s.Schedulers) == 0 {
				cmd.PrintErrln("no scheduler is running")
			}
			return schedule.WriteEntries(w, s.Entries)
		})
	})
	out.add(cmd.Flags())
	return cmd
}

func newScheduleRunNow() *cobra.Command {
	return scheduleCommand(&cobra.Command{
		Use:   "run-now ENTRY --redis URL",
		Short: "Run an entry of the schedule now",
		Args:  arguments("ENTRY"),
	}, func(cmd *cobra.Command, t *schedule.Table, args []string) error {
		run, err := t.RunNow(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		s, err := t.List(cmd.Context(), 1)
		if err == nil && len(s.Schedulers) == 0 {
			cmd.PrintErrln("no scheduler is running: the run starts when there is one")
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), run)
		return err
	})
}

func newSchedulePause() *cobra.Command {
	return scheduleCommand(&cobra.Command{
		Use:   "pause ENTRY --redis URL",
		Short: "Stop running an entry of the schedule",
		Args:  arguments("ENTRY"),
	}, func(cmd *cobra.Command, t *schedule.Table, args []string) error {
		return reportChange(cmd, args[0], t.Pause, "paused", "was paused before")
	})
}

func newScheduleResume() *cobra.Command {
	return scheduleCommand(&cobra.Command{
		Use:   "resume ENTRY --redis URL",
		Short: "Run an entry of the schedule again",
		Args:  arguments("ENTRY"),
	}, func(cmd *cobra.Command, t *schedule.Table, args []string) error {
		return reportChange(cmd, args[0], t.Resume, "resumed", "was not paused")
	})
}
