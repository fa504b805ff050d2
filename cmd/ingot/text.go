package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/progress"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/queue"
)

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func countRows(n int) string { return textfmt.Count(n, "row") }

// emptyAnswers returns a warning if many of the answers are empty, otherwise an empty string.
func emptyAnswers(empty, answers int) string {
	if !rows.ManyEmpty(empty, answers) {
		return ""
	}
	return fmt.Sprintf("empty answers: %d of %d; with the finish_reason \"stop\", the model ended the answer at once, with \"length\", it used all tokens for reasoning",
		empty, answers)
}

func newDisplay(w io.Writer) *progress.Display {
	return progress.New(w, progress.Options{Terminal: textfmt.IsTerminal(w), Tokens: true})
}

func batchCounts(s queue.Status) progress.Counts {
	return progress.Counts{Total: s.Total, Done: s.Done, Failed: s.Failed, Tokens: s.CompletionTokens, Running: s.Running}
}
