package grammar

import (
	"errors"
	"fmt"

	"github.com/ingot-run/ingot/engine/grammar/pattern"
	"github.com/ingot-run/ingot/engine/grammar/regex"
	"github.com/ingot-run/ingot/engine/grammar/source"
)

// placed returns err as an *Error that says where in the text of a constraint it is.
func placed(err error) error {
	var at *source.Error
	if !errors.As(err, &at) {
		return err
	}
	path := at.Path
	if at.Line > 0 {
		path = fmt.Sprintf("line %d, column %d", at.Line, at.Column)
	}
	return &Error{Path: path, Message: at.Message}
}

// regexRules returns the symbol of the texts that a regular expression matches as a whole.
func regexRules(r *rules, text string) (symbol, error) {
	n, err := pattern.Whole(r.re, text, pattern.Python, pattern.UTF8{})
	if err != nil {
		return none, placed(err)
	}
	return matching(r, n, "the regular expression matches no text")
}

// matching returns the lexeme of n, unless it matches no text: then message is the error.
func matching(r *rules, n regex.Node, message string) (symbol, error) {
	if empty, err := r.re.IsEmpty(n, r.limits.CompileWork); err == nil && empty {
		return none, &Error{Message: message}
	}
	s := r.lexeme(n)
	return s, r.failed()
}
