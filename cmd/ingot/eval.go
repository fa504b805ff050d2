package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/task"
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
	cmd.AddCommand(newEvalRun(), newEvalCompare(), newEvalGate(), newEvalDiff(), newEvalReport(), newEvalList(), newEvalBaseline(), newEvalSchedule())
	return cmd
}

func newEvalRun() *cobra.Command {
	var e evaluation
	cmd := &cobra.Command{
		Use:   "run TASK... -o DIR (--model MODEL | --redis URL | --base-url URL)",
		Short: "Evaluate a model",
		Long: `Run sends the rows of tasks to a model, and writes their scores to DIR/results.json. Each task has a samples file in DIR
with the prompt, answer and score of every row. TASK is a file of a task or of a group, or the name of a built-in task:
` + strings.Join(task.Builtin(), ", ") + `.
Built-in tasks need --data, a JSON Lines file of the benchmark's rows.

With --model, this machine answers. With --base-url, a server with OpenAI's API answers. With --redis, the workers that
serve --model-name answer. Tasks that score given texts need a server whose completions support echo and logprobs;
eval run checks this before it begins.

A run can be interrupted: the same command continues it and repeats no request.`,
		Example: `  ingot eval run gsm8k --data gsm8k-test.jsonl --fewshot-data gsm8k-train.jsonl -o runs/today --model model.gguf
  ingot eval run tasks/*.yaml -o runs/today --redis redis://queue:6379/0 --model-name glm
  ingot eval run ifeval --data ifeval.jsonl --chat -o runs/today --base-url http://gpu:8000/v1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("TASK is missing")
			}
			if e.folder == "" {
				return usagef("-o DIR is missing")
			}
			e.cmd = cmd
			return e.run(args)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&e.folder, "out", "o", "", "write the run to directory `DIR`")
	flags.StringVar(&e.data, "data", "", "rows of the task: a JSON Lines `FILE`, instead of the one that the task names")
	flags.StringVar(&e.examples, "fewshot-data", "", "rows that examples are taken from: a JSON Lines `FILE`")
	flags.IntVar(&e.shots, "num-fewshot", -1, "put `N` examples before each prompt (default the task's number)")
	flags.Lookup("num-fewshot").DefValue = "0" // the help prints no default of 0
	flags.IntVar(&e.limit, "limit", 0, "score the first `N` rows of each task; 0 for all")
	flags.StringVar(&e.cache, "cache", "", "keep answers in `DIR`, and reuse an earlier run's answers to the same requests")
	flags.BoolVar(&e.chat, "chat", false, "send the prompts of tasks that generate as a user's message, through the model's chat template")
	flags.StringVar(&e.who.url, "base-url", "", "send the requests to the server with OpenAI's API at `URL`, such as http://host:8080/v1")
	flags.StringVar(&e.who.name, "server-model", "", "use the server's model `NAME` (default its only model)")
	flags.StringVar(&e.who.key, "api-key-env", openAIKey, "read the server's API key from the environment variable `NAME`")
	flags.StringVar(&e.judge.model, "judge-model", "", "score the answers of tasks of type judge with the model in `FILE`")
	flags.StringVar(&e.judge.name, "judge-model-name", "", "score those answers with the model that workers, or the judge's server, serve as `NAME`")
	flags.StringVar(&e.judge.url, "judge-base-url", "", "score those answers with the server at `URL`")
	flags.StringVar(&e.judge.key, "judge-api-key-env", openAIKey, "read the API key of the judge's server from the environment variable `NAME`")
	config.AddFlag(flags, config.Redis)
	config.AddFlag(flags, config.ModelName)
	addEngineFlags(flags)
	return cmd
}

// evaluation is one execution of "ingot eval run", with its settings.
type evaluation struct {
	cmd                    *cobra.Command
	folder, data, examples string
	limit, shots           int // numbers of rows and of examples; if shots is negative, each task's own number is used
	chat                   bool
	cache                  string // the folder of cached answers; empty for none
	who, judge             answerer
}

func (e *evaluation) run(paths []string) error {
	tasks, groups, err := task.ReadAll(paths)
	if err != nil {
		return err
	}
	if e.data != "" && len(tasks) > 1 {
		return usagef("--data is for one task, and %d are given", len(tasks))
	}
	sets, err := e.load(tasks)
	if err != nil {
		return err
	}
	if err := eval.Prepare(e.folder, sets); err != nil {
		return err
	}
	if err := e.choose(sets); err != nil {
		return err
	}
	if err := e.checkEcho(sets); err != nil {
		return err
	}
	if err := e.answer(e.who, eval.RequestsFile, eval.AnswersFile); err != nil {
		return err
	}
	if eval.Judged(sets) {
		if err := eval.PrepareJudge(e.folder, sets); err != nil {
			return err
		}
		if err := e.answer(e.judge, eval.JudgeRequestsFile, eval.JudgeAnswersFile); err != nil {
			return fmt.Errorf("score the answers with the judge: %w", err)
		}
	}
	made := eval.Config{Limit: e.limit, Version: programVersion(), Model: e.who.shown(), Server: e.who.server()}
	if made.ChatTemplate, err = templateSum(e.who.model); err != nil {
		return err
	}
	results, err := eval.Score(e.folder, sets, groups, made)
	if err != nil {
		return err
	}
	return writeScores(e.cmd.OutOrStdout(), results)
}

// load reads the rows of tasks. It prints how many rows it leaves out, and why.
func (e *evaluation) load(tasks []*task.Task) ([]*eval.Set, error) {
	var sets []*eval.Set
	for _, t := range tasks {
		if e.data != "" {
			t.Data = e.data
		}
		if e.examples != "" {
			t.FewShotData = e.examples
		}
		if e.shots >= 0 {
			t.Shots = e.shots
		}
		t.Chat = t.Chat || e.chat && t.Type.Generates()
		s, err := eval.Load(t, e.limit)
		if err != nil {
			return nil, err
		}
		for _, reason := range slices.Sorted(maps.Keys(s.Skipped)) {
			e.cmd.PrintErrf("%s: %s: %s\n", printable(t.Name), countRows(s.Skipped[reason]), printable(reason))
		}
		sets = append(sets, s)
	}
	return sets, nil
}

// writeScores prints the scores of a run as a table: first the tasks, then the groups.
func writeScores(w io.Writer, r *eval.Results) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "task\tmetric\tfilter\tscore\tstderr\trows\tfailed\ttruncated") //nolint:errcheck // Flush reports it
	line := func(name string, scores map[string]float64, n eval.Count) {
		for _, key := range slices.Sorted(maps.Keys(scores)) {
			metric, filter, _ := strings.Cut(key, ",")
			if strings.HasSuffix(metric, "_stderr") {
				continue
			}
			stderr := ""
			if v, ok := scores[metric+"_stderr,"+filter]; ok {
				stderr = fmt.Sprintf("±%.4f", v)
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%.4f\t%s\t%d\t%d\t%d\n", //nolint:errcheck // Flush reports it
				printable(name), metric, printable(filter), scores[key], stderr, n.Effective, n.Failed, n.Truncated)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Results)) {
		line(name, r.Results[name], r.Samples[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.Groups)) {
		var n eval.Count
		for _, member := range r.Subtasks[name] {
			count := r.Samples[member]
			n.Effective, n.Failed, n.Truncated = n.Effective+count.Effective, n.Failed+count.Failed, n.Truncated+count.Truncated
		}
		line(name+" (group)", r.Groups[name], n)
	}
	return t.Flush()
}
