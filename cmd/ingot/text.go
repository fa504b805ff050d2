package main

import (
	"encoding/json"
	"io"

	"github.com/ingot-run/ingot/internal/progress"
	"github.com/ingot-run/ingot/internal/textfmt"
)

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func countRows(n int) string { return textfmt.Count(n, "row") }

func newDisplay(w io.Writer) *progress.Display {
	return progress.New(w, progress.Options{Terminal: textfmt.IsTerminal(w), Tokens: true})
}
