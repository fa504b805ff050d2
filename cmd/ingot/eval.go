package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/rows"
)

func newEval() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Evaluate models and compare evaluations",
		Long: `Eval runs evaluation tasks and compares the scores of two runs. A task is a YAML file in the format of EleutherAI's
lm-evaluation-harness; docs/eval.md lists what is supported. A run is a directory.`,
		Example: `  ingot eval run capitals.yaml -o baseline --model model.gguf
  ingot eval run capitals.yaml -o tonight --model model-q4.gguf
  ingot eval gate baseline tonight`,
		Args: noCommand,
		RunE: noneGiven,
	}
	cmd.AddCommand(newEvalRun(), newEvalCompare(), newEvalGate(), newEvalDiff(), newEvalList(), newEvalBaseline(), newEvalSchedule())
	return cmd
}

func newEvalRun() *cobra.Command {
	var e evaluation
	cmd := &cobra.Command{
		Use:   "run TASK.yaml... -o DIR (--model FILE | --redis URL)",
		Short: "Evaluate a model",
		Long: `Run asks a model the rows of tasks, and writes their scores to DIR: results.json, and a samples file per task with every
row's prompt, answer and score. With --model it runs on this machine. With --redis and without --model the workers that
serve --model-name answer.

A run can be interrupted: the same command continues it, and asks nothing twice.`,
		Example: `  ingot eval run gsm8k.yaml --data gsm8k-test.jsonl -o runs/today --model model.gguf
  ingot eval run tasks/*.yaml -o runs/today --redis redis://queue:6379/0 --model-name glm`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("TASK.yaml is missing")
			}
			if e.folder == "" {
				return usagef("-o DIR is missing")
			}
			if e.data != "" && len(args) > 1 {
				return usagef("--data is for one task, and %d are given", len(args))
			}
			e.cmd = cmd
			return e.run(args)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&e.folder, "out", "o", "", "write the run to directory `DIR`")
	flags.StringVar(&e.data, "data", "", "rows of the task: a JSON Lines `FILE`, instead of the one that the task names")
	flags.StringVar(&e.examples, "fewshot-data", "", "rows that examples are taken from: a JSON Lines `FILE`")
	flags.IntVar(&e.limit, "limit", 0, "ask the first `N` rows of each task; 0 for all")
	flags.BoolVar(&e.chat, "chat", false, "send the prompts of tasks that generate as a user's message, through the model's chat template")
	config.AddFlag(flags, config.Redis)
	config.AddFlag(flags, config.ModelName)
	addEngineFlags(flags)
	return cmd
}

// evaluation is the command eval run with its settings.
type evaluation struct {
	cmd                    *cobra.Command
	folder, data, examples string
	limit                  int
	chat                   bool
}

func (e *evaluation) run(paths []string) error {
	sets, err := e.load(paths)
	if err != nil {
		return err
	}
	if err := eval.Prepare(e.folder, sets); err != nil {
		return err
	}
	if err := e.answer(); err != nil {
		return err
	}
	results, err := eval.Score(e.folder, sets, eval.Config{Limit: e.limit, Version: programVersion()})
	if err != nil {
		return err
	}
	return writeScores(e.cmd.OutOrStdout(), results)
}

func (e *evaluation) load(paths []string) ([]*eval.Set, error) {
	var sets []*eval.Set
	for _, path := range paths {
		t, err := task.Read(path)
		if err != nil {
			return nil, err
		}
		if e.data != "" {
			t.Data = e.data
		}
		if e.examples != "" {
			t.FewShotData = e.examples
		}
		for _, other := range sets {
			if other.Name == t.Name {
				return nil, fmt.Errorf("read task %s: its name %q is that of another task", path, t.Name)
			}
		}
		t.Chat = t.Chat || e.chat && t.Type == task.Generate
		s, err := eval.Load(t, e.limit)
		if err != nil {
			return nil, err
		}
		sets = append(sets, s)
	}
	return sets, nil
}

// answer answers the requests of the run on this machine, or through Redis if no model is given.
func (e *evaluation) answer() error {
	cfg, err := settings(e.cmd)
	if err != nil {
		return err
	}
	requests, answers := filepath.Join(e.folder, eval.RequestsFile), filepath.Join(e.folder, eval.AnswersFile)
	if cfg.Model != "" {
		r := runner{cmd: e.cmd, cfg: cfg, in: requests, out: answers, format: rows.FormatJSONL}
		_, err := r.run(e.cmd.Context())
		return err
	}
	if cfg, err = settings(e.cmd, config.Redis); err != nil {
		return fmt.Errorf("%w, or --model FILE to run on this machine", err)
	}
	return e.answerByFleet(cfg, requests, answers)
}

// answerByFleet queues the requests as a batch, whose id the run's directory holds, and waits for the results.
func (e *evaluation) answerByFleet(cfg *config.Config, requests, answers string) error {
	queue, err := dial(e.cmd, cfg)
	if err != nil {
		return err
	}
	defer queue.Close() //nolint:errcheck // everything sent was answered
	batch, err := e.batch()
	if err != nil {
		return err
	}
	in, err := os.Open(requests)
	if err != nil {
		return fmt.Errorf("read requests: %w", err)
	}
	defer in.Close() //nolint:errcheck // it was only read
	_, err = enqueue.Enqueue(e.cmd.Context(), queue, in, enqueue.Options{Batch: batch, Alias: cfg.ModelName, Priority: job.Default, Version: programVersion()})
	if err != nil {
		return err
	}
	r := collecting{cmd: e.cmd, queue: queue, batch: batch, out: answers, follow: true}
	c, err := r.run(e.cmd.Context())
	if err == nil && !c.Finished {
		err = errors.New("the batch has not finished: run the same command again")
	}
	return err
}

// batch returns the id of the run's batch. It is made once for a run.
func (e *evaluation) batch() (string, error) {
	path := filepath.Join(e.folder, "batch")
	id, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		id = []byte("eval-" + enqueue.NewBatchID())
		err = os.WriteFile(path, id, 0o644)
	}
	if err != nil {
		return "", fmt.Errorf("read the batch of the run: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// writeScores prints the scores of a run as a table.
func writeScores(w io.Writer, r *eval.Results) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "task\tmetric\tfilter\tscore\tstderr\trows\tfailed\ttruncated") //nolint:errcheck // Flush reports it
	for _, name := range slices.Sorted(maps.Keys(r.Results)) {
		n := r.Samples[name]
		for _, key := range slices.Sorted(maps.Keys(r.Results[name])) {
			metric, filter, _ := strings.Cut(key, ",")
			if strings.HasSuffix(metric, "_stderr") {
				continue
			}
			stderr := ""
			if v, ok := r.Results[name][metric+"_stderr,"+filter]; ok {
				stderr = fmt.Sprintf("±%.4f", v)
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%.4f\t%s\t%d\t%d\t%d\n", //nolint:errcheck // Flush reports it
				name, metric, filter, r.Results[name][key], stderr, n.Effective, n.Failed, n.Truncated)
		}
	}
	return t.Flush()
}
