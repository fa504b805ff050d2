package main

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
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
	cmd.PrintErrln(pulled(got, time.Since(start)))
	_, err = fmt.Fprintln(cmd.OutOrStdout(), got.Path)
	return err
}

func pulled(got hub.Pulled, took time.Duration) string {
	size := humanize.Bytes(uint64(got.Bytes))
	switch {
	case got.Owner != "":
		return fmt.Sprintf("%s: %s has the model already", size, got.Owner)
	case got.Moved == 0:
		return size + ": the model is on this machine already"
	}
	text := fmt.Sprintf("%s in %s, %s/s", humanize.Bytes(uint64(got.Moved)), took.Round(100*time.Millisecond), humanize.Bytes(uint64(progress.PerSecond(int(got.Moved), took))))
	if got.Commit != "" {
		return text + ", SHA-256 matches the hub's"
	}
	return text + ", SHA-256 " + got.SHA256
}
