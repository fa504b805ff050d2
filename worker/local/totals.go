package local

import (
	"fmt"
	"time"

	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/progress"
	"github.com/ingot-run/ingot/internal/textfmt"
)

// Totals are the outcome of a Job. Counts are sums over all models.
type Totals struct {
	Out              string         `json:"out"`
	Answered         int            `json:"answered"` // by this command
	Failed           int            `json:"failed"`
	Kept             int            `json:"kept"` // results of earlier commands
	KeptFailed       int            `json:"kept_failed"`
	Empty            int            `json:"empty_answers"`
	Unparsed         int            `json:"unparsed_answers"` // answers in the output that are failed rows, since their text cannot become columns
	PromptTokens     int            `json:"prompt_tokens"`
	CompletionTokens int            `json:"completion_tokens"`
	Seconds          float64        `json:"seconds"`         // without loading the models
	LoadSeconds      float64        `json:"loading_seconds"` // of all models
	Errors           map[string]int `json:"errors"`          // failed rows in the output by code
}

// add adds the outcome of one model. codes are the failed rows in its output.
func (t *Totals) add(one Summary, codes map[string]rows.Failures, loading time.Duration) {
	t.Answered += one.Done
	t.Failed += one.Failed
	t.Kept += one.Kept
	t.KeptFailed += one.KeptFailed
	t.Empty += one.Empty
	t.PromptTokens += one.PromptTokens
	t.CompletionTokens += one.CompletionTokens
	t.Seconds += one.Elapsed.Seconds()
	t.LoadSeconds += loading.Seconds()
	for code, f := range codes {
		t.Errors[code] += f.Rows
	}
}

// addUnparsed adds the answers that are failed rows because of their texts.
func (t *Totals) addUnparsed(n int) {
	t.Unparsed = n
	if n > 0 {
		t.Errors[export.CodeUnparsed] += n
	}
}

// Check returns an error if more rows have failed than a limit allows.
func (t *Totals) Check(limit rows.FailLimit) error {
	return limit.Check(t.Failed+t.KeptFailed+t.Unparsed, t.Kept+t.Answered+t.Failed)
}

// String describes the outcome of a run.
func (s Summary) String() string {
	text := textfmt.Count(s.Done+s.Failed, "row") + " done"
	if s.Failed > 0 {
		text += fmt.Sprintf(" (%d failed)", s.Failed)
	}
	if s.Kept > 0 {
		text += fmt.Sprintf(", %d kept", s.Kept)
		if s.KeptFailed > 0 {
			text += fmt.Sprintf(" (%d failed)", s.KeptFailed)
		}
		if s.KeptByOtherModels > 0 {
			text += fmt.Sprintf(" (%d by another model)", s.KeptByOtherModels)
		}
	}
	return text + ", " + progress.Figures(s.Done+s.Failed, s.PromptTokens, s.CompletionTokens, s.Elapsed)
}
