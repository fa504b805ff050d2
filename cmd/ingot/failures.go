package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/textfmt"
)

// failLimit is the maximum share of failed rows with which a command succeeds, the value of
// --fail-on-error. If it is not given, a command fails if more than half of the rows failed.
type failLimit struct {
	given   bool
	percent float64
}

func (l *failLimit) add(flags *pflag.FlagSet) {
	flags.Var(l, "fail-on-error", "exit with 3 if any row failed, or with =`N%` if more than N% of the rows failed (default 50%)")
	flags.Lookup("fail-on-error").NoOptDefVal = "0%"
}

func (l *failLimit) Set(s string) error {
	number, ok := strings.CutSuffix(s, "%")
	percent, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(percent >= 0 && percent <= 100) {
		return fmt.Errorf("%q is not a percentage from 0%% to 100%%", s)
	}
	*l = failLimit{given: true, percent: percent}
	return nil
}

func (l *failLimit) String() string {
	if l == nil || !l.given {
		return ""
	}
	return strconv.FormatFloat(l.percent, 'f', -1, 64) + "%"
}

func (*failLimit) Type() string { return "N%" }

// rowsFailedError means that a command did its work, but more rows failed than the limit allows.
type rowsFailedError struct {
	failed, total int
	limit         failLimit
}

func (e *rowsFailedError) Error() string {
	switch {
	case e.limit.given:
		return fmt.Sprintf("%d of %s failed, more than %s", e.failed, countRows(e.total), &e.limit)
	case e.total == 1:
		return "the only row failed"
	case e.failed == e.total:
		return fmt.Sprintf("all %s failed", countRows(e.total))
	}
	return fmt.Sprintf("%d of %s failed, more than half", e.failed, countRows(e.total))
}

func (l failLimit) check(failed, total int) error {
	percent := 50.0
	if l.given {
		percent = l.percent
	}
	if float64(failed)*100 <= percent*float64(total) {
		return nil
	}
	return &rowsFailedError{failed, total, l}
}

// maxExample is the maximum length of an error's message in a summary, in characters.
const maxExample = 300

// printFailures prints a line for each error code: the number of rows that failed with it, and the
// message of one of them.
func printFailures(cmd *cobra.Command, title string, codes map[string]rows.Failures) {
	names := slices.SortedFunc(maps.Keys(codes), func(a, b string) int { return cmp.Or(codes[b].Rows-codes[a].Rows, strings.Compare(a, b)) })
	for _, name := range names {
		message := []rune(textfmt.OneLine(codes[name].Example))
		if len(message) > maxExample {
			message = append(message[:maxExample], '…')
		}
		such := ""
		if codes[name].Rows > 1 {
			such = "such as "
		}
		cmd.PrintErrf("%serrors: %s %d (%s%s)\n", title, textfmt.Printable(name), codes[name].Rows, such, string(message))
	}
}
