package openai

import (
	"net/http"
	"strings"
)

// ErrorBody is the body of an HTTP response that reports an error.
type ErrorBody struct {
	Error ErrorDetail `json:"error"`
}

// ErrorDetail is OpenAI's error object. Its fields are all present; Param and Code may be null.
type ErrorDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// The values of ErrorDetail.Type.
const (
	TypeInvalidRequest = "invalid_request_error"
	TypeRateLimit      = "rate_limit_error"
	TypeServer         = "server_error"
)

// NewErrorBody returns the body of an error whose ErrorDetail.Type is kind. An empty param or code
// becomes null.
func NewErrorBody(kind, message, param, code string) ErrorBody {
	d := ErrorDetail{Message: message, Type: kind}
	if param != "" {
		d.Param = &param
	}
	if code != "" {
		d.Code = &code
	}
	return ErrorBody{d}
}

// Codes of errors in live requests, where OpenAI's codes differ from those of rows.
const (
	CodeMissingParameter = "missing_required_parameter"
	CodeUnknownParameter = "unknown_parameter"
)

// codes maps codes of rows to OpenAI's codes of errors in live requests. Codes without an entry are
// the same.
var codes = map[string]string{
	CodeMissing:     CodeMissingParameter,
	CodeUnknown:     CodeUnknownParameter,
	CodeUnsupported: "unsupported_parameter",
}

// HTTP returns the status and the body with which a server answers a request that has this error.
func (e *Error) HTTP() (status int, body ErrorBody) {
	status = http.StatusBadRequest
	if e.Code == CodeUnknownModel {
		status = http.StatusNotFound
	}
	code, ok := codes[e.Code]
	if !ok {
		code = e.Code
	}
	message := e.Message
	for _, verb := range []string{"is ", "has ", "must "} { // such a message lacks a subject, since it follows a line number in errors of rows
		if strings.HasPrefix(message, verb) {
			message = "the request's body " + message
		}
	}
	return status, NewErrorBody(TypeInvalidRequest, message, e.Param, code)
}
