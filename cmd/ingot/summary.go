package main

import (
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/queue"
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

// resultsSummary is the summary of a collection in JSON.
type resultsSummary struct {
	Batch     string `json:"batch"`
	Out       string `json:"out"`
	Rows      int    `json:"rows"` // in OUT
	New       int    `json:"new"`  // written by this command
	Failed    int    `json:"failed"`
	Unparsed  int    `json:"unparsed_answers"` // as in local.Totals
	Finished  bool   `json:"finished"`
	Cancelled bool   `json:"cancelled"`

	PromptTokens     int            `json:"prompt_tokens"`
	CompletionTokens int            `json:"completion_tokens"`
	Errors           map[string]int `json:"errors"`
}

func newResultsSummary(batch, path string, unparsed int, c enqueue.Collected, s queue.Status, codes map[string]rows.Failures) resultsSummary {
	r := resultsSummary{
		Batch: batch, Out: path, Rows: c.Kept + c.Written, New: c.Written, Failed: c.Failed, Unparsed: unparsed, Finished: c.Finished, Cancelled: c.Cancelled,
		PromptTokens: s.PromptTokens, CompletionTokens: s.CompletionTokens, Errors: map[string]int{},
	}
	for code, f := range codes {
		r.Errors[code] = f.Rows
	}
	if unparsed > 0 {
		r.Errors[export.CodeUnparsed] = unparsed
	}
	return r
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
