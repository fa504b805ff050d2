package eval

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/textfmt"
)

// Notes describes the rows of sets that are left out, and those that cannot score. It returns a
// line for each set and reason.
func Notes(sets []*Set) (lines []string) {
	for _, s := range sets {
		lines = append(lines, s.notes()...)
	}
	return lines
}

func (s *Set) notes() (lines []string) {
	note := func(n int, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("%s: %s", textfmt.Printable(s.Name), textfmt.Count(n, "row"))+fmt.Sprintf(format, args...))
	}
	for _, reason := range slices.Sorted(maps.Keys(s.Skipped)) {
		note(s.Skipped[reason], ": %s", textfmt.Printable(reason))
	}
	if n := len(s.NoRight); n > 0 {
		note(n, " with a target that is none of the choices, the first of them row %d: they count as wrong, as in lm-evaluation-harness", s.NoRight[0]+1)
	}
	if n := len(s.Empty); n > 0 {
		note(n, " with an empty target, the first of them row %d: they count as wrong by the metric contains", s.Empty[0]+1)
	}
	return lines
}

// Notes describes the scores that are not what they seem. It returns a line for each task and
// reason.
func (r *Results) Notes() (lines []string) {
	names := slices.Sorted(maps.Keys(r.Samples))
	note := func(name string, n int, format string) {
		if n > 0 {
			lines = append(lines, fmt.Sprintf("%s: %s "+format, textfmt.Printable(name), textfmt.Count(n, "row"), textfmt.Printable(SamplesFile(name))))
		}
	}
	for _, name := range names {
		note(name, r.Samples[name].Undecided, "with an answer that only a program for algebra can compare with the target for sure: "+
			"normal forms are compared. They have the field \"undecided\" in %s")
	}
	for _, name := range names {
		note(name, r.Samples[name].NaN, "with a score that is NaN (null in %s): a mean with them is NaN too, as in lm-evaluation-harness")
	}
	return lines
}

// CheckScored calls note for each task with rows that have no score, with why the first of them has
// none. It returns an error if no row of a task has a score, or if most rows have none. folder is
// the run's directory.
func (r *Results) CheckScored(folder string, note func(string)) error {
	var failed, total int
	var none error
	for _, name := range slices.Sorted(maps.Keys(r.Samples)) {
		n := r.Samples[name]
		failed, total = failed+n.Failed, total+n.Original
		if n.Failed == 0 {
			continue
		}
		row, reason, err := FirstFailure(folder, name)
		if err != nil {
			return err
		}
		note(fmt.Sprintf("%s: %s without a score, the first of them row %d: %s", textfmt.Printable(name), textfmt.Count(n.Failed, "row"), row, textfmt.OneLine(reason)))
		if n.Failed == n.Original && none == nil {
			none = fmt.Errorf("task %s: %w; row %d: %s", name, &rows.TooManyFailedError{Failed: n.Failed, Total: n.Original}, row, reason)
		}
	}
	if none != nil {
		return none
	}
	return rows.FailLimit{}.Check(failed, total)
}
