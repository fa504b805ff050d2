package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/internal/textfmt"
)

// failLimit is the maximum share of failed rows with which a command succeeds, the value of
// --fail-on-error. If it is not given, a command fails only if every row failed.
type failLimit struct {
	given   bool
	percent float64
}

func (l *failLimit) add(flags *pflag.FlagSet) {
	flags.Var(l, "fail-on-error", "exit with 3 if any row failed, or with =`N%` if more than N% of the rows failed (default: if every row failed)")
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
	if e.limit.given {
		return fmt.Sprintf("%d of %s failed, more than %s", e.failed, countRows(e.total), &e.limit)
	}
	if e.total == 1 {
		return "the only row failed"
	}
	return fmt.Sprintf("all %s failed", countRows(e.total))
}

func (l failLimit) check(failed, total int) error {
	tooMany := failed == total
	if l.given {
		tooMany = float64(failed)*100 > l.percent*float64(total)
	}
	if failed == 0 || !tooMany {
		return nil
	}
	return &rowsFailedError{failed, total, l}
}

func errorsByCode(codes map[string]int) string {
	names := slices.SortedFunc(maps.Keys(codes), func(a, b string) int { return cmp.Or(codes[b]-codes[a], strings.Compare(a, b)) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", textfmt.Printable(name), codes[name])
	}
	return strings.Join(names, ", ")
}
