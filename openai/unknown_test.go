package openai

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

func TestAliases(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fields string
		check  func(r generation.Request) any
		want   any
	}{
		{`"max_new_tokens":7`, func(r generation.Request) any { return r.MaxTokens }, 7},
		{`"n_predict":7`, func(r generation.Request) any { return r.MaxTokens }, 7},
		{`"n_predict":7,"max_tokens":null`, func(r generation.Request) any { return r.MaxTokens }, 7},
		{`"max_tokens":7,"n_predict":null`, func(r generation.Request) any { return r.MaxTokens }, 7},
		{`"stop_sequences":["a","b"]`, func(r generation.Request) any { return r.Stop }, []string{"a", "b"}},
		{`"repeat_penalty":1.5`, func(r generation.Request) any { return r.Sampling.RepetitionPenalty }, 1.5},
		{`"enable_thinking":false`, func(r generation.Request) any { v, _ := r.Chat.Get("enable_thinking"); return v }, false},
		{`"enable_thinking":true`, func(r generation.Request) any { v, _ := r.Chat.Get("enable_thinking"); return v }, true},
	} {
		r := parse(t, Chat, `{"messages":[{"role":"user","content":"hi"}],`+c.fields+`}`)
		require.NoError(t, r.CheckUnknown(), c.fields)
		require.Equal(t, c.want, c.check(generationOf(r, 0)), c.fields)
	}
}

func TestErrorsOfAliases(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]string{
		`"max_tokens":5,"n_predict":5`:     `"max_tokens" and "n_predict" are names of the same setting: give one`,
		`"max_new_tokens":5,"n_predict":5`: `"max_new_tokens" and "n_predict" are names of the same setting: give one`,
		`"n_predict":-1`:                   `"n_predict" must be at least 1, not -1`,
		`"max_new_tokens":"5"`:             `"max_new_tokens" must be a number, not a string`,
		`"stop_sequences":["a",5]`:         `"stop_sequences[1]" must be a string, not a number`,
		`"repeat_penalty":0`:               `"repeat_penalty" must be greater than 0`,
		`"enable_thinking":"no"`:           `"enable_thinking" must be true or false, not a string`,
		`"model":5`:                        `"model" must be a string, not a number`,
		`"enable_thinking":true,"chat_template_kwargs":{"enable_thinking":false}`: `"enable_thinking" is in the body and in "chat_template_kwargs": give one`,
	} {
		_, err := ParseRequest(Chat, []byte(`{"messages":[{"role":"user","content":"hi"}],`+fields+`}`))
		require.EqualError(t, err, want)
	}
	_, err := ParseRequest(Chat, []byte(`{"messages":[{"role":"user","content":"hi","images":["x"]}]}`))
	require.EqualError(t, err, `"messages[0].images" is not supported: only text can be used`)
}

// The error about a very long name is short, and takes no long search for a similar one.
func TestUnknownFieldsWithLongNames(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("a", 8<<20)
	start := time.Now()
	for fields, want := range map[string]string{
		`"` + name + `":1`: `"` + name[:100] + `" is unknown: remove it`,
		`"structured_outputs":{"regex":"a","` + name + `":"b"}`: `"structured_outputs.` + name[:100-len("structured_outputs.")] + `" is unknown: remove it`,
	} {
		r := parse(t, Completions, `{"prompt":"a",`+fields+`}`)
		require.EqualError(t, r.CheckUnknown(), want)
	}
	require.Less(t, time.Since(start), 20*time.Second) // comparing the whole name with each field takes minutes
}

func TestUnknownFields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		endpoint              Endpoint
		fields, code, message string
	}{
		{Completions, `"sampling_params":{"temperature":0}`, CodeUnsupported, `"sampling_params" is not supported: put its fields into the body itself`},
		{Completions, `"extra_body":{"top_k":1}`, CodeUnsupported, `"extra_body" is not supported: put its fields into the body itself`},
		{Chat, `"system":"Be brief."`, CodeUnsupported, `"system" is not supported: add a message with the role "system"`},
		{Chat, `"images":["x"]`, CodeUnsupported, `"images" is not supported: only text can be used`},
		{Completions, `"max_length":5`, CodeUnsupported, `"max_length" is not supported: use "max_tokens", which does not count the prompt`},
		{Completions, `"mirostat":2`, CodeUnsupported, `"mirostat" is not supported: use "temperature", "top_p", "min_p" and "top_k"`},
		{Completions, `"typical_p":0.9`, CodeUnsupported, `"typical_p" is not supported: use "temperature", "top_p", "min_p" and "top_k"`},
		{Completions, `"max_completion_tokens":9`, CodeUnsupported, `"max_completion_tokens" is not supported: it is a field of /v1/chat/completions`},
		{Completions, `"tools":[]`, CodeUnsupported, `"tools" is not supported: it is a field of /v1/chat/completions`},
		{Completions, `"temp":0`, CodeUnknown, `"temp" is unknown: remove it`},
		{Completions, `"topk":5`, CodeUnknown, `"topk" is unknown: did you mean "top_k"?`},
		{Completions, `"Seed":5`, CodeUnknown, `"Seed" is unknown: did you mean "seed"?`},
		{Completions, `"max_new_token":5`, CodeUnknown, `"max_new_token" is unknown: did you mean "max_new_tokens"?`},
		{Completions, `"b":1,"a":1`, CodeUnknown, `"a" is unknown: remove it`},
	} {
		body := `{"prompt":"hi",` + c.fields + `}`
		if c.endpoint == Chat {
			body = `{"messages":[{"role":"user","content":"hi"}],` + c.fields + `}`
		}
		require.Equal(t, errorf(c.code, "%s", c.message), parse(t, c.endpoint, body).CheckUnknown(), c.fields)
	}
}

func TestFieldsThatChangeNothing(t *testing.T) {
	t.Parallel()
	for _, fields := range []string{
		`"user":"me","metadata":{"a":1},"store":true,"verbosity":"low","service_tier":"flex"`,
		`"family":null`,
		`"mirostat":0,"mirostat_tau":5,"typical_p":1.0,"repeat_last_n":-1,"images":[],"system":"","extra_body":{}`,
		`"stream":false,"response_format":{"type":"text"}`,
		`"id":1,"custom_id":"x","answer":"y"`,
		`"safety_identifier":"a","prediction":{},"stream_options":{},"prompt_cache_key":"a","prompt_cache_options":{},"prompt_cache_retention":"24h"`,
		`"priority":1,"request_id":"a","cache_salt":"a","guided_decoding_backend":"auto","cache_prompt":true,"id_slot":1,"timings_per_token":true,"mirostat_eta":0.1,"keep_alive":"5m"`,
		`"modalities":["text"],"functions":[],"function_call":"auto","add_special_tokens":false,"echo":false`,
		`"function_call":"none"`,
	} {
		r := parse(t, Chat, `{"messages":[{"role":"user","content":"hi"}],`+fields+`}`)
		require.NoError(t, r.CheckUnknown(), fields)
	}
}

// Fields that other programs have are refused under their own names, unless their value changes
// nothing.
func TestFieldsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		endpoint Endpoint
		name     string
		neutral  []string // values with which the field is accepted
	}{
		{Completions, "guided_whitespace_pattern", nil},
		{Completions, "allowed_token_ids", nil},
		{Completions, "bad_words", []string{"[]"}},
		{Completions, "logits_processors", []string{"[]"}},
		{Completions, "use_beam_search", []string{"false"}},
		{Completions, "length_penalty", []string{"1", "1.0"}},
		{Completions, "prompt_logprobs", nil},
		{Completions, "include_stop_str_in_output", []string{"false"}},
		{Completions, "skip_special_tokens", []string{"true"}},
		{Completions, "return_tokens_as_token_ids", []string{"false"}},
		{Completions, "truncate_prompt_tokens", nil},
		{Completions, "prompt_embeds", nil},
		{Completions, "suffix", []string{`""`}},
		{Completions, "add_special_tokens", []string{"true"}},
		{Chat, "functions", []string{"[]"}},
		{Chat, "function_call", []string{`"auto"`, `"none"`}},
		{Chat, "modalities", []string{`["text"]`}},
		{Chat, "audio", nil},
		{Chat, "web_search_options", nil},
		{Chat, "chat_template", nil},
		{Chat, "add_special_tokens", []string{"false"}},
	} {
		body := func(value string) []byte {
			if c.endpoint == Chat {
				return []byte(`{"messages":[{"role":"user","content":"hi"}],"` + c.name + `":` + value + `}`)
			}
			return []byte(`{"prompt":"hi","` + c.name + `":` + value + `}`)
		}
		_, err := ParseRequest(c.endpoint, body(`{"other":7}`))
		require.ErrorContains(t, err, `"`+c.name+`" is not supported: `)
		require.Equal(t, CodeUnsupported, AsError(err).Code)
		for _, value := range append(c.neutral, "null") {
			r, err := ParseRequest(c.endpoint, body(value))
			require.NoError(t, err, "%s: %s", c.name, value)
			require.NoError(t, r.CheckUnknown(), "%s: %s", c.name, value)
		}
	}
	for name, neutral := range map[string][]string{ // accepted if unknown fields are ignored
		"extra_body": {"{}"}, "sampling_params": {"{}"}, "options": {"{}"}, "system": {`""`}, "images": {"[]"}, "max_length": nil, "num_predict": nil,
		"thinking": nil, "repeat_last_n": {"-1"}, "mirostat": {"0"}, "typical_p": {"1", "1.0"},
	} {
		err := parse(t, Completions, `{"prompt":"hi","`+name+`":{"other":7}}`).CheckUnknown()
		require.ErrorContains(t, err, `"`+name+`" is not supported: `)
		for _, value := range append(neutral, "null") {
			require.NoError(t, parse(t, Completions, `{"prompt":"hi","`+name+`":`+value+`}`).CheckUnknown(), "%s: %s", name, value)
		}
	}
	_, err := ParseLive(Completions, []byte(`{"prompt":"hi","stream":true,"bad_words":["a"]}`))
	require.EqualError(t, err, `"bad_words" is not supported: use "logit_bias"`)
}

// A name that is nearly right, but whose distance is larger than two characters, is not an error of
// its own.
func TestHowNearAMisspeltFieldIs(t *testing.T) {
	t.Parallel()
	for name, meant := range map[string]string{
		"temperature": "", "temperatura": "temperature", "temperatorz": "temperature", "temperaxyzw": "",
		"temperat": "", "temperatu": "temperature", "temperaturexx": "temperature", "temperaturexxx": "",
		"maxtokens": "max_tokens", "min_token": "min_tokens", "m_tokens": "max_tokens", "seed": "", "sed": "",
	} {
		require.Equal(t, meant, misspelt(name), name)
	}
	for name, near := range map[string]string{"tok_k": "top_k", "qqqqq": "", "kop_k": "top_k", "TOP_P": "top_p", "temperatrue": "temperature"} {
		require.Equal(t, near, nearest(name, fieldNames()), name)
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"kitten", "sitting", 3}, {"ab", "ba", 2}, {"abc", "xabc", 1}, {"abc", "abd", 1}} {
		require.Equal(t, c.want, distance(c.a, c.b), "%s, %s", c.a, c.b)
	}
}

// Every field is in only one list, so that the lists cannot contradict each other.
func TestListsOfFieldsAreDisjoint(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	names := append(fieldNames(), inert...)
	for _, f := range unsupported {
		if f.ignorable {
			names = append(names, f.field)
		}
	}
	for _, name := range names {
		require.False(t, seen[name], name)
		seen[name] = true
	}
}

// TestUnknownFieldsInside: unknown fields of the objects that give tools and forms are found too.
func TestUnknownFieldsInside(t *testing.T) {
	t.Parallel()
	const tool = `"tools":[{"type":"function","function":{"name":"f"}}],`
	for fields, want := range map[string]string{
		`"tools":[{"type":"function","function":{"name":"f","stric":true}}]`:                                                                                `"tools[0].function.stric" is unknown: did you mean "strict"?`,
		`"tools":[{"type":"function","strict":true,"function":{"name":"f"}}]`:                                                                               `"tools[0].strict" is unknown: remove it`,
		tool + `"tool_choice":{"type":"function","function":{"name":"f","strict":true}}`:                                                                    `"tool_choice.function.strict" is unknown: remove it`,
		tool + `"tool_choice":{"type":"function","mode":"auto","function":{"name":"f"}}`:                                                                    `"tool_choice.mode" is unknown: remove it`,
		tool + `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tool":[],"tools":[{"type":"function","function":{"name":"f"}}]}}`:     `"tool_choice.allowed_tools.tool" is unknown: did you mean "tools"?`,
		tool + `"tool_choice":{"type":"allowed_tools","mode":"auto","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}`: `"tool_choice.mode" is unknown: remove it`,
		tool + `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","strict":true,"function":{"name":"f"}}]}}`: `"tool_choice.allowed_tools.tools[0].strict" is unknown: remove it`,
		`"structured_outputs":{"regex":"a","chioce":["b"]}`:                                                                                                 `"structured_outputs.chioce" is unknown: did you mean "choice"?`,
		`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{},"foo":1}}`:                                                           `"response_format.json_schema.foo" is unknown: remove it`,
		`"response_format":{"type":"json_object","schemas":{}}`:                                                                                             `"response_format.schemas" is unknown: did you mean "schema"?`,
		`"tools":[{"type":"function","function":{"name":"f","stric":null,"parameters":{"type":"object","x":1}}}]`:                                           ``,
	} {
		r, err := ParseRequest(Chat, []byte(`{"messages":[{"role":"user","content":"hi"}],`+fields+`}`))
		require.NoError(t, err, fields)
		if err := r.CheckUnknown(); want != "" {
			require.EqualError(t, err, want, fields)
		} else {
			require.NoError(t, err, fields)
		}
	}
}

// Fields that change no answer are accepted, even if their names are like those of others.
func TestInertFieldsAreAccepted(t *testing.T) {
	t.Parallel()
	for _, name := range inert {
		_, err := ParseRequest(Chat, []byte(`{"messages":[{"role":"user","content":"hi"}],"`+name+`":1}`))
		require.NoError(t, err, name)
	}
}
