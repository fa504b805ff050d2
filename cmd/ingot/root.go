package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/config"
)

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2 // the command line or a setting is wrong; nothing was done
	exitRows    = 3 // the command did its work, but too many rows failed, or the verdict of a gate is inconclusive
)

// run executes a command line and returns the exit code. ctx is done when the user interrupts the program.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(append([]string{}, args...)) // for nil, cobra uses the arguments of the process
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	checkAdded(root) // called after SetOut, since the commands that cobra adds keep the output that is set when they are added
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	message, code := oneLine(err.Error()), exitFailure
	var usage *usageError
	if errors.As(err, &usage) {
		message += fmt.Sprintf(" (see %q)", cmd.CommandPath()+" --help")
		code = exitUsage
	}
	var rows *rowsFailedError
	var unknown *inconclusiveError
	if errors.As(err, &rows) || errors.As(err, &unknown) {
		code = exitRows
	}
	fmt.Fprintf(stderr, "ingot: %s\n", message) //nolint:errcheck // there is nowhere to report it
	return code
}

// usageError is an error in the command line or in a setting.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// oneLine joins the lines of an error with semicolons and escapes control characters.
func oneLine(s string) string {
	return printable(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "ingot",
		Short: "Generate text in bulk: a file of prompts in, a file of answers out",
		Long: `Ingot answers files of prompts with a language model.

On one machine, use "ingot run". To share the work between machines, use a Redis server: "ingot enqueue" queues the
rows of a file, each "ingot worker" answers rows, and "ingot results" writes the answers to a file.

A setting comes from its flag, else from an environment variable (INGOT_MODEL for --model), else from a YAML file whose
keys are the names of flags.

Exit codes:
  0  success
  1  failure: the command could not do its work, or was interrupted
  2  wrong usage or settings; nothing was done
  3  the work is done, but every row failed, or more than --fail-on-error allows

"ingot eval gate --help" has the exit codes of a gate.`,
		Example: `  ingot run prompts.jsonl -o answers.jsonl --model model.gguf

  ingot worker --redis redis://localhost:6379/0 --model model.gguf
  BATCH=$(ingot enqueue prompts.jsonl --redis redis://localhost:6379/0)
  ingot results $BATCH --redis redis://localhost:6379/0 -o answers.jsonl --follow`,
		Version:       programVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(cmd.ErrOrStderr())
			if err := cmd.Help(); err != nil {
				return err
			}
			return usagef("a command is missing")
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })

	root.SetUsageFunc(usage)

	flags := root.PersistentFlags()
	config.AddFileFlag(flags)
	config.AddFlag(flags, config.LogLevel)
	config.AddFlag(flags, config.LogFormat)
	addCommands(root)
	keepFlagOrder(root)
	return root
}

// addCommands adds all commands, in the order of the help.
func addCommands(root *cobra.Command) {
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Answer prompts", []*cobra.Command{newRun(), newExport(), newShow(), newServe()}},
		{"Share the work through Redis", []*cobra.Command{newEnqueue(), newWorker(), newResults(), newStatus(), newWorkers(), newErrors(), newRetry(),
			newCancel(), newPurge(), newPause(), newResume()}},
		{"Evaluate models", []*cobra.Command{newEval()}},
		{"Get and look at models", []*cobra.Command{newPull(), newModels(), newModel(), newTokenize(), newRender()}},
		{"Check and measure this machine", []*cobra.Command{newDoctor(), newBench()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(newVersion(), newShare())
}

// checkAdded makes help and completion, the commands that cobra adds, refuse unknown arguments.
func checkAdded(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				topic, rest, err := root.Find(args)
				if err != nil {
					return err
				}
				return noCommand(topic, rest)
			}
		case "completion":
			c.Args, c.RunE = noCommand, noneGiven
		}
	}
}

// noneGiven is the RunE of a command that only has subcommands.
func noneGiven(*cobra.Command, []string) error { return usagef("a command is missing") }

// noCommand checks the arguments of a command that has subcommands. cobra calls it only with names that are not subcommands.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %q?", near[0])
	}
	return usagef("unknown command %q%s", args[0], hint)
}

// arguments returns a check for exactly one argument per name.
func arguments(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usagef("%s is missing", names[len(args)])
		case len(args) > len(names):
			return usagef("unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

// atLeast returns a check for at least one argument.
func atLeast(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s is missing", name)
		}
		return nil
	}
}

// settings loads the settings of a command and checks that the required ones are given.
func settings(cmd *cobra.Command, required ...config.Name) (*config.Config, error) {
	cfg, err := config.Load(cmd.Flags())
	if err != nil {
		return nil, &usageError{err}
	}
	if err := cfg.Require(required...); err != nil {
		return nil, &usageError{err}
	}
	return cfg, nil
}
