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
)

// run is the program without its process: it carries out one command line and returns the exit code. ctx is done when the
// user asks for the end.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(append([]string{}, args...)) // nil would stand for those of the process
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	checkAdded(root) // which write where they find stdout now
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
	fmt.Fprintf(stderr, "ingot: %s\n", message) //nolint:errcheck // nobody is left to be told
	return code
}

// usageError is a mistake in the command line or in a setting.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

func oneLine(s string) string {
	return printable(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "ingot",
		Short: "Generate text in bulk: a file of prompts in, a file of answers out",
		Long: `Ingot answers files of prompts with a language model of its own engine.

On one machine, "ingot run" does all of it. For many machines, "ingot enqueue" puts the rows of a file into
Redis, "ingot worker" answers them wherever it runs, and "ingot results" writes the answers to a file.

Settings are taken from flags, else from the environment (INGOT_MODEL for --model, and so on), else from a
YAML file with the flags' names as keys. Exit codes: 0 done, 1 failed, 2 wrong usage or settings.`,
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

	flags := root.PersistentFlags()
	flags.SortFlags = false
	config.AddFileFlag(flags)
	config.AddFlag(flags, config.LogLevel)
	config.AddFlag(flags, config.LogFormat)
	root.AddCommand(
		newRun(), newEnqueue(), newWorker(), newResults(), newStatus(), newCancel(), newShow(),
		newBench(), newDoctor(), newModel(), newTokenize(), newRender(), newVersion(),
	)
	return root
}

// checkAdded has the commands that cobra adds by itself refuse an argument that names nothing, as the others do.
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

// noneGiven is a command that has others below it and does nothing by itself.
func noneGiven(*cobra.Command, []string) error { return usagef("a command is missing") }

// noCommand is the check of a command that has others below it and got an argument that names none of them.
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

// arguments is the check of a command that takes one argument for each of the names.
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

// settings loads the settings of a command and sees that the required ones are there.
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
