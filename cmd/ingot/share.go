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
			return help.WriteShare(filepath.Join(args[0], "share"), cmd.Root(), programVersion(), date)
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
