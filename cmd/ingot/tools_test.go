package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Rows with tools have calls in their results and in tables; a row whose tools are wrong is an
// error that names the field, and the other rows are answered.
func TestRunRowsWithTools(t *testing.T) {
	t.Parallel()
	const tool = `{"type":"function","function":{"name":"get_weather","strict":true,"parameters":{"type":"object","properties":{"city":{"type":"string","maxLength":8}},"required":["city"],"additionalProperties":false}}}`
	row := func(id, fields string) string {
		return `{"id":"` + id + `","messages":[{"role":"user","content":"Hi"}],"max_tokens":200,` + fields + "}"
	}
	rows := strings.Join([]string{
		row("required", `"tools":[`+tool+`],"tool_choice":"required","parallel_tool_calls":false`),
		row("named", `"tools":[`+tool+`],"tool_choice":{"type":"function","function":{"name":"get_weather"}}`),
		row("wrong", `"tools":[{"type":"function","function":{"name":"a b"}}]`),
		row("unkept", `"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","properties":{"a":{"type":"array","uniqueItems":true}}}}}]`),
	}, "\n")
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	require.NoError(t, os.WriteFile(in, []byte(rows+"\n"), 0o644))
	r := ingot(t, "", "run", in, "-o", out, "--model", tinyLlama)
	require.Equal(t, exitOK, r.code, r.stderr)
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	type result struct {
		CustomID string `json:"custom_id"`
		Response *struct {
			Body struct {
				Choices []struct {
					FinishReason string `json:"finish_reason"`
					Message      struct {
						Content   *string
						ToolCalls []struct {
							ID, Type string
							Function struct{ Name, Arguments string }
						} `json:"tool_calls"`
					}
				}
			}
		}
		Error *struct{ Message string }
	}
	got := map[string]result{}
	for line := range strings.Lines(string(text)) {
		var l result
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		got[l.CustomID] = l
	}
	for id, reason := range map[string]string{"required": "tool_calls", "named": "stop"} {
		c := got[id].Response.Body.Choices[0]
		require.Equal(t, reason, c.FinishReason)
		require.Nil(t, c.Message.Content)
		require.Len(t, c.Message.ToolCalls, 1)
		call := c.Message.ToolCalls[0]
		require.NotEmpty(t, call.ID)
		require.Equal(t, "function", call.Type)
		require.Equal(t, "get_weather", call.Function.Name)
		require.Regexp(t, `^\{\s*"city"\s*:`, call.Function.Arguments)
		require.True(t, json.Valid([]byte(call.Function.Arguments)))
	}
	require.Contains(t, got["wrong"].Error.Message, `"tools[0].function.name" has the character ' '`)
	require.Contains(t, got["unkept"].Error.Message, `"tools[0].function.parameters" cannot be kept: /properties/a/uniqueItems`)

	table := filepath.Join(dir, "out.csv")
	r = ingot(t, "", "export", out, "-o", table)
	require.Equal(t, exitOK, r.code, r.stderr)
	text, err = os.ReadFile(table)
	require.NoError(t, err)
	require.Contains(t, string(text), "tool_calls")
	require.Contains(t, string(text), `""name"":""get_weather""`)
}
