package rows

import (
	"bytes"
	"fmt"
)

// Empty returns the number of answers that were written to the output since it was opened and have
// a choice without text.
func (o *Output) Empty() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.empty
}

// ManyEmpty reports whether so many of a file's answers are empty that its user should know: a
// quarter of them.
func ManyEmpty(empty, answers int) bool { return empty > 0 && 4*empty >= answers }

// WarnOfEmpty returns a warning if many of a file's answers are empty, otherwise an empty string.
func WarnOfEmpty(empty, answers int) string {
	if !ManyEmpty(empty, answers) {
		return ""
	}
	return fmt.Sprintf("empty answers: %d of %d; with the finish_reason \"stop\", the model ended the answer at once, with \"length\", it used all tokens for reasoning",
		empty, answers)
}

// isEmpty reports whether an answer, which the queue wrote as JSON, has a choice without text. A
// string in the answer cannot contain what is looked for: quotes are escaped in it.
func isEmpty(text []byte) bool {
	return bytes.Contains(text, []byte(`"content":"",`)) || bytes.Contains(text, []byte(`"text":"",`))
}
