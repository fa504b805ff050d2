package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/schedule"
	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/textfmt"
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
	n := nightly{cmd: cmd, queue: queue, folder: c.runs.folder, log: log}
	s, err := schedule.New(queue.Client(), schedule.Options{File: c.file, Evaluate: n.evaluate, Logger: log})
	if err != nil {
		return err
	}
	return s.Run(cmd.Context())
}

type nightly struct {
	cmd    *cobra.Command
	queue  *redisqueue.Queue
	folder string
	log    *slog.Logger
}

// evaluate runs an evaluation through the fleet and judges it. The batch and the directory are
// named after the run, so that another attempt continues them. An error that another attempt would
// only repeat is returned as an outcome, not as an error.
func (n *nightly) evaluate(ctx context.Context, e *schedule.Entry, run string) (schedule.Outcome, error) {
	outcome, err := n.judge(ctx, e, run)
	var unanswered *unansweredError
	if err == nil || errors.As(err, &unanswered) {
		return outcome, err
	}
	return schedule.Outcome{Verdict: schedule.Error, Message: textfmt.OneLine(err.Error())}, nil
}

type unansweredError struct{ error }

func (e *unansweredError) Unwrap() error { return e.error }

func (n *nightly) judge(ctx context.Context, e *schedule.Entry, run string) (o schedule.Outcome, err error) {
	tasks, groups, err := task.ReadAll(e.Tasks, nil)
	if err != nil {
		return o, err
	}
	settings := eval.Settings{Limit: e.Limit}
	if e.Chat {
		settings.Chat = &e.Chat
	}
	sets, err := loadTasks(n.cmd, tasks, settings)
	if err != nil {
		return o, err
	}
	if eval.Judged(sets) && e.Judge == "" {
		return o, errors.New("a task of type judge needs a second model: set \"judge\" of the entry to the model name that workers serve")
	}
	dir, made := filepath.Join(n.folder, run), eval.Config{Limit: e.Limit, Version: programVersion(), Model: e.Model}
	results, err := eval.Evaluate(ctx, dir, sets, groups, made, n.answering(e, e.Model, "eval-"+run), n.answering(e, e.Judge, "judge-"+run))
	if err != nil {
		return o, err
	}
	if e.Gate == nil {
		o = schedule.Outcome{Verdict: schedule.Ungated, Message: results.Unanswered()}
		if o.Message != "" {
			o.Verdict = schedule.Error
		}
		return o, nil
	}
	margin := float64(ownMargin)
	if e.Gate.Margin != nil {
		margin = *e.Gate.Margin
	}
	v, err := eval.Gate(n.folder, e.Gate.Baseline, run, margin)
	if err == nil {
		err = v.Write(dir)
	}
	if err != nil {
		return o, err
	}
	return schedule.Outcome{Verdict: schedule.Verdict(v.Verdict), Message: v.String()}, nil
}

func (n *nightly) answering(e *schedule.Entry, alias, batch string) eval.Answer {
	return func(ctx context.Context, requests, answers string) error {
		workers, err := n.queue.Workers(ctx, alias)
		if err == nil && workers == 0 {
			n.log.WarnContext(ctx, "no worker serves the model name: the rows wait for one until the deadline", "batch", batch, "model", alias)
		}
		if err == nil {
			err = enqueueRequests(ctx, n.queue, requests, enqueue.Options{Batch: batch, Alias: alias, Deadline: time.Now().Add(e.Deadline)})
		}
		if err == nil {
			err = n.collect(ctx, batch, answers)
		}
		if err == nil || errors.Is(err, rows.ErrOtherFile) || errors.Is(err, queue.ErrCancelled) {
			return err
		}
		return &unansweredError{err}
	}
}

func (n *nightly) collect(ctx context.Context, batch, answers string) error {
	out, err := rows.OpenOutput(answers, batch)
	if err != nil {
		return err
	}
	c, err := enqueue.Collect(ctx, n.queue, out, enqueue.CollectOptions{Follow: true})
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
			return out.write(cmd, slots, func(w io.Writer) error { return writeSlots(w, slots) })
		}
		s, err := t.List(cmd.Context(), last)
		if err != nil {
			return err
		}
		return out.write(cmd, s, func(w io.Writer) error {
			if len(s.Schedulers) == 0 {
				cmd.PrintErrln("no scheduler is running")
			}
			return writeEntries(w, s.Entries)
		})
	})
	out.add(cmd.Flags())
	return cmd
}

func writeEntries(w io.Writer, list []schedule.EntryStatus) error {
	t := textfmt.NewTable(w, "entry", "cron", "time zone", "model name", "next", "last slot", "state", "verdict")
	for i := range list {
		e := &list[i]
		next := e.Next.Local().Format(time.DateTime)
		if e.Paused {
			next = "paused"
		}
		var last schedule.Slot
		if len(e.Slots) > 0 {
			last = e.Slots[0]
		}
		t.Line(e.Name, e.Cron, e.TimeZone, e.Model, next, last.Name, last.State, last.Verdict)
	}
	return t.Flush()
}

func writeSlots(w io.Writer, list []schedule.Slot) error {
	t := textfmt.NewTable(w, "slot", "state", "attempts", "started", "ended", "verdict", "notified", "message")
	for i := range list {
		s := &list[i]
		t.Line(s.Name, s.State, s.Attempt, s.Started, s.Ended, s.Verdict, textfmt.OneLine(s.Notified), textfmt.OneLine(s.Message))
	}
	return t.Flush()
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
