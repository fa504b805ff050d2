package openai

import (
	"errors"
	"fmt"
	"strings"
)

// Values of error.code in lines of output. The first group is for rows that cannot be used.
const (
	CodeInvalidJSON   = "invalid_json"
	CodeInvalidText   = "invalid_text" // not UTF-8
	CodeTooLong       = "line_too_long"
	CodeDuplicateID   = "duplicate_custom_id"
	CodeMissing       = "missing_field"
	CodeInvalidType   = "invalid_type"
	CodeInvalidValue  = "invalid_value"
	CodeInvalidRecord = "invalid_record"    // a record of a table from which no request could be made
	CodeUnsupported   = "unsupported_field" // a field of OpenAI or vLLM that Ingot does not support

	CodeUnknown      = "unknown_field"   // a field that Ingot does not know
	CodeUnknownModel = "model_not_found" // the row names another model than the one that answers

	// Codes for valid rows whose generation failed.

	CodeBadRequest = "bad_request" // the model cannot answer the row, for example because the prompt is longer than the context
	CodeTimeout    = "timeout"     // every attempt took too long
	CodeFailed     = "failed"      // the engine failed at every attempt
	CodeTooLarge   = "result_too_large"
	CodeAbandoned  = "abandoned" // every worker that took the row died or lost its lease
	CodeExpired    = "expired"   // not answered before the deadline of its batch
)

// Error is the reason why a row has no answer: the error object of a line of output. As a Go error it means that the row
// cannot be used and would fail the same way at every attempt.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"` // the field with which Message begins, if it begins with one
}

func (e *Error) Error() string { return e.Message }

func errorf(code, format string, args ...any) *Error {
	e := &Error{Code: code, Message: fmt.Sprintf(format, args...)}
	if rest, ok := strings.CutPrefix(e.Message, `"`); ok {
		e.Param, _, _ = strings.Cut(rest, `"`)
	}
	return e
}

// AsError returns the *Error in err's chain, or nil.
func AsError(err error) *Error {
	var e *Error
	errors.As(err, &e)
	return e
}
