package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/hub"
	"github.com/ingot-run/ingot/internal/progress"
	"github.com/ingot-run/ingot/internal/textfmt"
)

func newPull() *cobra.Command {
	return &cobra.Command{
		Use:   "pull NAME",
		Short: "Download a model",
		Args:  arguments("NAME"),
		RunE:  runPull,
	}
}

func runPull(cmd *cobra.Command, args []string) error {
	if _, err := settings(cmd); err != nil {
		return err
	}
	name, err := hub.ParseName(args[0])
	if err != nil {
		return &usageError{err}
	}
	stderr := cmd.ErrOrStderr()
	show := progress.New(stderr, progress.Options{Terminal: textfmt.IsTerminal(stderr), Bytes: true})
	defer show.Close()
	start := time.Now()
	got, err := hub.NewPuller(hub.Options{
		Env: hub.ReadEnv(), Version: programVersion(),
		Note: func(text string) { fmt.Fprintln(show, textfmt.Printable(text)) }, //nolint:errcheck // a note on the terminal
		Moved: func(p hub.Progress) {
			show.Show(progress.Counts{Total: int(p.Total), Before: int(p.Done - p.Moved), Done: int(p.Moved)})
		},
	}).Pull(cmd.Context(), name)
	show.Close()
	if err != nil {
		return err
	}
	cmd.PrintErrln(got.Describe(time.Since(start)))
	_, err = fmt.Fprintln(cmd.OutOrStdout(), got.Path)
	return err
}
