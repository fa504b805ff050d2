package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/launch"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/report"
	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/eval/taskcode"
	"github.com/ingot-run/ingot/internal/textfmt"
)

func newEval() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Evaluate models and compare evaluations",
		Args:  noCommand,
		RunE:  noneGiven,
	}
	cmd.AddCommand(newEvalRun(), newEvalCompare(), newEvalGate(), newEvalDiff(), newEvalReport(), newEvalList(), newEvalBaseline(), newEvalSchedule())
	return cmd
}

func newEvalRun() *cobra.Command {
	var e evalRun
	cmd := &cobra.Command{
		Use:   "run TASK... -o DIR (--model MODEL | --redis URL | --base-url URL)",
		Short: "Evaluate a model",
		Args:  atLeast("TASK"),
		RunE:  e.run,
	}
	e.add(cmd.Flags())
	return cmd
}

type evalRun struct {
	cmd        *cobra.Command
	cfg        *config.Config
	folder     string
	shots      int // number of examples; each task's own number is used unless the flag is given
	chat       bool
	multiturn  bool
	cache      string
	trust      string // "sandboxed" or "unsandboxed" if Python functions of tasks may run
	format     outputFormat
	settings   eval.Settings
	report     summaryFlags
	who, judge answerer
}

func (e *evalRun) add(flags *pflag.FlagSet) {
	flags.StringVarP(&e.folder, "out", "o", "", "write the run to directory `DIR`")
	flags.StringVar(&e.settings.Data, "data", "", "rows of the task: a JSON Lines `FILE`, instead of the one that the task names")
	flags.StringVar(&e.settings.Examples, "fewshot-data", "", "rows that examples are taken from: a JSON Lines `FILE`")
	flags.IntVar(&e.shots, "num-fewshot", 0, "put `N` examples before each prompt (default the task's number)")
	flags.IntVar(&e.settings.Limit, "limit", 0, "score the first `N` rows of each task; 0 for all")
	flags.Var(&e.format, "output-format", "also write results and samples in the format `lm-eval`, that of lm-evaluation-harness, to DIR/lm-eval")
	flags.StringVar(&e.cache, "cache", "", "keep answers in `DIR`, and reuse an earlier run's answers to the same requests")
	flags.BoolVar(&e.chat, "chat", false, "send the prompts of tasks that generate as messages, through the model's chat template (default as the task says)")
	flags.BoolVar(&e.multiturn, "fewshot-as-multiturn", true, "with --chat: send each example as a message of the user and one of the assistant; false: examples and question are one message (default as the task says)")
	flags.StringVar(&e.who.url, "base-url", "", "send the requests to the server with OpenAI's API at `URL`, such as http://host:8080/v1")
	flags.StringVar(&e.who.name, "server-model", "", "use the server's model `NAME` (default its only model)")
	flags.StringVar(&e.who.key, "api-key-env", openAIKey, "read the server's API key from the environment variable `NAME`")
	flags.StringVar(&e.judge.model, "judge-model", "", "score the answers of tasks of type judge with the model in `FILE`")
	flags.StringVar(&e.judge.name, "judge-model-name", "", "score those answers with the model that workers, or the judge's server, serve as `NAME`")
	flags.StringVar(&e.judge.url, "judge-base-url", "", "score those answers with the server at `URL`")
	flags.StringVar(&e.judge.key, "judge-api-key-env", openAIKey, "read the API key of the judge's server from the environment variable `NAME`")
	flags.StringVar(&e.trust, "trust-task-code", "", "run the Python functions of the tasks that Ingot does not have, with python3: they can read and write your files, and have no network unless `MODE` is unsandboxed")
	flags.Lookup("trust-task-code").NoOptDefVal = sandboxed
	config.AddFlag(flags, config.Redis)
	config.AddFlag(flags, config.Alias)
	e.report.add(flags, " and the scores")
	addEngineFlags(flags)
}

const sandboxed = "sandboxed"

// python returns the process for Python functions of tasks, or nil if they may not run.
func (e *evalRun) python() (*taskcode.Process, error) {
	switch e.trust {
	case "":
		return nil, nil //nolint:nilnil // no process refuses Python functions
	case sandboxed, "unsandboxed":
		return &taskcode.Process{Unsandboxed: e.trust != sandboxed}, nil
	}
	return nil, usagef("--trust-task-code is %q, but must be sandboxed (as without a value) or unsandboxed", e.trust)
}

func (e *evalRun) run(cmd *cobra.Command, paths []string) error {
	e.cmd = cmd
	e.report.begin(cmd)
	if e.folder == "" {
		return usagef("-o DIR is missing")
	}
	python, err := e.python()
	if err != nil {
		return err
	}
	defer python.Close()
	sets, groups, err := e.load(paths, python)
	if err != nil {
		return err
	}
	if e.cfg, err = settings(cmd); err != nil {
		return err
	}
	e.cfg.Engine.Recommended = false // tasks set all options
	if !slices.Contains(e.cfg.FromFlags, config.Precision) {
		e.cfg.Precision = compute.High // a setting made for speed must not change scores
	}
	if err := e.choose(sets); err != nil {
		return err
	}
	made := eval.Config{Limit: e.settings.Limit, Version: programVersion(), Model: e.who.shown(), Server: e.who.server()}
	if e.who.model != "" {
		if made.ChatTemplate, err = launch.TemplateSum(e.who.model); err != nil {
			return err
		}
	}
	results, err := eval.Evaluate(cmd.Context(), e.folder, sets, groups, made, e.answering(e.who), e.answering(e.judge))
	if err != nil {
		return err
	}
	if e.format != "" {
		if err := eval.Save(e.folder, sets, groups, results); err != nil {
			return err
		}
		cmd.PrintErrln("lm-eval: " + textfmt.Printable(eval.SavedFolder(e.folder, results.Config)))
	}
	return e.print(results)
}

// load reads the tasks and their rows, as the flags say.
func (e *evalRun) load(paths []string, python *taskcode.Process) ([]*eval.Set, []task.Group, error) {
	for _, c := range []struct {
		flag string
		n    int
	}{{"num-fewshot", e.shots}, {"limit", e.settings.Limit}} {
		if c.n < 0 {
			return nil, nil, usagef("--%s is %d: it must be at least 0", c.flag, c.n)
		}
	}
	tasks, groups, err := task.ReadAll(paths, python)
	if err != nil {
		return nil, nil, err
	}
	if e.settings.Data != "" && len(tasks) > 1 {
		return nil, nil, usagef("--data is for one task, and %d are given", len(tasks))
	}
	for name, set := range map[string]func(){
		"num-fewshot": func() { e.settings.Shots = &e.shots }, "chat": func() { e.settings.Chat = &e.chat },
		"fewshot-as-multiturn": func() { e.settings.Multiturn = &e.multiturn },
	} {
		if e.cmd.Flags().Changed(name) {
			set()
		}
	}
	sets, err := eval.LoadAll(tasks, e.settings)
	if err != nil {
		return nil, nil, err
	}
	for _, line := range append(eval.Notes(sets), eval.Advice(sets)...) {
		e.cmd.PrintErrln(line)
	}
	return sets, groups, nil
}

// print prints the scores and the notes about them. It fails if too many rows have no score.
func (e *evalRun) print(r *eval.Results) error {
	var err error
	if e.report.json {
		err = e.report.write(e.cmd, r)
	} else {
		err = report.WriteScores(e.cmd.OutOrStdout(), r)
	}
	if err != nil {
		return err
	}
	for _, line := range r.Notes() {
		e.cmd.PrintErrln(line)
	}
	return r.CheckScored(e.folder, func(text string) { e.cmd.PrintErrln(text) })
}

// outputFormat is the value of --output-format.
type outputFormat string

func (f *outputFormat) String() string { return string(*f) }

func (f *outputFormat) Type() string { return "string" }

func (f *outputFormat) Set(s string) error {
	if s != "lm-eval" {
		return errors.New("the only other format is lm-eval")
	}
	*f = outputFormat(s)
	return nil
}

func (e *evalRun) choose(sets []*eval.Set) (err error) {
	switch {
	case e.who.url == "":
		if e.judge.name == "" && slices.Contains(e.cfg.FromFlags, config.Redis) {
			if err := chooseSource(e.cfg); err != nil {
				return err
			}
		}
		e.who.model, e.who.name = e.cfg.Model, e.cfg.Alias
	case e.cmd.Flags().Changed(string(config.Model)):
		return usagef("--model and --base-url cannot be combined: give one")
	}
	if e.who.model == "" && e.who.url == "" && e.cfg.Redis == "" {
		return usagef("a model is missing: give --model FILE to run on this machine, --base-url URL to use a server, or --redis URL to use a fleet")
	}
	if eval.Judged(sets) && e.judge.model == "" && e.judge.url == "" && e.judge.name == "" {
		return usagef("a task of type judge needs a second model: give --judge-model FILE, --judge-base-url URL, or --judge-model-name NAME of a fleet")
	}
	for _, model := range []*string{&e.who.model, &e.judge.model} {
		if *model != "" {
			if *model, err = launch.ModelFile(*model); err != nil {
				return err
			}
		}
	}
	return e.checkEcho(e.cmd.Context(), sets)
}

// answering returns the function that sends requests to a model. With --cache, only requests
// without a cached answer are sent.
func (e *evalRun) answering(who answerer) eval.Answer {
	if e.cache == "" {
		return func(ctx context.Context, requests, answers string) error { return e.ask(ctx, who, requests, answers) }
	}
	return func(ctx context.Context, requests, answers string) error {
		c, err := e.cacheOf(ctx, who)
		if err != nil {
			return err
		}
		return c.Answer(ctx, requests, answers, func(filled int) error {
			e.cmd.PrintErrln(countRows(filled) + " from the cache")
			return e.ask(ctx, who, requests, answers)
		})
	}
}
