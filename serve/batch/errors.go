package batch

import (
	"errors"
	"fmt"

	"github.com/ingot-run/ingot/openai"
)

// Errors of a Store.
var (
	ErrNoFile   = errors.New("no such file")
	ErrNoBatch  = errors.New("no such batch")
	ErrTooLarge = errors.New("file is too large")
)

// RequestError means that a request is invalid. The same request would fail again.
type RequestError struct {
	Param   string // parameter that has to change; empty if none does
	Code    string
	Message string
}

func (e *RequestError) Error() string { return e.Message }

func invalid(param, format string, args ...any) *RequestError {
	return &RequestError{Param: param, Code: openai.CodeInvalidValue, Message: fmt.Sprintf(format, args...)}
}
