package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/launch"
	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/manual"
	"github.com/ingot-run/ingot/internal/textfmt"
)

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2 // the command line or a setting is wrong; nothing was done
	exitRows    = 3 // the command did its work, but too many rows failed, or the verdict of a gate is inconclusive
)

// run executes a command line and returns the exit code. ctx is done when the user interrupts the
// program.
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
	message, code := textfmt.OneLine(err.Error()), exitFailure
	var usage *usageError
	var setting *launch.SettingsError
	var flag *export.FlagError
	if errors.As(err, &usage) || errors.As(err, &setting) || errors.As(err, &flag) {
		message += fmt.Sprintf(" (see %q)", cmd.CommandPath()+" --help")
		code = exitUsage
	}
	var rows *rows.TooManyFailedError
	var unknown *inconclusiveError
	if errors.As(err, &rows) || errors.As(err, &unknown) {
		code = exitRows
	}
	fmt.Fprintf(stderr, "ingot: %s\n", message) //nolint:errcheck // there is nowhere to report it
	return code
}

type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

func newRoot() *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:               "ingot",
		Short:             "Generate text in bulk: a file of prompts in, a file of answers out",
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return checkGiven(cmd.Flags()) },
		Args: func(cmd *cobra.Command, args []string) error {
			if version {
				return nil
			}
			return noCommand(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), programVersion())
				return err
			}
			cmd.SetOut(cmd.ErrOrStderr())
			if err := cmd.Help(); err != nil {
				return err
			}
			return usagef("a command is missing")
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &usageError{withSimilarFlag(cmd, err)} })

	root.SetUsageFunc(help.Usage)

	flags := root.PersistentFlags()
	config.AddFileFlag(flags)
	config.AddFlag(flags, config.LogLevel)
	config.AddFlag(flags, config.LogFormat)
	addCommands(root)
	addCompletion(root)
	setHelp(root)
	manual.KeepOrder(root)
	root.InitDefaultHelpFlag() // before --version, also in the help
	// With cobra's --version, the program would contain text/template: see .ci/size.
	root.Flags().BoolVarP(&version, "version", "v", false, "version for ingot")
	return root
}

func addCommands(root *cobra.Command) {
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Answer prompts", []*cobra.Command{newRun(), newExport(), newShow(), newServe()}},
		{"Share the work through Redis", []*cobra.Command{newEnqueue(), newWorker(), newResults(), newStatus(), newWorkers(), newErrors(), newRetry(),
			newCancel(), newPurge(), newPause(), newResume()}},
		{"Evaluate models", []*cobra.Command{newEval()}},
		{"Get and look at models", []*cobra.Command{newPull(), newModels(), newTokenize(), newRender()}},
		{"Check and measure this machine", []*cobra.Command{newDoctor(), newBench()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(newVersion(), newModel(), newShare())
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

// withSimilarFlag adds the most similar flag of a command to the error of an unknown flag.
func withSimilarFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	near := textfmt.Nearest(unknown.GetSpecifiedName(), names)
	if near == "" {
		return err
	}
	return fmt.Errorf("%w; did you mean --%s?", err, near)
}

// checkGiven returns an error if a flag that names something is given with an empty value, as with
// an unset variable of a script.
func checkGiven(flags *pflag.FlagSet) error {
	for _, name := range []string{"batch", "code", "columns", "encoding", "delimiter", "extract", "failed", "input", "keep-finish", "template", "unique"} {
		const emptyList = "[]"
		if f := flags.Lookup(name); f != nil && f.Changed && (f.Value.String() == "" || f.Value.String() == emptyList) {
			return usagef("--%s: the value is empty: give one, or leave out the flag", name)
		}
	}
	return nil
}

func noneGiven(*cobra.Command, []string) error { return usagef("a command is missing") }

// noCommand checks the arguments of a command that has subcommands. cobra calls it only with names
// that are not subcommands.
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

func atLeast(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s is missing", name)
		}
		return nil
	}
}

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
