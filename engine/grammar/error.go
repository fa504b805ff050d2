package grammar

import (
	"context"
	"errors"

	"github.com/ingot-run/ingot/engine/grammar/regex"
)

// Error is why a constraint cannot be kept in full.
type Error struct {
	// Path is the place in a JSON Schema, as a JSON pointer ("/properties/a/contains"). For other
	// constraints it is the line and column ("line 3, column 7"), or empty.
	Path    string
	Keyword string // the keyword or construct that is the reason, if there is one
	Message string // what is wrong with it, and what to do
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Message
	}
	return e.Path + ": " + e.Message
}

// explain says what to do about an error of a limit. Other errors stay as they are.
func explain(err error) error {
	for _, limit := range [...]error{regex.ErrNodes, regex.ErrWork, regex.ErrRepeat, regex.ErrEmptiness, errSymbols} {
		if errors.Is(err, limit) {
			return &Error{Message: "the constraint is too large: " + limit.Error() + "; make it simpler"}
		}
	}
	return err
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
