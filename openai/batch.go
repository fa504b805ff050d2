package openai

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// InputLine is a line of an input file: either a line of OpenAI's Batch API, or only the body of a
// request.
type InputLine struct {
	CustomID string // the line's custom_id or, if the line is only a body, its id; empty if there is none
	Endpoint Endpoint
	Body     json.RawMessage // body of the request; shares the memory of the line

	Misplaced *Error // error of the first field that stands next to "body" but belongs inside it; nil if there is no such field
}

// ParseInputLine parses a line of an input file. Its errors are *Error. With an error, the result
// still has the CustomID if it could be read.
func ParseInputLine(raw []byte) (InputLine, error) {
	var l InputLine
	o, err := parseLine(raw, CodeInvalidType)
	if err != nil {
		return l, err
	}
	l.CustomID = o.id()
	if body, ok := o.get("body", dict); ok {
		l.Endpoint = o.lineEndpoint(body)
		l.Body = body
		l.Misplaced = o.misplaced()
	} else {
		l.Endpoint = o.bodyEndpoint()
		l.Body = raw
	}
	if o.err != nil {
		return l, o.err
	}
	return l, nil
}

// MaxCustomID is the maximum length of a custom_id, in bytes.
const MaxCustomID = 512

// id returns the id of a row, or an empty string if the line gives none. It sets an error if the id
// is longer than MaxCustomID.
func (o *object) id() string {
	s := o.givenID()
	if len(s) > MaxCustomID {
		o.fail(CodeInvalidValue, "the row's id has %d bytes, more than %d", len(s), MaxCustomID)
		return ""
	}
	return s
}

// givenID returns the line's custom_id. If the line is only a body without custom_id, givenID
// returns the field "id", which may be a whole number.
func (o *object) givenID() string {
	if s, ok := o.text("custom_id"); ok || o.err != nil {
		if s == "" && o.err == nil {
			o.fail(CodeInvalidValue, `"custom_id" is empty`)
		}
		return s
	}
	if o.has("body") {
		return "" // in a Batch line, only custom_id is an id
	}
	raw, ok := o.get("id", text, number)
	if !ok {
		return ""
	}
	if typeOf(raw) == text {
		s, _ := o.text("id")
		return s
	}
	if _, err := parseInteger(raw); err != nil {
		o.fail(CodeInvalidType, `"id" must be a string or a whole number, not %s`, raw)
		return ""
	}
	return string(raw)
}

// lineEndpoint returns the endpoint of an OpenAI Batch line: its "url" or, without one, the
// endpoint that the body's fields indicate.
func (o *object) lineEndpoint(body json.RawMessage) (e Endpoint) {
	if method, ok := o.text("method"); ok && method != "POST" {
		o.fail(CodeInvalidValue, `"method" must be "POST", not %.100q`, method)
	}
	if url, ok := o.text("url"); ok {
		if e := Endpoint(url); e == Chat || e == Completions {
			return e
		}
		o.fail(CodeInvalidValue, `"url" must be %q or %q, not %.100q`, Chat, Completions, url)
		return ""
	}
	o.inside(body, "body.", func(inner *object) { e = inner.bodyEndpoint() })
	return e
}

func (o *object) bodyEndpoint() Endpoint {
	messages, prompt := o.has("messages"), o.has("prompt")
	switch {
	case messages && prompt:
		o.fail(CodeInvalidValue, `has both "messages" and "prompt"`)
	case messages:
		return Chat
	case prompt:
		return Completions
	case o.path == "" && o.has("error"):
		o.knownError()
	case o.path == "":
		o.fail(CodeMissing, `has neither "messages" nor "prompt" nor a "body"`)
	default:
		o.fail(CodeMissing, `has neither "messages" nor "prompt" in its body`)
	}
	return ""
}

// knownError sets the error in the line's field "error". Programs that make input files, such as
// package prompt, write such a line for a record from which they cannot make a request.
func (o *object) knownError() {
	raw, _ := o.get("error", dict)
	var e Error
	if err := json.Unmarshal(raw, &e); err != nil || e.Code == "" {
		o.fail(CodeInvalidType, `"error" must be an object with a "code" and a "message"`)
		return
	}
	o.err = &e
}

// MaxBody is the maximum length of a request's body, in bytes.
const MaxBody = 16 << 20

// MaxOutputLine is the maximum length of a line of output, in bytes, including its line end.
const MaxOutputLine = 64 << 20

// OutputLine is a result in a file, as in OpenAI's Batch API. Exactly one of Response and Error is
// set.
type OutputLine struct {
	ID       string    `json:"id"` // see ResultID
	CustomID string    `json:"custom_id"`
	Response *Response `json:"response"`
	Error    *Error    `json:"error"`

	// RecordSum is the checksum of the table's record from which the request was made, 8 hex
	// digits. It is empty if the request is a line of the input.
	RecordSum string `json:"record_sum,omitempty"`
}

// Response is an answer in the form of OpenAI's HTTP API.
type Response struct {
	StatusCode int    `json:"status_code"`
	RequestID  string `json:"request_id"`
	Body       any    `json:"body"`
}

const resultPrefix = "batch_req_"

// ResultPrefix returns the beginning of the ids of a batch's results.
func ResultPrefix(batch string) string { return resultPrefix + batch + "-" }

// ResultID returns the id of a result. It is made of the batch id, the request's line number in the
// file, and the request's checksum (8 hex digits).
func ResultID(batch string, line int, sum string) string {
	return fmt.Sprintf("%s%d-%s", ResultPrefix(batch), line, sum)
}

// ParseResultID is the inverse of ResultID.
func ParseResultID(id string) (batch string, line int, sum uint32, err error) {
	rest, ok := strings.CutPrefix(id, resultPrefix)
	parts := strings.Split(rest, "-")
	if !ok || len(parts) < 3 {
		return "", 0, 0, fmt.Errorf("%q is not the id of a result: it must be batch_req_BATCH-LINE-SUM", id)
	}
	n := len(parts)
	line, err = strconv.Atoi(parts[n-2])
	raw, hexErr := hex.DecodeString(parts[n-1])
	if err != nil || hexErr != nil || line < 1 || line > math.MaxInt32 || len(raw) != 4 {
		return "", 0, 0, fmt.Errorf("%q is not the id of a result: it must be batch_req_BATCH-LINE-SUM", id)
	}
	return strings.Join(parts[:n-2], "-"), line, binary.BigEndian.Uint32(raw), nil
}
