package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/worker/local"
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

// runSummary is the summary of a run in JSON. Counts are sums over all models.
type runSummary struct {
	Out              string         `json:"out"`
	Answered         int            `json:"answered"` // by this command
	Failed           int            `json:"failed"`
	Kept             int            `json:"kept"` // results of earlier commands
	KeptFailed       int            `json:"kept_failed"`
	Empty            int            `json:"empty_answers"`
	Unparsed         int            `json:"unparsed_answers"` // answers in OUT that are failed rows, since their text cannot become columns
	PromptTokens     int            `json:"prompt_tokens"`
	CompletionTokens int            `json:"completion_tokens"`
	Seconds          float64        `json:"seconds"`         // without loading the models
	LoadSeconds      float64        `json:"loading_seconds"` // of all models
	Errors           map[string]int `json:"errors"`          // failed rows in OUT by code
}

func (s *runSummary) add(one local.Summary, codes map[string]rows.Failures, loading time.Duration) {
	s.Answered += one.Done
	s.Failed += one.Failed
	s.Kept += one.Kept
	s.KeptFailed += one.KeptFailed
	s.Empty += one.Empty
	s.PromptTokens += one.PromptTokens
	s.CompletionTokens += one.CompletionTokens
	s.Seconds += one.Elapsed.Seconds()
	s.LoadSeconds += loading.Seconds()
	if s.Errors == nil {
		s.Errors = map[string]int{}
	}
	for code, f := range codes {
		s.Errors[code] += f.Rows
	}
}

// addUnparsed adds the answers that are failed rows because of their texts.
func (s *runSummary) addUnparsed(n int) {
	s.Unparsed = n
	if n > 0 {
		s.Errors[export.CodeUnparsed] += n
	}
}

// resultsSummary is the summary of a collection in JSON.
type resultsSummary struct {
	Batch     string `json:"batch"`
	Out       string `json:"out"`
	Rows      int    `json:"rows"` // in OUT
	New       int    `json:"new"`  // written by this command
	Failed    int    `json:"failed"`
	Unparsed  int    `json:"unparsed_answers"` // as in runSummary
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
