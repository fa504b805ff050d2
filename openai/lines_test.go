package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInputLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", MaxCustomID)
	for _, c := range []struct {
		line     string
		id       string
		endpoint Endpoint
		body     string // the line itself if empty
	}{
		{line: `{"prompt":"a"}`, endpoint: Completions},
		{line: `{"messages":[]}`, endpoint: Chat},
		{line: `{"messages":[],"prompt":null}`, endpoint: Chat},
		{line: `{"custom_id":"c","id":"i","prompt":"a"}`, id: "c", endpoint: Completions},
		{line: `{"id":"i","prompt":"a"}`, id: "i", endpoint: Completions},
		{line: `{"id":17,"prompt":"a"}`, id: "17", endpoint: Completions},
		{line: `{"id":17.0,"prompt":"a"}`, id: "17.0", endpoint: Completions},
		{line: `{"id":null,"custom_id":null,"prompt":"a"}`, endpoint: Completions},
		{line: `{"id":"","prompt":"a"}`, endpoint: Completions},
		{line: `{"custom_id":"` + long + `","prompt":"a"}`, id: long, endpoint: Completions},
		{line: `{"custom_id":"c","body":{"prompt":"a"}}`, id: "c", endpoint: Completions, body: `{"prompt":"a"}`},
		{line: `{"id":"i","body":{"messages":[]}}`, endpoint: Chat, body: `{"messages":[]}`},
		{line: `{"body":null,"prompt":"a"}`, endpoint: Completions},
		{line: `{"method":"POST","url":"/v1/completions","body":{"x":1}}`, endpoint: Completions, body: `{"x":1}`},
		{line: `{"url":"/v1/chat/completions","body":{"prompt":"a"}}`, endpoint: Chat, body: `{"prompt":"a"}`},
	} {
		l, err := ParseInputLine([]byte(c.line))
		require.NoError(t, err, c.line)
		if c.body == "" {
			c.body = c.line
		}
		require.Equal(t, InputLine{CustomID: c.id, Endpoint: c.endpoint, Body: json.RawMessage(c.body)}, l, c.line)
	}
}

func TestErrorsOfInputLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, id, code, message string }{
		{`{`, "", CodeInvalidJSON, "is not valid JSON at byte 2: the text ends where a key is expected"},
		{``, "", CodeInvalidJSON, "is not valid JSON at byte 1: the text ends where a value is expected"},
		{`[{"prompt":"a"}]`, "", CodeInvalidType, "must be an object, not an array"},
		{` null`, "", CodeInvalidType, "must be an object, not null"},
		{`{"custom_id":"c"}`, "c", CodeMissing, `has neither "messages" nor "prompt" nor a "body"`},
		{`{"custom_id":"c","body":{}}`, "c", CodeMissing, `has neither "messages" nor "prompt" in its body`},
		{`{"custom_id":"c","body":{"error":{"code":"a","message":"b"}}}`, "c", CodeMissing, `has neither "messages" nor "prompt" in its body`},
		{`{"custom_id":"c","messages":[],"prompt":"a"}`, "c", CodeInvalidValue, `has both "messages" and "prompt"`},
		{`{"custom_id":7,"prompt":"a"}`, "", CodeInvalidType, `"custom_id" must be a string, not a number`},
		{`{"custom_id":"","id":"i","prompt":"a"}`, "", CodeInvalidValue, `"custom_id" is empty`},
		{`{"custom_id":"` + strings.Repeat("x", MaxCustomID+1) + `","prompt":"a"}`, "", CodeInvalidValue, "the row's id has 513 bytes, more than 512"},
		{`{"id":1.5,"prompt":"a"}`, "", CodeInvalidType, `"id" must be a string or a whole number, not 1.5`},
		{`{"id":true,"prompt":"a"}`, "", CodeInvalidType, `"id" must be a string or a number, not true or false`},
		{`{"custom_id":"c","body":[]}`, "c", CodeInvalidType, `"body" must be an object, not an array`},
		{`{"custom_id":"c","method":"GET","body":{"prompt":"a"}}`, "c", CodeInvalidValue, `"method" must be "POST", not "GET"`},
		{`{"custom_id":"c","url":"/v1/embeddings","body":{"prompt":"a"}}`, "c", CodeInvalidValue, `"url" must be "/v1/chat/completions" or "/v1/completions", not "/v1/embeddings"`},
		{`{"custom_id":"c","url":5,"body":{"prompt":"a"}}`, "c", CodeInvalidType, `"url" must be a string, not a number`},
		{`{"custom_id":"c","error":{"code":"invalid_record","message":"no column","param":"p"}}`, "c", CodeInvalidRecord, "no column"},
		{`{"custom_id":"c","error":{"message":"no column"}}`, "c", CodeInvalidType, `"error" must be an object with a "code" and a "message"`},
		{`{"custom_id":"c","error":{"code":5}}`, "c", CodeInvalidType, `"error" must be an object with a "code" and a "message"`},
		{`{"custom_id":"c","error":"broken"}`, "c", CodeInvalidType, `"error" must be an object, not a string`},
	} {
		l, err := ParseInputLine([]byte(c.line))
		require.EqualError(t, err, c.message, c.line)
		require.Equal(t, c.code, AsError(err).Code, c.line)
		require.Equal(t, c.id, l.CustomID, c.line)
	}
	_, err := ParseInputLine([]byte(`{"error":{"code":"invalid_record","message":"no column","param":"p"}}`))
	require.Equal(t, &Error{Code: "invalid_record", Message: "no column", Param: "p"}, AsError(fmt.Errorf("line 1: %w", err)))
	require.Nil(t, AsError(errors.New("another")))
}

// A field that would change the answer inside the body, but stands next to it, is named.
func TestMisplacedFields(t *testing.T) {
	t.Parallel()
	for fields, misplaced := range map[string]string{
		``:                              "",
		`,"temperature":null`:           "",
		`,"metadata":{},"model":"m"`:    "",
		`,"unknown":1`:                  "",
		`,"temperature":0`:              "temperature",
		`,"top_p":1,"max_new_tokens":1`: "max_new_tokens",
	} {
		l, err := ParseInputLine([]byte(`{"custom_id":"c","body":{"prompt":"a"}` + fields + `}`))
		require.NoError(t, err)
		if misplaced == "" {
			require.Nil(t, l.Misplaced, fields)
			continue
		}
		require.Equal(t, &Error{Code: CodeUnknown, Param: misplaced, Message: fmt.Sprintf(`%q stands next to "body", where it has no effect: move it into "body"`, misplaced)}, l.Misplaced)
	}
}

func TestBatchLines(t *testing.T) {
	t.Parallel()
	line := func(id, method, url, body string) string {
		return `{"custom_id":` + id + `,"method":` + method + `,"url":` + url + `,"body":` + body + `}`
	}
	const id, post, url, body = `"c"`, `"POST"`, `"/v1/completions"`, `{"model":"m","prompt":"a"}`
	long := strings.Repeat("x", MaxCustomID)
	for _, c := range []struct {
		line          string
		want          BatchLine
		code, message string // empty without an error
	}{
		{line(id, post, url, body), BatchLine{"c", "m"}, "", ""},
		{line(id, post, url, `{"stream":false}`), BatchLine{"c", ""}, "", ""},
		{line(`"`+long+`"`, post, url, body), BatchLine{long, "m"}, "", ""},
		{line(`"`+long+`x"`, post, url, body), BatchLine{"", ""}, CodeInvalidValue, `"custom_id" has 513 bytes, more than 512`},
		{line(`""`, post, url, body), BatchLine{}, CodeInvalidValue, `"custom_id" is empty`},
		{line(`null`, post, url, body), BatchLine{}, CodeMissing, `"custom_id" is missing`},
		{line(`5`, post, url, body), BatchLine{}, CodeInvalidType, `"custom_id" must be a string, not a number`},
		{line(id, `null`, url, body), BatchLine{"c", ""}, CodeMissing, `"method" is missing`},
		{line(id, `5`, url, body), BatchLine{"c", ""}, CodeInvalidType, `"method" must be a string, not a number`},
		{line(id, `"post"`, url, body), BatchLine{"c", ""}, CodeInvalidValue, `"method" must be "POST", not "post"`},
		{line(id, post, `null`, body), BatchLine{"c", ""}, CodeMissing, `"url" is missing`},
		{line(id, post, `5`, body), BatchLine{"c", ""}, CodeInvalidType, `"url" must be a string, not a number`},
		{line(id, post, `"/v1/chat/completions"`, body), BatchLine{"c", ""}, CodeURLMismatch, `"url" is "/v1/chat/completions", but the batch's endpoint is "/v1/completions"`},
		{line(id, post, url, `null`), BatchLine{"c", ""}, CodeMissing, `"body" is missing`},
		{line(id, post, url, `"{}"`), BatchLine{"c", ""}, CodeInvalidType, `"body" must be an object, not a string`},
		{line(id, post, url, `{"model":"m","stream": true}`), BatchLine{"c", "m"}, CodeInvalidValue, `"body.stream" must be false: the results of a batch are files`},
		{line(id, post, url, `{"model":5}`), BatchLine{"c", ""}, CodeInvalidType, `"body.model" must be a string, not a number`},
		{`[]`, BatchLine{}, CodeInvalidJSON, "must be an object, not an array"},
		{`{"custom_id":"c",}`, BatchLine{}, CodeInvalidJSON, "is not valid JSON at byte 18: found '}' where a key is expected"},
	} {
		got, err := CheckBatchLine([]byte(c.line), Completions)
		require.Equal(t, c.want, got, c.line)
		if c.message == "" {
			require.NoError(t, err, c.line)
			continue
		}
		require.EqualError(t, err, c.message, c.line)
		require.Equal(t, c.code, AsError(err).Code, c.line)
	}
}

func TestResultIDs(t *testing.T) {
	t.Parallel()
	for _, batch := range []string{"b", "a-b-c", ""} {
		id := ResultID(batch, 12, "00c0ffee")
		require.Equal(t, "batch_req_"+batch+"-12-00c0ffee", id)
		require.True(t, strings.HasPrefix(id, ResultPrefix(batch)))
		gotBatch, line, sum, err := ParseResultID(id)
		require.NoError(t, err)
		require.Equal(t, []any{batch, 12, uint32(0xc0ffee)}, []any{gotBatch, line, sum})
	}
	for id, valid := range map[string]bool{
		"batch_req_b-1-00000000": true, "batch_req_b-2147483647-00000000": true,
		"batch_req_b-0-00000000": false, "batch_req_b--1-00000000": true, // of a batch "b-"
		"batch_req_b-2147483648-00000000": false, "batch_req_b-99999999999999999999-00000000": false, "batch_req_b-x-00000000": false, "batch_req_b-1-0000000": false,
		"batch_req_b-1-000000": false, "batch_req_b-1-0000000000": false, "batch_req_b-1-0000000g": false, "batch_req_b-1-00000000zz": false,
		"batch_req_1-00000000": false, "req_b-1-00000000": false, "b-1-00000000": false, "": false,
	} {
		_, line, sum, err := ParseResultID(id)
		require.Equal(t, valid, err == nil, id)
		if err != nil {
			require.EqualError(t, err, fmt.Sprintf("%q is not the id of a result: it must be batch_req_BATCH-LINE-SUM", id))
			require.Zero(t, line)
			require.Zero(t, sum)
		}
	}
}

// Errors of rows become errors of live requests with OpenAI's codes and statuses.
func TestErrorsOverHTTP(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	for _, c := range []struct {
		err    Error
		status int
		want   ErrorDetail
	}{
		{Error{Code: CodeMissing, Message: `"prompt" is missing`, Param: "prompt"}, http.StatusBadRequest,
			ErrorDetail{`"prompt" is missing`, "invalid_request_error", text("prompt"), text("missing_required_parameter")}},
		{Error{Code: CodeUnknown, Message: "x"}, http.StatusBadRequest, ErrorDetail{"x", "invalid_request_error", nil, text("unknown_parameter")}},
		{Error{Code: CodeUnsupported, Message: "x"}, http.StatusBadRequest, ErrorDetail{"x", "invalid_request_error", nil, text("unsupported_parameter")}},
		{Error{Code: CodeUnknownModel, Message: "x"}, http.StatusNotFound, ErrorDetail{"x", "invalid_request_error", nil, text("model_not_found")}},
		{Error{Code: CodeInvalidJSON, Message: "is not valid JSON"}, http.StatusBadRequest,
			ErrorDetail{"the request's body is not valid JSON", "invalid_request_error", nil, text("invalid_json")}},
		{Error{Message: "has both"}, http.StatusBadRequest, ErrorDetail{"the request's body has both", "invalid_request_error", nil, nil}},
		{Error{Message: "must be an object"}, http.StatusBadRequest, ErrorDetail{"the request's body must be an object", "invalid_request_error", nil, nil}},
	} {
		status, body := c.err.HTTP()
		require.Equal(t, c.status, status)
		require.Equal(t, ErrorBody{c.want}, body)
	}
}

// An error names the field that its message begins with.
func TestParamOfErrors(t *testing.T) {
	t.Parallel()
	for message, param := range map[string]string{`"a.b" is wrong, not "c"`: "a.b", `a key of "b" is wrong`: "", `is wrong`: "", `"open`: "open"} {
		require.Equal(t, &Error{Code: "c", Message: message, Param: param}, errorf("c", "%s", message))
	}
}

// Flags set defaults for rows: their values become JSON of the field's kind.
func TestFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind        Kind
		value, want string
		err         string
	}{
		{Number, "0.5", "0.5", ""},
		{Number, "1e3", "1000", ""},
		{Number, "a", "", `"a" is not a number`},
		{Integer, "-12", "-12", ""},
		{Integer, "9223372036854775807", "9223372036854775807", ""},
		{Integer, "1.5", "", `"1.5" is not a whole number`},
		{Boolean, "true", "true", ""},
		{Boolean, "yes", "", `"yes" is not true or false`},
		{String, "<low>", `"<low>"`, ""},
		{Strings, "a,b", `["a,b"]`, ""},
		{Integers, "2, 10", "[2,10]", ""},
		{Integers, "2,x,7", "", `"2,x,7" is not a list of token ids, such as 2,7`},
		{Object, `{"50": -100}`, `{"50": -100}`, ""},
		{Object, `{50}`, "", `"{50}" is not JSON`},
	} {
		got, err := (&Field{Kind: c.kind}).Parse(c.value)
		require.Equal(t, c.want, string(got), c.value)
		if c.err == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, c.err)
		}
	}
	var flags []string
	for _, f := range Flags() {
		require.NotEmpty(t, f.Help, f.Name)
		flags = append(flags, f.Flag())
	}
	require.Contains(t, flags, "max-tokens")
	require.NotContains(t, flags, "max-completion-tokens", "a field without help has no flag")
}

func TestNamesOfFields(t *testing.T) {
	t.Parallel()
	for _, f := range Fields(Chat) {
		if f.Name != "max_tokens" {
			require.False(t, f.Named(""), f.Name)
			require.True(t, f.Named(f.Name))
			continue
		}
		for name, want := range map[string]bool{"max_tokens": true, "n_predict": true, "max_new_tokens": true, "max_completion_tokens": true, "": false, "n": false} {
			require.Equal(t, want, f.Named(name), name)
		}
	}
}

func TestUserMessage(t *testing.T) {
	t.Parallel()
	text := string(UserMessage(`<a> & "b"`))
	require.JSONEq(t, `{"messages":[{"role":"user","content":"<a> & \"b\""}]}`, text)
	require.NotContains(t, text, `\u00`)
}

// Lines of results and bodies of errors have the names of OpenAI's fields. Lines also have the
// checksum of a table's record.
func TestNamesOfResultFields(t *testing.T) {
	t.Parallel()
	for text, value := range map[string]any{
		`{"id":"i","custom_id":"c","response":{"status_code":200,"request_id":"r","body":{}},"error":null,"record_sum":"s"}`: new(OutputLine),
		`{"id":"i","custom_id":"c","response":null,"error":{"code":"c","message":"m"}}`:                                      new(OutputLine),
		`{"error":{"message":"m","type":"t","param":"p","code":"c"}}`:                                                        new(ErrorBody),
	} {
		require.NoError(t, json.Unmarshal([]byte(text), value))
		written, err := json.Marshal(value)
		require.NoError(t, err)
		require.JSONEq(t, text, string(written))
	}
}
