package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/schedule"
	"github.com/ingot-run/ingot/eval/statistics"
	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

func newEvalSchedule() *cobra.Command {
	var file, folder string
	cmd := &cobra.Command{
		Use:   "schedule -f FILE --redis URL",
		Short: "Run evaluations at set times",
		Long: `Schedule runs the evaluations of FILE at their times, through the workers of the fleet, and compares them with pinned
baselines. docs/eval.md describes FILE. A changed FILE is read without a restart.

Several schedulers may serve the same FILE. Each time of an entry is run once. If a scheduler dies in the middle of a run,
another one continues it.`,
		Example: `  ingot eval schedule -f schedule.yaml --redis redis://localhost:6379/0
  ingot eval schedule list --redis redis://localhost:6379/0
  ingot eval schedule run-now nightly --redis redis://localhost:6379/0`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
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
			log := newLogger(cfg, cfg.LogLevel, cmd.ErrOrStderr())
			n := nightly{cmd: cmd, queue: queue, folder: folder, log: log}
			s, err := schedule.New(queue.Client(), schedule.Options{File: file, Evaluate: n.evaluate, Logger: log})
			if err != nil {
				return err
			}
			return s.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "run the evaluations of the schedule `FILE`")
	addRunsFlag(cmd.Flags(), &folder)
	config.AddFlag(cmd.Flags(), config.Redis)
	cmd.AddCommand(newScheduleList(), newScheduleRunNow(), newSchedulePause(), newScheduleResume())
	return cmd
}

// nightly runs the evaluations of a schedule.
type nightly struct {
	cmd    *cobra.Command
	queue  *redisqueue.Queue
	folder string
	log    *slog.Logger
}

// evaluate runs an evaluation through the fleet and judges it. The batch and the directory are named after the run, so that another attempt
// continues them. An error that another attempt would only repeat is returned as an outcome, not as an error.
func (n *nightly) evaluate(ctx context.Context, e *schedule.Entry, run string) (schedule.Outcome, error) {
	failed := func(err error) (schedule.Outcome, error) {
		return schedule.Outcome{Verdict: schedule.Error, Message: oneLine(err.Error())}, nil
	}
	tasks, groups, err := task.ReadAll(e.Tasks)
	if err != nil {
		return failed(err)
	}
	sets, err := (&evaluation{cmd: n.cmd, limit: e.Limit, shots: -1, chat: e.Chat}).load(tasks)
	if err != nil {
		return failed(err)
	}
	dir := filepath.Join(n.folder, run)
	if err := eval.Prepare(dir, sets); err != nil {
		return failed(err)
	}
	err = n.answer(ctx, e, asked{e.Model, "eval-" + run, filepath.Join(dir, eval.RequestsFile), filepath.Join(dir, eval.AnswersFile)})
	if err == nil && eval.Judged(sets) {
		if e.Judge == "" {
			return failed(errors.New("a task of type judge needs a second model: set \"judge\" of the entry to the model name that workers serve"))
		}
		if err := eval.PrepareJudge(dir, sets); err != nil {
			return failed(err)
		}
		err = n.answer(ctx, e, asked{e.Judge, "judge-" + run, filepath.Join(dir, eval.JudgeRequestsFile), filepath.Join(dir, eval.JudgeAnswersFile)})
	}
	if errors.Is(err, rows.ErrOtherFile) || errors.Is(err, queue.ErrCancelled) {
		return failed(err)
	}
	if err != nil {
		return schedule.Outcome{}, err
	}
	results, err := eval.Score(dir, sets, groups, eval.Config{Limit: e.Limit, Version: programVersion(), Model: e.Model})
	if err != nil {
		return failed(err)
	}
	if e.Gate == nil {
		return ungated(results), nil
	}
	margin := float64(ownMargin)
	if e.Gate.Margin != nil {
		margin = *e.Gate.Margin
	}
	j, err := eval.Gate(n.folder, e.Gate.Baseline, run, margin)
	if err == nil {
		err = j.Write(dir)
	}
	if err != nil {
		return failed(err)
	}
	return schedule.Outcome{Verdict: schedule.Verdict(j.Verdict), Message: judged(j)}, nil
}

// asked describes requests to a model: the model name, the batch id, the path of the requests' file, and that of the answers' file.
type asked struct{ model, batch, requests, answers string }

// answer queues requests and waits for the answers.
func (n *nightly) answer(ctx context.Context, e *schedule.Entry, a asked) error {
	in, err := os.Open(a.requests)
	if err != nil {
		return fmt.Errorf("read requests: %w", err)
	}
	defer in.Close() //nolint:errcheck // the file was only read
	workers, err := n.queue.Workers(ctx, a.model)
	if err != nil {
		return err
	}
	if workers == 0 {
		n.log.WarnContext(ctx, "no worker serves the model name: the rows wait for one until the deadline", "batch", a.batch, "model", a.model)
	}
	_, err = enqueue.Enqueue(ctx, n.queue, in, enqueue.Options{
		Batch: a.batch, Alias: a.model, Priority: queue.Default, Format: rows.FormatJSONL, Version: programVersion(), Deadline: time.Now().Add(e.Deadline),
	})
	if err != nil {
		return err
	}
	out, err := rows.OpenOutput(a.answers, a.batch)
	if err != nil {
		return err
	}
	c, err := enqueue.Collect(ctx, n.queue, out, enqueue.CollectOptions{Follow: true})
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("read results: %w", err)
	}
	if err := problem(c, a.batch, a.answers); err != nil {
		return err
	}
	if c.Cancelled {
		return fmt.Errorf("read results of %s: %w", a.batch, queue.ErrCancelled)
	}
	return nil
}

// ungated returns the outcome of a run that no gate judges. The verdict is Error if so many rows have no answer that a gate would fail the
// run.
func ungated(r *eval.Results) schedule.Outcome {
	var parts []string
	o := schedule.Outcome{Verdict: schedule.Ungated}
	for _, name := range slices.Sorted(maps.Keys(r.Samples)) {
		n := r.Samples[name]
		if eval.TooManyFailed(n.Failed, n.Original) {
			parts = append(parts, fmt.Sprintf("%s: %d of %s have no answer", name, n.Failed, countRows(n.Original)))
			o.Verdict = schedule.Error
		}
	}
	o.Message = strings.Join(parts, "; ")
	return o
}

// judged describes a verdict in one line, with the comparisons that did not pass.
func judged(j *eval.GateVerdict) string {
	var parts []string
	for _, c := range j.Compared {
		if c.Verdict == statistics.Pass {
			continue
		}
		text := fmt.Sprintf("%s %s: %.4f after %.4f, %+.4f (95 %%: %+.4f to %+.4f)", c.Task, c.Metric, c.Candidate, c.Baseline, c.Mean, c.Low, c.High)
		if c.Failed > 0 {
			text += fmt.Sprintf(", %s without an answer", countRows(c.Failed))
		}
		parts = append(parts, text+": "+string(c.Verdict))
	}
	if len(parts) == 0 {
		return "as good as " + j.Run
	}
	return "compared with " + j.Run + ": " + strings.Join(parts, "; ")
}

// onSchedule returns the RunE of a command about a schedule. args may name one entry of the schedule.
func onSchedule(run func(cmd *cobra.Command, t *schedule.Table, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		for _, name := range args {
			if err := eval.CheckName("entry", name); err != nil {
				return &usageError{err}
			}
		}
		return onRedis(func(cmd *cobra.Command, queue *redisqueue.Queue, _ []string) error {
			return run(cmd, schedule.NewTable(queue.Client()), args)
		})(cmd, nil)
	}
}

func newScheduleList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list [ENTRY] --redis URL",
		Short: "List the entries of the schedule, or the last runs of one",
		Long: `List prints the entries of the schedule that running schedulers serve: when each runs next, and the state and verdict of its
last slot. A slot is one of the times at which an entry is due. With ENTRY it prints the entry's last 20 slots.

States of a slot: waiting, running, done, missed (no scheduler ran), overlapped (an earlier run was not finished) and
paused.`,
		Example: `  ingot eval schedule list --redis redis://localhost:6379/0
  ingot eval schedule list nightly --redis redis://localhost:6379/0`,
		Args: optionalArgument,
		RunE: onSchedule(func(cmd *cobra.Command, t *schedule.Table, args []string) error {
			const last = 20
			if len(args) == 1 {
				slots, err := t.Slots(cmd.Context(), args[0], last)
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(cmd.OutOrStdout(), slots)
				}
				return writeSlots(cmd.OutOrStdout(), slots)
			}
			s, err := t.List(cmd.Context(), last)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), s)
			}
			if len(s.Schedulers) == 0 {
				cmd.PrintErrln("no scheduler is running")
			}
			return writeEntries(cmd.OutOrStdout(), s.Entries)
		}),
	}
	config.AddFlag(cmd.Flags(), config.Redis)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func writeEntries(w io.Writer, list []schedule.EntryStatus) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "entry\tcron\ttime zone\tmodel name\tnext\tlast slot\tstate\tverdict") //nolint:errcheck // Flush reports it
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
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", //nolint:errcheck // Flush reports it
			printable(e.Name), printable(e.Cron), printable(e.TimeZone), printable(e.Model), next, printable(last.Name), printable(string(last.State)), printable(string(last.Verdict)))
	}
	return t.Flush()
}

func writeSlots(w io.Writer, list []schedule.Slot) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "slot\tstate\tattempts\tstarted\tended\tverdict\tnotified\tmessage") //nolint:errcheck // Flush reports it
	for i := range list {
		s := &list[i]
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", //nolint:errcheck // Flush reports it
			printable(s.Name), printable(string(s.State)), s.Attempt, printable(s.Started), printable(s.Ended), printable(string(s.Verdict)), oneLine(s.Notified), oneLine(s.Message))
	}
	return t.Flush()
}

func newScheduleRunNow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run-now ENTRY --redis URL",
		Short: "Run an entry of the schedule now",
		Long: `Run-now makes a running scheduler run ENTRY now, and prints the name of the run. If the entry is running, the new
run starts after that run. If another run is waiting already, the command fails.`,
		Example: "  ingot eval schedule run-now nightly --redis redis://localhost:6379/0",
		Args:    arguments("ENTRY"),
		RunE: onSchedule(func(cmd *cobra.Command, t *schedule.Table, args []string) error {
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
		}),
	}
	config.AddFlag(cmd.Flags(), config.Redis)
	return cmd
}

func newSchedulePause() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pause ENTRY --redis URL",
		Short: "Stop running an entry of the schedule",
		Long: `Pause stops ENTRY until "ingot eval schedule resume". Its slots until then are skipped, and not run later
either. A run that has started is finished.`,
		Example: "  ingot eval schedule pause nightly --redis redis://localhost:6379/0",
		Args:    arguments("ENTRY"),
		RunE: onSchedule(func(cmd *cobra.Command, t *schedule.Table, args []string) error {
			return reportChange(cmd, args[0], t.Pause, "paused", "was paused before")
		}),
	}
	config.AddFlag(cmd.Flags(), config.Redis)
	return cmd
}

func newScheduleResume() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resume ENTRY --redis URL",
		Short:   "Run an entry of the schedule again",
		Long:    "Resume lets ENTRY run again, from its next slot on.",
		Example: "  ingot eval schedule resume nightly --redis redis://localhost:6379/0",
		Args:    arguments("ENTRY"),
		RunE: onSchedule(func(cmd *cobra.Command, t *schedule.Table, args []string) error {
			return reportChange(cmd, args[0], t.Resume, "resumed", "was not paused")
		}),
	}
	config.AddFlag(cmd.Flags(), config.Redis)
	return cmd
}
