package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// TestAnswersHaveTheFormOfRequests: over HTTP, answers have the form that a request gives them,
// whether the server or a worker generates them. A form that cannot be kept is an error before
// anything is generated, also of a stream.
func TestAnswersHaveTheFormOfRequests(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]*bench{"alone": setUp(t, nil), "fleet": setUpFleet(t, redisqueue.New(redistest.Start(t).Client))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for fields, want := range map[string]string{
				`"guided_choice":["yes","no"]`:                           `yes|no`,
				`"structured_outputs":{"regex":"[0-9]{3}-[a-f]{2}"}`:     `[0-9]{3}-[a-f]{2}`,
				`"guided_grammar":"start: \"<\" (\"a\" | \"bc\") \">\""`: `<(a|bc)>`,
				`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{"b":{"type":"boolean"},"a":{"enum":[1,"x"]}},"required":["b","a"],"additionalProperties":false}}}`: `\{\s*"b"\s*:\s*(true|false)\s*,\s*"a"\s*:\s*(1|"x")\s*\}`,
			} {
				for path, prompt := range map[string]string{"/v1/chat/completions": hello, "/v1/completions": `"model":"tiny","prompt":"Once"`} {
					got := b.send(t, http.MethodPost, path, fmt.Sprintf(`{%s,%s,"n":3,"max_tokens":100}`, prompt, fields))
					require.Equal(t, 200, got.status, got.text)
					var body struct {
						Choices []struct {
							Text    string
							Message struct{ Content string }
							Finish  string `json:"finish_reason"`
						}
					}
					require.NoError(t, json.Unmarshal([]byte(got.text), &body))
					require.Len(t, body.Choices, 3)
					for _, c := range body.Choices {
						require.Equal(t, "stop", c.Finish)
						require.Regexp(t, "^("+want+")$", c.Text+c.Message.Content)
					}
				}
			}
			const open = `{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"},"uniqueItems":true}}}`
			for fields, param := range map[string]string{
				`"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":` + open + `}}`: "response_format.json_schema.schema",
				`"stream":true,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":` + open + `}}`: "response_format.json_schema.schema",
				`"guided_json":` + open:                           "guided_json",
				`"structured_outputs":{"json":` + open + `}`:      "structured_outputs.json",
				`"guided_regex":"(a"`:                             "guided_regex",
				`"guided_regex":"a","guided_choice":["a"]`:        "guided_regex",
				`"response_format":{"type":"json_schema"}`:        "response_format.json_schema",
				`"guided_choice":["a"],"ignore_eos":true`:         "ignore_eos",
				`"structured_outputs":{"structural_tag":{"a":1}}`: "structured_outputs.structural_tag",
			} {
				got := b.send(t, http.MethodPost, "/v1/chat/completions", `{`+hello+`,`+fields+`}`)
				require.Equal(t, 400, got.status, "%s: %s", fields, got.text)
				var body struct {
					Error struct{ Type, Param, Message string }
				}
				require.NoError(t, json.Unmarshal([]byte(got.text), &body))
				require.Equal(t, "invalid_request_error", body.Error.Type)
				require.Equal(t, param, body.Error.Param, got.text)
			}
		})
	}
}

// TestParamsOfEngineErrors: an error names the prompt only if it is about the prompt, and the field
// of the form if it is about the form.
func TestParamsOfEngineErrors(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	const tool = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`
	long := `"` + strings.Repeat("word ", 5000) + `"`
	for _, c := range []struct{ path, body, param string }{
		{"/v1/chat/completions", hello + `,"guided_regex":"[0-9]{5}","min_tokens":40`, "min_tokens"},
		{"/v1/chat/completions", hello + `,"guided_grammar":"start: <nope>"`, "guided_grammar"},
		{"/v1/completions", `"model":"tiny","prompt":"a","guided_grammar":"start: <nope>"`, "guided_grammar"},
		{"/v1/chat/completions", hello + `,"guided_grammar":"start: \"a\"",` + tool, "guided_grammar"},
		{"/v1/chat/completions", hello + `,"stop_token_ids":[99999999]`, ""},
		{"/v1/chat/completions", `"model":"tiny","messages":[{"role":"user","content":` + long + `}]`, "messages"},
		{"/v1/completions", `"model":"tiny","prompt":` + long, "prompt"},
		{"/v1/completions", `"model":"tiny","prompt":[99999999]`, "prompt"},
	} {
		got := b.send(t, http.MethodPost, c.path, `{`+c.body+`}`)
		require.Equal(t, 400, got.status, "%.200s: %.300s", c.body, got.text)
		var body struct {
			Error struct{ Param string }
		}
		require.NoError(t, json.Unmarshal([]byte(got.text), &body))
		require.Equal(t, c.param, body.Error.Param, "%.200s: %.300s", c.body, got.text)
	}
}

// TestBatchesWithForms: rows of a batch have their forms. A row whose form cannot be kept is in the
// file of errors, with the field and the path of the keyword.
func TestBatchesWithForms(t *testing.T) {
	t.Parallel()
	b := setUpStore(t)
	made := b.newBatch(t, chatRow("kept", `,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"enum":["yes","no"]}}},"max_tokens":20`)+
		chatRow("lost", `,"guided_json":{"type":"array","items":{"type":"string"},"uniqueItems":true}`))
	b.await(t, made.ID)
	ended := b.batch(t, http.MethodGet, made.ID)
	require.NotNil(t, ended.OutputFileID)
	require.NotNil(t, ended.ErrorFileID)
	require.Regexp(t, `"custom_id":"kept".*"content":"\\"(yes|no)\\""`, b.send(t, http.MethodGet, "/v1/files/"+*ended.OutputFileID+"/content", "").text)
	require.Regexp(t, `"custom_id":"lost".*guided_json.*cannot be kept: /uniqueItems`, b.send(t, http.MethodGet, "/v1/files/"+*ended.ErrorFileID+"/content", "").text)
}

// TestControlTokensInContent: over HTTP, no_special_in_content makes texts of control tokens in
// messages and prompts ordinary text, whether the server or a worker answers.
func TestControlTokensInContent(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]*bench{"alone": setUp(t, nil), "fleet": setUpFleet(t, redisqueue.New(redistest.Start(t).Client))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			count := func(path, fields string) int {
				got := b.send(t, http.MethodPost, path, `{"model":"tiny","max_tokens":1,`+fields+`}`)
				require.Equal(t, 200, got.status, got.text)
				var body struct {
					Usage struct {
						Tokens int `json:"prompt_tokens"`
					}
				}
				require.NoError(t, json.Unmarshal([]byte(got.text), &body))
				return body.Usage.Tokens
			}
			const chat, text = `"messages":[{"role":"user","content":"Hi<|user|>"}]`, `"prompt":"Hi<|user|>"`
			extra := count("/v1/chat/completions", chat+`,"no_special_in_content":true`) - count("/v1/chat/completions", chat)
			require.Positive(t, extra, "the text of a control token has several tokens")
			require.Equal(t, extra, count("/v1/completions", text+`,"no_special_in_content":true`)-count("/v1/completions", text))
			require.Equal(t, extra, count("/v1/completions", text+`,"literal_ranges":[[2,10]]`)-count("/v1/completions", text))
			require.Zero(t, count("/v1/completions", text+`,"literal_ranges":[[0,2]]`)-count("/v1/completions", text))
			got := b.send(t, http.MethodPost, "/v1/completions", `{"model":"tiny",`+text+`,"literal_ranges":[[2,11]]}`)
			require.Equal(t, 400, got.status)
			require.Contains(t, got.text, `\"literal_ranges[0]\" must be two offsets in the bytes of the only prompt, 0 to 10, in ascending order, not [2,11]`)
		})
	}
}
