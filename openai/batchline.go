package openai

import "encoding/json"

// Codes of the errors of CheckBatchLine that are OpenAI's and that a row of `ingot run` cannot have.
const (
	CodeURLMismatch = "url_mismatch" // the line is for another endpoint than its batch
)

// BatchLine has what a batch needs to know of a line of its input: everything around the request, and the request's model.
type BatchLine struct {
	CustomID string
	Model    string // empty if the request names none
}

// CheckBatchLine checks a line of a batch for an endpoint as OpenAI's Batch API does before it runs the batch: the line has a
// custom_id, the method POST, the url of the batch and a body, which does not ask for a stream. ParseRequest checks the rest of the
// body. Errors are *Error. Where there is an error, the result has the fields that could be read.
func CheckBatchLine(raw []byte, e Endpoint) (BatchLine, error) {
	var l BatchLine
	if k := kindOf(raw); k != dict && json.Valid(raw) {
		return l, errorf(CodeInvalidJSON, "must be an object, not %s", k)
	}
	o, err := parseObject(raw, "")
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
			o.fail(CodeURLMismatch, `"url" is %.100q, but the batch is for %q`, url, e)
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

// require makes a field's absence an error. It reports whether the field is present.
func (o *object) require(name string) bool {
	if o.err == nil && !o.has(name) {
		o.fail(CodeMissing, "%q is missing", name)
	}
	return o.err == nil
}

// batchBody checks the fields of a row that a batch restricts, and returns the model of the row.
func (o *object) batchBody(body json.RawMessage) (model string) {
	inner, err := parseObject(body, "body.")
	if err != nil {
		o.err = err
		return ""
	}
	model, _ = inner.text("model")
	if compact(inner.fields["stream"]) == "true" {
		inner.fail(CodeInvalidValue, `"body.stream" must be false: the results of a batch are files`)
	}
	o.err = inner.err
	return model
}
