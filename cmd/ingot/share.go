package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
)

func newShare() *cobra.Command {
	return &cobra.Command{
		Use:    "share FOLDER",
		Hidden: true, // only makers of packages need it
		Short:  "Write manual pages and shell completions",
		Args:   arguments("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			date, err := pageDate(os.Getenv("SOURCE_DATE_EPOCH"))
			if err != nil {
				return err
			}
			share := filepath.Join(args[0], "share")
			if err := help.WritePages(filepath.Join(share, "man", "man1"), cmd.Root(), programVersion(), date); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			if err := writeCompletions(share, cmd.Root()); err != nil {
				return fmt.Errorf("write shell completions: %w", err)
			}
			return nil
		},
	}
}

// pageDate returns the date, in UTC, of a number of seconds since 1970. If seconds is empty, it
// returns today.
func pageDate(seconds string) (string, error) {
	if seconds == "" {
		return time.Now().UTC().Format(time.DateOnly), nil
	}
	var s int64
	if _, err := fmt.Sscan(seconds, &s); err != nil {
		return "", usagef("SOURCE_DATE_EPOCH is %q: it must be a number of seconds since 1970", seconds)
	}
	return time.Unix(s, 0).UTC().Format(time.DateOnly), nil
}

func writeCompletions(share string, root *cobra.Command) error {
	for path, write := range map[string]func(string) error{
		"bash-completion/completions/" + root.Name():         func(path string) error { return root.GenBashCompletionFileV2(path, true) },
		"zsh/site-functions/_" + root.Name():                 root.GenZshCompletionFile,
		"fish/vendor_completions.d/" + root.Name() + ".fish": func(path string) error { return root.GenFishCompletionFile(path, true) },
	} {
		path = filepath.Join(share, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := write(path); err != nil {
			return err
		}
	}
	return nil
}
