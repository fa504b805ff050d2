// Package textfmt formats texts, numbers and tables for terminals.
package textfmt

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/dustin/go-humanize/english"
	"golang.org/x/term"
)

// Printable escapes the characters of a text that control a terminal or change the direction of
// text. It uses Go's escapes, such as \x1b.
func Printable(s string) string {
	const joiners = "\u200c\u200d" // parts of words in some scripts, and of emoji
	var b strings.Builder
	for _, r := range s {
		if r == '\t' || unicode.IsPrint(r) || strings.ContainsRune(joiners, r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// OneLine joins the lines of a text with semicolons and makes it printable.
func OneLine(s string) string {
	return Printable(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
}

// Count formats a number and the thing that it counts, such as "2 rows".
func Count(n int, thing string) string {
	return fmt.Sprintf("%d %s", n, english.PluralWord(n, thing, ""))
}

// QuotedOr joins names in quotes, such as "a" or "b".
func QuotedOr(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return english.WordSeries(quoted, "or")
}

// Window describes how many of the cache's bytes per token are kept only for the tokens in a
// sliding window. It returns an empty string if the model has no window.
func Window(windowed uint64, window int) string {
	if window == 0 {
		return ""
	}
	return fmt.Sprintf(", %s of it only for the last %d tokens of a row", Bytes(windowed), window)
}

// Bytes formats a size with a binary prefix, such as 1.5 MiB.
func Bytes(n uint64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n)/unit, "KMGTPE"
	for value >= unit {
		value, prefix = value/unit, prefix[1:]
	}
	return fmt.Sprintf("%.1f %ciB", value, prefix[0])
}

// Table writes lines as columns of equal width.
type Table struct{ w *tabwriter.Writer }

// NewTable returns a table with the given headings, or without any.
func NewTable(w io.Writer, headings ...string) Table {
	t := Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(headings) > 0 {
		t.w.Write([]byte(strings.Join(headings, "\t") + "\n")) //nolint:errcheck // Flush reports it
	}
	return t
}

// Line adds a line. Its cells are made printable.
func (t Table) Line(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = Printable(fmt.Sprint(c))
	}
	t.w.Write([]byte(strings.Join(texts, "\t") + "\n")) //nolint:errcheck // Flush reports it
}

// Linef adds a line with a name and a formatted text. The text may have tabs between cells.
func (t Table) Linef(name, format string, args ...any) { t.Line(name, fmt.Sprintf(format, args...)) }

// Flush writes the table. The error is that of any write.
func (t Table) Flush() error { return t.w.Flush() }
