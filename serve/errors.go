package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// handler answers a request. A handler that returns an error must not have written anything, since
// the error becomes the response.
type handler func(http.ResponseWriter, *http.Request) error

type httpError struct {
	status int
	body   openai.ErrorBody
	retry  time.Duration // time after which the client should try again; 0 if unknown
}

func (e *httpError) Error() string { return e.body.Error.Message }

func failf(status int, param, code, format string, args ...any) error {
	kind := openai.TypeInvalidRequest
	switch {
	case status == http.StatusTooManyRequests:
		kind = openai.TypeRateLimit
	case status >= http.StatusInternalServerError:
		kind = openai.TypeServer
	}
	return &httpError{status: status, body: openai.NewErrorBody(kind, fmt.Sprintf(format, args...), param, code)}
}

// retryLater is the time after which clients of a busy server, or of a model without workers,
// should try again.
const retryLater = 5 * time.Second

// failLater is failf for an error after which the client should try again, after the given time.
func failLater(wait time.Duration, status int, param, code, format string, args ...any) error {
	err := failf(status, param, code, format, args...)
	err.(*httpError).retry = max(wait, time.Nanosecond) //nolint:errorlint // failf returns an *httpError
	return err
}

func missing(param string) error {
	return &openai.Error{Code: openai.CodeMissing, Param: param, Message: fmt.Sprintf("%q is missing", param)}
}

// statusClientGone is the status, as in nginx, of a request whose client has left. It appears only
// in the log.
const statusClientGone = 499

// requestError is an error of answering a request.
type requestError struct {
	error
	param string // the field that it is about; empty if it is not known
}

func (e requestError) Unwrap() error { return e.error }

// ofRequest names in an error the field of the request that it is about.
func ofRequest(r *openai.Request, err error) error {
	param := ""
	switch {
	case errors.Is(err, generation.ErrForm):
		param = r.FormParam()
	case !errors.Is(err, generation.ErrPrompt):
	case r.Endpoint() == openai.Chat:
		param = "messages"
	default:
		param = "prompt"
	}
	return requestError{err, param}
}

// paramOf returns the field that ofRequest has named; empty if it was not called.
func paramOf(err error) string {
	var e requestError
	errors.As(err, &e)
	return e.param
}

// asHTTP returns the response to an error. Unknown errors become internal errors of the server.
func asHTTP(err error) *httpError {
	var known *httpError
	var field *openai.Error
	var tooLarge *http.MaxBytesError
	var network net.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &field):
		status, body := field.HTTP()
		return &httpError{status: status, body: body}
	case errors.As(err, &tooLarge):
		err = failf(http.StatusRequestEntityTooLarge, "", "request_too_large", "the request's body is larger than %d bytes", tooLarge.Limit)
	case errors.Is(err, generation.ErrTooLong):
		err = failf(http.StatusBadRequest, paramOf(err), openai.CodeContext, "%v", err)
	case errors.Is(err, generation.ErrBadRequest):
		err = failf(http.StatusBadRequest, cmp.Or(openai.ParamOf(err.Error()), paramOf(err)), openai.CodeInvalidValue, "%v", err)
	case errors.Is(err, context.Canceled):
		err = failf(statusClientGone, "", "", "the client has left")
	case errors.Is(err, generation.ErrClosed), errors.Is(err, generation.ErrEngineFailed), errors.Is(err, queue.ErrUnavailable),
		errors.Is(err, context.DeadlineExceeded): // before the next case, since the queue's network can time out too
		err = failLater(retryLater, http.StatusServiceUnavailable, "", "unavailable", "the server cannot answer now; try again later: %v", err)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		err = failf(http.StatusRequestTimeout, "", "timeout", "the request's body did not arrive in time")
	case errors.Is(err, errBody):
		err = failf(http.StatusBadRequest, "", "invalid_body", "%v: send it again", err)
	default:
		err = failf(http.StatusInternalServerError, "", "internal_error", "%v", err)
	}
	errors.As(err, &known)
	return known
}

func writeError(w http.ResponseWriter, e *httpError) {
	if e.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(max(1, (e.retry+time.Second-1)/time.Second))))
	}
	writeJSON(w, e.status, e.body)
}

func reply(w http.ResponseWriter, body any, err error) error {
	if err == nil {
		writeJSON(w, http.StatusOK, body)
	}
	return err
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	text, err := openai.Marshal(body)
	if err != nil {
		text, status = []byte(`{"error":{"message":"the response cannot be written as JSON","type":"server_error","param":null,"code":null}}`), 500
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(text, '\n')) //nolint:errcheck // fails only if the client has left
}

func (s *Server) open(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			e := asHTTP(err)
			notesOf(r.Context()).err = err
			writeError(w, e)
		}
	})
}
