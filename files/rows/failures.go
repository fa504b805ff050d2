package rows

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/internal/textfmt"
)

// Failures describes the rows of an output that failed with the same error code.
type Failures struct {
	Rows    int
	Example string // the message of the first of them
}

// Codes returns the failed rows for each error code.
func (o *Output) Codes() map[string]Failures {
	o.mu.Lock()
	defer o.mu.Unlock()
	codes := map[string]Failures{}
	for code, f := range o.codes {
		if f.Rows > 0 {
			codes[code] = *f
		}
	}
	return codes
}

// maxExample is the maximum length of an error's message in a description, in characters.
const maxExample = 300

// DescribeFailures returns a line for each error code, the one with the most rows first: the number
// of rows that failed with it, and the message of one of them.
func DescribeFailures(codes map[string]Failures) []string {
	names := slices.SortedFunc(maps.Keys(codes), func(a, b string) int { return cmp.Or(codes[b].Rows-codes[a].Rows, strings.Compare(a, b)) })
	lines := make([]string, len(names))
	for i, name := range names {
		message := []rune(textfmt.OneLine(codes[name].Example))
		if len(message) > maxExample {
			message = append(message[:maxExample], '…')
		}
		such := ""
		if codes[name].Rows > 1 {
			such = "such as "
		}
		lines[i] = fmt.Sprintf("errors: %s %d (%s%s)", textfmt.Printable(name), codes[name].Rows, such, string(message))
	}
	return lines
}

// FailLimit is the maximum share of failed rows with which work on a file counts as done. The zero
// FailLimit allows half of the rows to fail. It is the value of a flag.
type FailLimit struct {
	given   bool
	percent float64
}

// Set reads a percentage, such as 5%.
func (l *FailLimit) Set(s string) error {
	number, ok := strings.CutSuffix(s, "%")
	percent, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(percent >= 0 && percent <= 100) {
		return fmt.Errorf("%q is not a percentage from 0%% to 100%%", s)
	}
	*l = FailLimit{given: true, percent: percent}
	return nil
}

// String returns the percentage; empty for the zero FailLimit.
func (l *FailLimit) String() string {
	if l == nil || !l.given {
		return ""
	}
	return strconv.FormatFloat(l.percent, 'f', -1, 64) + "%"
}

// Type returns the form of the value.
func (*FailLimit) Type() string { return "N%" }

// Check returns a *TooManyFailedError if more rows have failed than the limit allows.
func (l FailLimit) Check(failed, total int) error {
	percent := 50.0
	if l.given {
		percent = l.percent
	}
	if float64(failed)*100 <= percent*float64(total) {
		return nil
	}
	return &TooManyFailedError{Failed: failed, Total: total, limit: l}
}

// TooManyFailedError means that the work is done, but more rows failed than the limit allows.
type TooManyFailedError struct {
	Failed, Total int
	limit         FailLimit
}

// Error implements error.
func (e *TooManyFailedError) Error() string {
	total := textfmt.Count(e.Total, "row")
	switch {
	case e.limit.given:
		return fmt.Sprintf("%d of %s failed, more than %s", e.Failed, total, &e.limit)
	case e.Total == 1:
		return "the only row failed"
	case e.Failed == e.Total:
		return fmt.Sprintf("all %s failed", total)
	}
	return fmt.Sprintf("%d of %s failed, more than half", e.Failed, total)
}
