package rows

import "fmt"

// ChangedError means that rows of an input differ from those that were answered in an output. It
// matches ErrOtherFile in errors.Is.
type ChangedError struct {
	Output     string // path of the output
	Changed    int    // number of answers to rows that have changed
	Answers    int    // number of answers in the output
	Line       int    // line of the first row that has changed
	SameRecord bool   // the record of this line is the same, so that something else made another row of it
}

// Error says what has changed, without a remedy.
func (e *ChangedError) Error() string {
	text := fmt.Sprintf("%d of %d answers in %s are of other rows than those of this command: ", e.Changed, e.Answers, e.Output)
	if e.SameRecord {
		return text + "the input is the same, but a template such as --prompt, or a default such as --max-tokens or --schema, has changed"
	}
	return text + fmt.Sprintf("line %d of the input is the first that has changed", e.Line)
}

// Is reports whether the target is ErrOtherFile.
func (*ChangedError) Is(target error) bool { return target == ErrOtherFile }

// Compare compares a row with the result that the file had for the row's line when it was opened.
// present reports whether there was such a result, and same whether it is one of this row.
func (o *Output) Compare(line int, sum string) (present, same bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lines.compare(line, sum)
}

// Failed returns the lines whose results are errors.
func (o *Output) Failed() map[int]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := make(map[int]bool, len(o.errors))
	for _, e := range o.errors {
		lines[e.line] = true
	}
	return lines
}

// Path returns the path of OpenOutput.
func (o *Output) Path() string { return o.path }
