package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

const weatherTool = `{"type":"function","function":{"name":"get_weather","description":"Weather.","strict":true,"parameters":{"type":"object","properties":{"b":{"type":"string"},"a":{}}}}}`

func toolRequest(t *testing.T, fields string) generation.Request {
	t.Helper()
	return generationOf(parse(t, Chat, `{"messages":[{"role":"user","content":"hi"}],`+fields+`}`), 0)
}

func TestTools(t *testing.T) {
	t.Parallel()
	const two = `"tools":[` + weatherTool + `,{"type":"function","function":{"name":"now.utc","parameters":null}}]`
	tools := []generation.Tool{
		{Name: "get_weather", Description: "Weather.", Strict: true, Parameters: `{"type":"object","properties":{"b":{"type":"string"},"a":{}}}`},
		{Name: "now.utc"},
	}
	for fields, want := range map[string]generation.ToolChoice{
		``:                             {},
		`,"tool_choice":null`:          {},
		`,"tool_choice":"auto"`:        {},
		`,"parallel_tool_calls":true`:  {},
		`,"parallel_tool_calls":false`: {Single: true},
		`,"tool_choice":"required"`:    {Mode: generation.ToolsRequired},
		`,"tool_choice":{"type":"function","function":{"name":"now.utc"}}`: {Mode: generation.ToolsNamed, Names: []string{"now.utc"}},
		`,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"get_weather"}}]}}`: {
			Mode: generation.ToolsRequired, Names: []string{"get_weather"},
		},
	} {
		r := toolRequest(t, two+fields)
		require.Equal(t, tools, r.Tools, fields)
		require.Equal(t, want, r.ToolChoice, fields)
		require.NoError(t, r.Validate(10), fields)
	}
	for _, kind := range []string{`"object"`, `["object"]`, `["object","null"]`} { // a schema may give several types
		parameters := `{"type":` + kind + `}`
		require.Equal(t, []generation.Tool{{Name: "f", Parameters: parameters}}, toolRequest(t, `"tools":[{"type":"function","function":{"name":"f","parameters":`+parameters+`}}]`).Tools)
	}
	require.Empty(t, toolRequest(t, two+`,"tool_choice":"none"`).Tools)
	require.Empty(t, toolRequest(t, `"tool_choice":"auto"`).Tools)
	for _, none := range []string{``, `"tools":[],`, `"tools":null,"tool_choice":"none",`} {
		r := toolRequest(t, none+`"parallel_tool_calls":false`) // clients send it without tools too
		require.Empty(t, r.Tools)
		require.NoError(t, r.Validate(10))
	}
}

func TestToolErrorsNameTheField(t *testing.T) {
	t.Parallel()
	function := func(fields string) string { return `"tools":[{"type":"function","function":{` + fields + `}}]` }
	for fields, want := range map[string]string{
		`"tools":{}`:                    `"tools" must be an array, not an object`,
		`"tools":["f"]`:                 `"tools[0]" must be an object, not a string`,
		`"tools":[{}]`:                  `"tools[0].type" is missing`,
		`"tools":[{"type":"custom"}]`:   `"tools[0].type" must be "function", not "custom"`,
		`"tools":[{"type":"function"}]`: `"tools[0].function" is missing`,
		`"tools":[` + weatherTool + `,` + weatherTool + `]`: `"tools[1].function.name" is "get_weather", like that of "tools[0]": give each tool a name of its own`,
		function(``):                                                      `"tools[0].function.name" is missing`,
		function(`"name":""`):                                             `"tools[0].function.name" is empty`,
		function(`"name":"a b"`):                                          `"tools[0].function.name" has the character ' '; it may have letters, digits, '_', '-' and '.'`,
		function(`"name":1`):                                              `"tools[0].function.name" must be a string, not a number`,
		function(`"name":"f","description":1`):                            `"tools[0].function.description" must be a string, not a number`,
		function(`"name":"f","strict":"yes"`):                             `"tools[0].function.strict" must be true or false, not a string`,
		function(`"name":"f","parameters":[]`):                            `"tools[0].function.parameters" must be an object, not an array`,
		function(`"name":"f","parameters":{"type":"string"}`):             `"tools[0].function.parameters.type" must be "object", not "string": arguments are an object`,
		function(`"name":"f","parameters":{"properties":[]}`):             `"tools[0].function.parameters.properties" must be an object, not an array`,
		function(`"name":"f","parameters":{"properties":{"x":"string"}}`): `"tools[0].function.parameters.properties.x" must be a schema (an object), not a string`,
		function(`"name":"f","parameters":{"required":[1]}`):              `"tools[0].function.parameters.required" must be an array of strings, and has a number`,

		`"tool_choice":"required"`: `"tool_choice" requires a call, but there are no "tools"`,
		`"tool_choice":"always"`:   `"tool_choice" must be "none", "auto", "required" or an object that names a function, not "always"`,
		`"tool_choice":1`:          `"tool_choice" must be a string or an object, not a number`,
		`"tools":[` + weatherTool + `],"tool_choice":{"type":"function","function":{"name":"f"}}`:                           `"tool_choice" names the function "f", which is not in "tools"`,
		`"tools":[` + weatherTool + `],"tool_choice":{"type":"function"}`:                                                   `"tool_choice.function" is missing`,
		`"tools":[` + weatherTool + `],"tool_choice":{"function":{"name":"f"}}`:                                             `"tool_choice.type" must be "function" or "allowed_tools", not ""`,
		`"tools":[` + weatherTool + `],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"none","tools":[]}}`:   `"tool_choice.allowed_tools.mode" must be "none", "auto", "required" or an object that names a function, not "none"`,
		`"tools":[` + weatherTool + `],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{}]}}`: `"tool_choice.allowed_tools.tools[0].function" is missing`,
		`"parallel_tool_calls":"no"`: `"parallel_tool_calls" must be true or false, not a string`,
	} {
		_, err := ParseRequest(Chat, []byte(`{"messages":[{"role":"user","content":"hi"}],`+fields+`}`))
		require.EqualError(t, err, want, fields)
	}
}

func TestCallErrorsNameTheField(t *testing.T) {
	t.Parallel()
	for calls, want := range map[string]string{
		`{}`:                `"messages[0].tool_calls" must be an array, not an object`,
		`["f"]`:             `"messages[0].tool_calls[0].function" must be an object, not null`,
		`[{"function":{}}]`: `"messages[0].tool_calls[0].function.name" must be a string, not null`,
		`[{"function":{"name":"f","arguments":true}}]`:   `"messages[0].tool_calls[0].function.arguments" must be a string with an object as JSON, not true or false`,
		`[{"function":{"name":"f","arguments":[]}}]`:     `"messages[0].tool_calls[0].function.arguments" must be a string with an object as JSON, not an array`,
		`[{"function":{"name":"f","arguments":"[]"}}]`:   `"messages[0].tool_calls[0].function.arguments" must be an object as JSON, not an array`,
		`[{"function":{"name":"f","arguments":"{oop"}}]`: `"messages[0].tool_calls[0].function.arguments" must be an object as JSON: parse JSON: offset 1: found 'o' where a key is expected`,
	} {
		_, err := ParseRequest(Chat, []byte(`{"messages":[{"role":"assistant","content":null,"tool_calls":`+calls+`}]}`))
		require.EqualError(t, err, want, calls)
	}
}

// Producers learn of a strict tool whose schema cannot be kept without an engine.
func TestCheckTools(t *testing.T) {
	t.Parallel()
	refuse := func(c *generation.Constraint) error { return errors.New("no " + c.Schema) }
	const loose = `{"type":"function","function":{"name":"f","parameters":{"not":{}}}}`
	chat := func(tools string) *Request {
		return parse(t, Chat, `{"messages":[{"role":"user","content":"hi"}],"tools":[`+tools+`]}`)
	}
	require.NoError(t, chat(loose).CheckConstraint(refuse))
	require.EqualError(t, chat(loose+`,`+weatherTool).CheckConstraint(refuse),
		`"tools[1].function.parameters" cannot be kept: no {"type":"object","properties":{"b":{"type":"string"},"a":{}}}`)
}

// An answer has its calls in the response and in the chunks of a stream, and both are read back.
func TestResponseWithCalls(t *testing.T) {
	t.Parallel()
	r := parse(t, Chat, `{"messages":[{"role":"user","content":"hi"}],"tools":[`+weatherTool+`]}`)
	calls := []generation.ToolCall{{ID: "call_1", Name: "get_weather", Arguments: `{"b": "x"}`}, {ID: "call_2", Name: "get_weather", Arguments: "{}"}}
	for content, want := range map[string]string{"": "null", "Wait.": `"Wait."`} {
		body := r.Response(Answer{}, []generation.Completion{{Choices: []generation.Choice{{Text: content, ToolCalls: calls, FinishReason: generation.FinishToolCalls}}}})
		text, err := Marshal(body)
		require.NoError(t, err)
		var read struct{ Choices []json.RawMessage }
		require.NoError(t, json.Unmarshal(text, &read))
		require.JSONEq(t, fmt.Sprintf(`{"index":0,"logprobs":null,"finish_reason":"tool_calls","message":{"role":"assistant","content":%s,"refusal":null,"tool_calls":[
			{"id":"call_1","type":"function","function":{"name":"get_weather","arguments":"{\"b\": \"x\"}"}},
			{"id":"call_2","type":"function","function":{"name":"get_weather","arguments":"{}"}}]}}`, want), string(read.Choices[0]))
		choices, err := r.Choices(text)
		require.NoError(t, err)
		require.Equal(t, [][]generation.Choice{{{Text: content, ToolCalls: calls, FinishReason: generation.FinishToolCalls}}}, choices)
	}
	s := r.NewStream(Answer{Created: time.Unix(1, 0)})
	var deltas []string
	for _, p := range []generation.Piece{
		{Text: "Wait."},
		{ToolCalls: []generation.ToolCallDelta{{ID: "call_1", Name: "get_weather"}}},
		{ToolCalls: []generation.ToolCallDelta{{Arguments: `{"b"`}}},
		{ToolCalls: []generation.ToolCallDelta{{Arguments: `: 1}`}, {Index: 1, ID: "call_2", Name: "get_weather", Arguments: "{}"}}, FinishReason: generation.FinishToolCalls},
	} {
		for _, c := range s.Chunks(0, p) {
			text, err := Marshal(c)
			require.NoError(t, err)
			var chunk struct {
				Choices []struct {
					Delta json.RawMessage
				}
			}
			require.NoError(t, json.Unmarshal(text, &chunk))
			deltas = append(deltas, string(chunk.Choices[0].Delta))
		}
	}
	require.Equal(t, []string{
		`{"role":"assistant","content":null}`,
		`{"content":"Wait."}`,
		`{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"get_weather","arguments":""}}]}`,
		`{"tool_calls":[{"index":0,"function":{"arguments":"{\"b\""}}]}`,
		`{"tool_calls":[{"index":0,"function":{"arguments":": 1}"}},{"index":1,"id":"call_2","type":"function","function":{"name":"get_weather","arguments":"{}"}}]}`,
		`{}`,
	}, deltas)
}
