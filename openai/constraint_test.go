package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

// withFields returns the body of a request with more fields.
func withFields(e Endpoint, fields string) []byte {
	if e == Chat {
		return []byte(`{"messages":[{"role":"user","content":"hi"}],` + fields + `}`)
	}
	return []byte(`{"prompt":"hi",` + fields + `}`)
}

// TestFormsOfAnswers: every field that gives the form of an answer reaches the engine, on both
// endpoints and in live requests. Schemas keep their text, and so the order of their properties.
func TestFormsOfAnswers(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object", "properties":{"b":{"type":"integer"},"a":{}},"required":["b"]}`
	quoted := string(must(Marshal(schema)))
	anything := &generation.Constraint{Schema: `{"type":"object"}`}
	same := &generation.Constraint{Schema: schema}
	regex := &generation.Constraint{Regex: `\d+`}
	choices := &generation.Constraint{Choices: []string{"yes", "nö", ""}}
	grammar := &generation.Constraint{Grammar: "start: \"a\"+"}
	for fields, want := range map[string]*generation.Constraint{
		`"response_format":null`:            nil,
		`"response_format":{"type":"text"}`: nil,
		`"grammar":""`:                      nil,
		`"format":""`:                       nil,
		`"response_format":{"type":"text"},"guided_regex":"\\d+"`:                                                                     regex,
		`"response_format":{"type":"json_object"}`:                                                                                    anything,
		`"response_format":{"type":"json_object","schema":null}`:                                                                      anything,
		`"response_format":{"type":"json_object","schema":` + schema + `}`:                                                            same,
		`"response_format":{"type":"json_schema","schema":` + schema + `}`:                                                            same,
		`"response_format":{"type":"json_schema","json_schema":{"schema":` + schema + `}}`:                                            same,
		`"response_format":{"type":"json_schema","json_schema":{"name":"n","description":"d","strict":true,"schema":` + schema + `}}`: same,
		`"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":null,"schema":` + schema + `}}`:                   same,
		`"structured_outputs":{"json":` + schema + `}`:                                                                                same,
		`"structured_outputs":{"json":` + quoted + `}`:                                                                                same,
		`"structured_outputs":{"json":null,"regex":"\\d+"}`:                                                                           regex,
		`"structured_outputs":{"choice":["yes","nö",""]}`:                                                                             choices,
		`"structured_outputs":{"grammar":"start: \"a\"+"}`:                                                                            grammar,
		`"structured_outputs":{"json_object":true}`:                                                                                   anything,
		`"structured_outputs":{"json_object":false,"regex":"\\d+","disable_fallback":true,"disable_any_whitespace":false}`:            regex,
		`"guided_json":` + schema:                                                                                                     same,
		`"guided_json":` + quoted:                                                                                                     same,
		`"guided_regex":"\\d+"`:                                                                                                       regex,
		`"guided_choice":["yes","n\u00f6",""]`:                                                                                        choices,
		`"guided_grammar":"start: \"a\"+"`:                                                                                            grammar,
		`"json_schema":` + schema:                                                                                                     same,
		`"grammar":"start: \"a\"+"`:                                                                                                   grammar,
		`"format":"json"`:                                                                                                             anything,
		`"format":` + schema:                                                                                                          same,
	} {
		for _, e := range []Endpoint{Chat, Completions} {
			for _, read := range []func(Endpoint, []byte) (*Request, error){ParseRequest, ParseLive} {
				r, err := read(e, withFields(e, fields))
				require.NoError(t, err, fields)
				require.NoError(t, r.CheckUnknown(), fields)
				require.Equal(t, want, generationOf(r, 0).Constraint, fields)
				require.Equal(t, want, r.Constraint(), fields)
			}
		}
	}
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}

func TestErrorsOfForms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ fields, code, param, message string }{
		{`"response_format":"json_object"`, CodeInvalidType, "response_format", `"response_format" must be an object, not a string`},
		{`"response_format":{}`, CodeMissing, "response_format.type", `"response_format.type" is missing`},
		{`"response_format":{"type":7}`, CodeInvalidType, "response_format.type", `"response_format.type" must be a string, not a number`},
		{`"response_format":{"type":"regex"}`, CodeInvalidValue, "response_format.type", `"response_format.type" must be "text", "json_object" or "json_schema", not "regex"`},
		{`"response_format":{"type":"json_schema"}`, CodeMissing, "response_format.json_schema", `"response_format.json_schema" is missing`},
		{`"response_format":{"type":"json_schema","json_schema":{"name":"n"}}`, CodeMissing, "response_format.json_schema.schema", `"response_format.json_schema.schema" is missing`},
		{`"response_format":{"type":"json_schema","json_schema":[]}`, CodeInvalidType, "response_format.json_schema", `"response_format.json_schema" must be an object, not an array`},
		{`"response_format":{"type":"json_schema","json_schema":{"schema":"{}"}}`, CodeInvalidType, "response_format.json_schema.schema", `"response_format.json_schema.schema" must be an object, not a string`},
		{`"response_format":{"type":"json_schema","json_schema":{"schema":{},"strict":"yes"}}`, CodeInvalidType, "response_format.json_schema.strict", `"response_format.json_schema.strict" must be true or false, not a string`},
		{`"response_format":{"type":"json_schema","json_schema":{"schema":{},"name":7}}`, CodeInvalidType, "response_format.json_schema.name", `"response_format.json_schema.name" must be a string, not a number`},
		{`"response_format":{"type":"json_schema","json_schema":{"schema":{},"description":7}}`, CodeInvalidType, "response_format.json_schema.description", `"response_format.json_schema.description" must be a string, not a number`},
		{`"response_format":{"type":"json_object","json_schema":{"schema":{}}}`, CodeInvalidValue, "response_format.json_schema", `"response_format.json_schema" needs the type "json_schema", not "json_object"`},
		{`"response_format":{"type":"json_object","schema":[]}`, CodeInvalidType, "response_format.schema", `"response_format.schema" must be an object, not an array`},
		{`"structured_outputs":{}`, CodeInvalidValue, "structured_outputs", `"structured_outputs" has no form: give one of json, regex, choice, grammar and json_object`},
		{`"structured_outputs":{"json_object":false}`, CodeInvalidValue, "structured_outputs", `"structured_outputs" has no form: give one of json, regex, choice, grammar and json_object`},
		{`"structured_outputs":{"regex":"a","choice":["a"]}`, CodeInvalidValue, "structured_outputs.regex", `"structured_outputs.regex" and "structured_outputs.choice" both give the form of the answer: give one`},
		{`"structured_outputs":{"structural_tag":"{}"}`, CodeUnsupported, "structured_outputs.structural_tag", `"structured_outputs.structural_tag" is not supported: give one of json, regex, choice, grammar and json_object`},
		{`"structured_outputs":{"json":{},"whitespace_pattern":" "}`, CodeUnsupported, "structured_outputs.whitespace_pattern", `"structured_outputs.whitespace_pattern" is not supported: give one of json, regex, choice, grammar and json_object`},
		{`"guided_json":"["`, CodeInvalidValue, "guided_json", `"guided_json" must be an object, or a text with an object as JSON`},
		{`"guided_json":"[]"`, CodeInvalidValue, "guided_json", `"guided_json" must be an object, or a text with an object as JSON`},
		{`"guided_json":[]`, CodeInvalidType, "guided_json", `"guided_json" must be an object or a string, not an array`},
		{`"guided_choice":[]`, CodeInvalidValue, "guided_choice", `"guided_choice" is an empty array`},
		{`"guided_choice":["a",1]`, CodeInvalidType, "guided_choice[1]", `"guided_choice[1]" must be a string, not a number`},
		{`"guided_choice":["a\ud83d\ude00","\ud800"]`, CodeInvalidValue, "guided_choice[1]", `"guided_choice[1]" has half of a surrogate pair, which no answer can have: remove it`},
		{`"guided_choice":` + listOf(maxChoices+1, `"x"`), CodeInvalidValue, "guided_choice", `"guided_choice" has more than 100000 strings`},
		{`"guided_regex":""`, CodeInvalidValue, "guided_regex", `"guided_regex" is empty`},
		{`"guided_regex":["a"]`, CodeInvalidType, "guided_regex", `"guided_regex" must be a string, not an array`},
		{`"guided_grammar":""`, CodeInvalidValue, "guided_grammar", `"guided_grammar" is empty`},
		{`"format":"yaml"`, CodeInvalidValue, "format", `"format" must be "json" or a schema, not "yaml"`},
		{`"guided_regex":"a","response_format":{"type":"json_object"}`, CodeInvalidValue, "response_format.type", `"response_format.type" and "guided_regex" both give the form of the answer: give one`},
		{`"grammar":"a","json_schema":{}`, CodeInvalidValue, "json_schema", `"json_schema" and "grammar" both give the form of the answer: give one`},
		{`"guided_regex":"a","ignore_eos":true`, CodeInvalidValue, "ignore_eos", `"ignore_eos" and "guided_regex" cannot be combined: an answer in a given form ends when it is complete`},
		{`"response_formats":{"type":"json_object"}`, CodeInvalidValue, "response_formats", `"response_formats" is unknown: did you mean "response_format"?`},
		{`"guided_regx":"a"`, CodeInvalidValue, "guided_regx", `"guided_regx" is unknown: did you mean "guided_regex"?`},
	} {
		_, err := ParseLive(Chat, withFields(Chat, c.fields))
		require.Equal(t, &Error{Code: c.code, Param: c.param, Message: c.message}, err, c.fields)
	}
}

// TestCheckConstraint: a form that cannot be kept is an error that names its field.
func TestCheckConstraint(t *testing.T) {
	t.Parallel()
	refuse := func(c *generation.Constraint) error { return errors.New("/contains: not supported in " + c.Schema) }
	for fields, param := range map[string]string{
		`"response_format":{"type":"json_schema","json_schema":{"schema":{"contains":1}}}`: "response_format.json_schema.schema",
		`"guided_json":{"contains":1}`:                 "guided_json",
		`"structured_outputs":{"json":{"contains":1}}`: "structured_outputs.json",
	} {
		err := parse(t, Chat, string(withFields(Chat, fields))).CheckConstraint(refuse)
		require.Equal(t, &Error{Code: CodeInvalidValue, Param: param,
			Message: fmt.Sprintf(`%q cannot be kept: /contains: not supported in {"contains":1}`, param)}, err)
		status, body := AsError(err).HTTP()
		require.Equal(t, 400, status)
		require.Equal(t, param, *body.Error.Param)
	}
	require.NoError(t, parse(t, Chat, string(withFields(Chat, `"n":1`))).CheckConstraint(refuse))
}

// TestConstraintField: the field asks for the same form, and a request that has any field of a form
// needs no default.
func TestConstraintField(t *testing.T) {
	t.Parallel()
	for _, c := range []generation.Constraint{
		{Schema: `{"properties":{"b":{"const":"<&>"},"a":{}}}`}, {Regex: `a"\d`}, {Choices: []string{"a<b", "b"}}, {Grammar: "start: \"a\"\n"},
	} {
		f, value := ConstraintField(c)
		r := parse(t, Chat, string(withFields(Chat, fmt.Sprintf("%q:%s", f.Name, value))))
		require.Equal(t, &c, r.Constraint())
		for _, name := range []string{"response_format", "structured_outputs", "guided_choice", "format"} {
			require.True(t, f.Settles(name), name)
		}
		require.False(t, f.Settles("seed"))
	}
	require.Panics(t, func() { ConstraintField(generation.Constraint{Schema: "{"}) }, "a schema that is no JSON")
	seed := Flags()[0]
	require.True(t, seed.Settles(seed.Name))
	require.False(t, seed.Settles("response_format"))
}

// TestRequestsOfClients: the requests that client libraries send for structured answers are
// accepted as they are, and have the schema that the client sent. testdata/structured/README.md
// says how they were recorded.
func TestRequestsOfClients(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "structured", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, path := range files {
		body, err := os.ReadFile(path)
		require.NoError(t, err)
		var sent struct {
			Format struct {
				Type   string
				Schema struct{ Schema json.RawMessage } `json:"json_schema"`
			} `json:"response_format"`
		}
		require.NoError(t, json.Unmarshal(body, &sent))
		r, err := ParseLive(Chat, body)
		require.NoError(t, err, path)
		require.NoError(t, r.CheckUnknown(), path)
		want := string(sent.Format.Schema.Schema)
		if sent.Format.Type == "json_object" {
			want = anyObject
		}
		require.NotEmpty(t, want, path)
		require.Equal(t, want, r.Constraint().Schema, path)
		require.Equal(t, "tiny", r.Model(), path)
	}
}
