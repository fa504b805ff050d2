package openai

import "encoding/json"

// OpenAI's codes that only the errors of CheckBatchLine have.
const (
	CodeURLMismatch = "url_mismatch" // the line's "url" is not the batch's endpoint
)

// BatchLine has the parts of an input line that a batch needs before it runs the line.
type BatchLine struct {
	CustomID string
	Model    string // model that the request names; empty if it names none
}

// CheckBatchLine makes the checks that OpenAI's Batch API makes before it runs a batch. e is the
// endpoint of the batch. A line must have a custom_id, the method POST, the url of the batch, and a
// body that does not request a stream. ParseRequest checks the other fields of the body. Errors are
// *Error. With an error, the result has the fields that could be read.
func CheckBatchLine(raw []byte, e Endpoint) (BatchLine, error) {
	var l BatchLine
	o, err := parseLine(raw, CodeInvalidJSON)
	if err != nil {
		return l, err
	}
	if o.require("custom_id") {
		id, _ := o.text("custom_id")
		switch {
		case o.err != nil:
		case id == "":
			o.fail(CodeInvalidValue, `"custom_id" is empty`)
		case len(id) > MaxCustomID:
			o.fail(CodeInvalidValue, `"custom_id" has %d bytes, more than %d`, len(id), MaxCustomID)
		default:
			l.CustomID = id
		}
	}
	if o.require("method") {
		if method, ok := o.text("method"); ok && method != "POST" {
			o.fail(CodeInvalidValue, `"method" must be "POST", not %.100q`, method)
		}
	}
	if o.require("url") {
		if url, ok := o.text("url"); ok && url != string(e) {
			o.fail(CodeURLMismatch, `"url" is %.100q, but the batch's endpoint is %q`, url, e)
		}
	}
	if o.require("body") {
		if body, ok := o.get("body", dict); ok {
			l.Model = o.batchBody(body)
		}
	}
	if o.err != nil {
		return l, o.err
	}
	return l, nil
}

// require sets an error if a field is absent. It reports whether the field is present.
func (o *object) require(name string) bool {
	if o.err == nil && !o.has(name) {
		o.fail(CodeMissing, "%q is missing", name)
	}
	return o.err == nil
}

func (o *object) batchBody(body json.RawMessage) (model string) {
	o.inside(body, "body.", func(inner *object) {
		model, _ = inner.text("model")
		if compact(inner.fields["stream"]) == "true" {
			inner.fail(CodeInvalidValue, `"body.stream" must be false: the results of a batch are files`)
		}
	})
	return model
}
