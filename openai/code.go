package openai

import (
	"errors"
	"fmt"
	"strings"
)

// Values of error.code in output lines.
const (
	// Codes for rows that cannot be used.

	CodeInvalidJSON   = "invalid_json"
	CodeInvalidText   = "invalid_text" // not UTF-8
	CodeTooLong       = "line_too_long"
	CodeDuplicateID   = "duplicate_custom_id"
	CodeMissing       = "missing_field"
	CodeInvalidType   = "invalid_type"
	CodeInvalidValue  = "invalid_value"
	CodeInvalidRecord = "invalid_record"    // no request could be made from a record of a table
	CodeUnsupported   = "unsupported_field" // a field of OpenAI or vLLM that Ingot does not support

	// Codes for rows that can be used only with --unknown-fields ignore.

	CodeUnknown      = "unknown_field"   // a field that Ingot does not know
	CodeUnknownModel = "model_not_found" // the row names a model other than those that answer

	// Codes for valid rows whose generation failed.

	CodeBadRequest = "bad_request"             // the model cannot answer the row, for example because its chat template refuses it
	CodeContext    = "context_length_exceeded" // the prompt is longer than the context
	CodeTimeout    = "timeout"                 // every attempt took too long
	CodeFailed     = "failed"                  // the engine failed at every attempt
	CodeTooLarge   = "result_too_large"        // the result exceeds the maximum size of a result
	CodeAbandoned  = "abandoned"               // too many workers died while they ran the row, or the result of its last attempt could not be recorded
	CodeExpired    = "expired"                 // not answered before the deadline of its batch
)

// Error is the reason why a row has no answer: the error object of an output line. As a Go error it
// means that the row cannot be used and that every attempt would fail in the same way.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"` // the field name that Message begins with; empty if it begins with none
}

func (e *Error) Error() string { return e.Message }

func errorf(code, format string, args ...any) *Error {
	e := &Error{Code: code, Message: fmt.Sprintf(format, args...)}
	e.Param = ParamOf(e.Message)
	return e
}

// ParamOf returns the field name with which the message of an error begins; empty if it begins with
// none.
func ParamOf(message string) (param string) {
	if rest, ok := strings.CutPrefix(message, `"`); ok {
		param, _, _ = strings.Cut(rest, `"`)
	}
	return param
}

// AsError returns the *Error in err's chain, or nil.
func AsError(err error) *Error {
	var e *Error
	errors.As(err, &e)
	return e
}
