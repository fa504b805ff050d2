package job

import "encoding/json"

// line is what a line of a JSONL file asks for.
type line struct {
	id       string // empty where the line names none
	endpoint Endpoint
	body     json.RawMessage // shares memory with the line
}

// parseLine reads an OpenAI Batch line or a bare body. Where it fails, what it learned of the id is returned with the error.
func parseLine(raw []byte) (line, error) {
	var l line
	if k := kindOf(raw); k != dict && json.Valid(raw) {
		return l, rowErrorf(CodeInvalidType, "must be an object, not %s", k)
	}
	o, err := parseObject(raw, "")
	if err != nil {
		return l, err
	}
	l.id = o.id()
	if o.err != nil {
		return l, o.err
	}
	if body, ok := o.get("body", dict); ok {
		l.endpoint = o.target(body)
		l.body = body
	} else {
		l.endpoint = o.bareTarget()
		l.body = raw
	}
	if o.err != nil {
		return l, o.err
	}
	return l, nil
}

// id is the row's custom_id, or its id, which may be a whole number.
func (o *object) id() string {
	if s, ok := o.text("custom_id"); ok || o.err != nil {
		if s == "" && o.err == nil {
			o.fail(CodeInvalidValue, `"custom_id" is empty`)
		}
		return s
	}
	if o.has("body") {
		return "" // the id of a Batch line is custom_id alone
	}
	raw, ok := o.get("id", text, number)
	if !ok {
		return ""
	}
	if kindOf(raw) == text {
		s, _ := o.text("id")
		return s
	}
	if _, err := parseInteger(raw); err != nil {
		o.fail(CodeInvalidType, `"id" must be a string or a whole number, not %s`, raw)
		return ""
	}
	return string(raw)
}

// target is the endpoint of an OpenAI Batch line: its url, or what its body shows where it has none.
func (o *object) target(body json.RawMessage) Endpoint {
	if method, ok := o.text("method"); ok && method != "POST" {
		o.fail(CodeInvalidValue, `"method" must be "POST", not %q`, method)
	}
	if url, ok := o.text("url"); ok {
		if e := Endpoint(url); e == Chat || e == Completions {
			return e
		}
		o.fail(CodeInvalidValue, `"url" must be %q or %q, not %q`, Chat, Completions, url)
		return ""
	}
	inner, err := parseObject(body, "body.")
	if err != nil {
		o.err = asRowError(err)
		return ""
	}
	e := inner.bareTarget()
	if o.err == nil {
		o.err = inner.err
	}
	return e
}

// bareTarget is the endpoint of a body without a url.
func (o *object) bareTarget() Endpoint {
	messages, prompt := o.has("messages"), o.has("prompt")
	switch {
	case messages && prompt:
		o.fail(CodeInvalidValue, `has both "messages" and "prompt"`)
	case messages:
		return Chat
	case prompt:
		return Completions
	case o.path == "":
		o.fail(CodeMissing, `has neither "messages" nor "prompt" nor a "body"`)
	default:
		o.fail(CodeMissing, `has neither "messages" nor "prompt" in its body`)
	}
	return ""
}
