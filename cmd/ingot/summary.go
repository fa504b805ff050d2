package main

import (
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// summaryFlags say how a command reports what it has done.
type summaryFlags struct{ quiet, json bool }

func (s *summaryFlags) add(flags *pflag.FlagSet, what string) {
	flags.BoolVarP(&s.quiet, "quiet", "q", false, "print nothing but errors"+what)
	flags.BoolVar(&s.json, "json", false, "print the summary as JSON to stdout")
}

// begin makes a quiet command write nothing to stderr. Errors are written after it has ended.
func (s *summaryFlags) begin(cmd *cobra.Command) {
	if s.quiet {
		cmd.SetErr(io.Discard)
	}
}

// checkStdout returns an error if the summary would be written among other output.
func (s *summaryFlags) checkStdout(out string) error {
	if s.json && (out == stdio || out == "/dev/stdout") {
		return usagef("--json writes the summary to stdout: give a file as OUT")
	}
	return nil
}

// write writes the summary if it is wanted as JSON.
func (s *summaryFlags) write(cmd *cobra.Command, v any) error {
	if !s.json {
		return nil
	}
	return writeJSON(cmd.OutOrStdout(), v)
}

// enqueueSummary is the summary of a queued file in JSON.
type enqueueSummary struct {
	Batch    string         `json:"batch"`
	Rows     int            `json:"rows"`
	Queued   int            `json:"queued"`
	Known    int            `json:"known"`    // rows that were in the batch before
	Rejected int            `json:"rejected"` // rows that cannot be used
	Models   map[string]int `json:"models"`   // rows by model name
}
