package openai

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/internal/ordered"
)

// testSeed is the seed of requests that do not set one.
const testSeed int64 = 5

var testDate = time.UnixMilli(1_700_000_000_000)

// generationOf returns the engine's request for prompt i.
func generationOf(r *Request, i int) generation.Request {
	return r.Generation(i, r.Seed(testSeed), testDate)
}

func parse(t testing.TB, e Endpoint, body string) *Request {
	t.Helper()
	r, err := ParseRequest(e, []byte(body))
	require.NoError(t, err)
	return r
}

func TestDefaultsAreOpenAIs(t *testing.T) {
	t.Parallel()
	sampling := generation.Sampling{Temperature: 1, TopP: 1, RepetitionPenalty: 1, Seed: uint64(testSeed)}
	require.Equal(t, generation.Request{Text: "hi", Date: testDate, Sampling: sampling, N: 1, MaxTokens: 16},
		generationOf(parse(t, Completions, `{"prompt":"hi"}`), 0))

	chatted := generationOf(parse(t, Chat, `{"messages":[{"role":"user","content":"hi"}]}`), 0)
	require.Equal(t, []string{"messages"}, chatted.Chat.Keys())
	chatted.Chat = nil
	require.Equal(t, generation.Request{Date: testDate, Sampling: sampling, N: 1}, chatted)
}

func TestFieldsReachTheEngine(t *testing.T) {
	t.Parallel()
	const messages = `"messages":[{"role":"user","content":"hi"}]`
	for _, c := range []struct {
		endpoint Endpoint
		fields   string
		check    func(r generation.Request) any
		want     any
	}{
		{Completions, `"temperature":0`, func(r generation.Request) any { return r.Sampling.Temperature }, 0.0},
		{Completions, `"temperature":2`, func(r generation.Request) any { return r.Sampling.Temperature }, 2.0},
		{Completions, `"temperature":null`, func(r generation.Request) any { return r.Sampling.Temperature }, 1.0},
		{Completions, `"temperature":7e-1`, func(r generation.Request) any { return r.Sampling.Temperature }, 0.7},
		{Completions, `"top_p":0.9`, func(r generation.Request) any { return r.Sampling.TopP }, 0.9},
		{Completions, `"top_p":0`, func(r generation.Request) any { return r.Sampling.TopP }, minTopP},
		{Completions, `"top_k":40`, func(r generation.Request) any { return r.Sampling.TopK }, 40},
		{Completions, `"top_k":-1`, func(r generation.Request) any { return r.Sampling.TopK }, 0},
		{Completions, `"top_k":0`, func(r generation.Request) any { return r.Sampling.TopK }, 0},
		{Completions, `"min_p":0.05`, func(r generation.Request) any { return r.Sampling.MinP }, 0.05},
		{Completions, `"repetition_penalty":1.1`, func(r generation.Request) any { return r.Sampling.RepetitionPenalty }, 1.1},
		{Completions, `"presence_penalty":-2`, func(r generation.Request) any { return r.Sampling.PresencePenalty }, -2.0},
		{Completions, `"frequency_penalty":2`, func(r generation.Request) any { return r.Sampling.FrequencyPenalty }, 2.0},
		{Completions, `"logit_bias":{"5":-100,"6":0.5}`, func(r generation.Request) any { return r.Sampling.LogitBias }, map[int32]float64{5: -100, 6: 0.5}},
		{Completions, `"logit_bias":{}`, func(r generation.Request) any { return len(r.Sampling.LogitBias) }, 0},
		{Completions, `"seed":42`, func(r generation.Request) any { return r.Sampling.Seed }, uint64(42)},
		{Completions, `"seed":0`, func(r generation.Request) any { return r.Sampling.Seed }, uint64(0)},
		{Completions, `"seed":-1`, func(r generation.Request) any { return r.Sampling.Seed }, uint64(math.MaxUint64)},
		{Completions, `"seed":9223372036854775807`, func(r generation.Request) any { return r.Sampling.Seed }, uint64(math.MaxInt64)},
		{Completions, `"n":3`, func(r generation.Request) any { return r.N }, 3},
		{Completions, `"n":3.0`, func(r generation.Request) any { return r.N }, 3},
		{Completions, `"n":2,"best_of":2`, func(r generation.Request) any { return r.N }, 2},
		{Completions, `"best_of":1`, func(r generation.Request) any { return r.N }, 1},
		{Completions, `"max_tokens":7`, func(r generation.Request) any { return r.MaxTokens }, 7},
		{Completions, `"max_tokens":null`, func(r generation.Request) any { return r.MaxTokens }, 16},
		{Completions, `"max_tokens":0,"echo":true`, func(r generation.Request) any { return r.PromptOnly }, true},
		{Completions, `"max_tokens":1,"echo":true`, func(r generation.Request) any { return r.PromptOnly }, false},
		{Chat, `"max_tokens":7`, func(r generation.Request) any { return r.MaxTokens }, 7},
		{Chat, `"max_completion_tokens":8`, func(r generation.Request) any { return r.MaxTokens }, 8},
		{Chat, `"max_tokens":7,"max_completion_tokens":8`, func(r generation.Request) any { return r.MaxTokens }, 8},
		{Chat, `"min_tokens":7`, func(r generation.Request) any { return r.MinTokens }, 7},
		{Chat, `"ignore_eos":true`, func(r generation.Request) any { return r.IgnoreEOS }, true},
		{Completions, `"stop":"\n"`, func(r generation.Request) any { return r.Stop }, []string{"\n"}},
		{Completions, `"stop":["a","b","c","d","e"]`, func(r generation.Request) any { return r.Stop }, []string{"a", "b", "c", "d", "e"}},
		{Completions, `"stop":[]`, func(r generation.Request) any { return len(r.Stop) }, 0},
		{Completions, `"stop":` + listOf(maxStops, `"x"`), func(r generation.Request) any { return len(r.Stop) }, maxStops},
		{Completions, `"min_tokens":16`, func(r generation.Request) any { return r.MinTokens }, 16},
		{Completions, `"stop_token_ids":[0,2147483647]`, func(r generation.Request) any { return r.StopIDs }, []int32{0, math.MaxInt32}},
		{Completions, `"logit_bias":{"0":-100,"2147483647":100}`, func(r generation.Request) any { return r.Sampling.LogitBias }, map[int32]float64{0: -100, math.MaxInt32: 100}},
		{Completions, `"seed":9007199254740992.0`, func(r generation.Request) any { return r.Sampling.Seed }, uint64(1 << 53)},
		{Completions, "\"seed\": \t\r\n7", func(r generation.Request) any { return r.Sampling.Seed }, uint64(7)},
		{Chat, `"best_of":7`, func(r generation.Request) any { return r.N }, 1},
		{Chat, `"best_of":128`, func(r generation.Request) any { return r.N }, 1},
		{Chat, `"documents":[{"text":"a"}]`, func(r generation.Request) any { v, _ := r.Chat.Get("documents"); return len(v.([]ordered.Value)) }, 1},
		{Chat, `"chat_template_kwargs":{"style":"x"},"enable_thinking":true`, func(r generation.Request) any { v, _ := r.Chat.Get("style"); return v }, "x"},
		{Completions, `"stop_token_ids":[1,2]`, func(r generation.Request) any { return r.StopIDs }, []int32{1, 2}},
		{Chat, `"logprobs":true`, func(r generation.Request) any { return []any{r.Logprobs, r.TopLogprobs} }, []any{true, 0}},
		{Chat, `"logprobs":true,"top_logprobs":20`, func(r generation.Request) any { return []any{r.Logprobs, r.TopLogprobs} }, []any{true, 20}},
		{Chat, `"logprobs":false,"top_logprobs":0`, func(r generation.Request) any { return []any{r.Logprobs, r.TopLogprobs} }, []any{false, 0}},
		{Completions, `"logprobs":0`, func(r generation.Request) any { return []any{r.Logprobs, r.TopLogprobs} }, []any{true, 0}},
		{Completions, `"logprobs":5`, func(r generation.Request) any { return []any{r.Logprobs, r.TopLogprobs} }, []any{true, 5}},
		{Completions, `"logprobs":5`, func(r generation.Request) any { return r.PromptLogprobs }, false},
		{Completions, `"logprobs":5,"echo":true`, func(r generation.Request) any { return r.PromptLogprobs }, true},
		{Completions, `"echo":true`, func(r generation.Request) any { return r.PromptLogprobs }, false},
		{Completions, `"stream":false,"suffix":"","use_beam_search":false,"length_penalty":1.0`, func(r generation.Request) any { return r.Text }, "hi"},
		{Completions, `"model":"gpt-4","user":"me","metadata":{"a":"b"},"store":true,"service_tier":"flex"`, func(r generation.Request) any { return r.Text }, "hi"},
		{Chat, `"response_format":{"type": "text"},"modalities":["text"],"tool_choice":"auto","parallel_tool_calls":null`, func(r generation.Request) any { return r.N }, 1},
		{Chat, `"add_generation_prompt":false`, func(r generation.Request) any { v, _ := r.Chat.Get("add_generation_prompt"); return v }, false},
		{Chat, `"chat_template_kwargs":{"enable_thinking":false}`, func(r generation.Request) any { v, _ := r.Chat.Get("enable_thinking"); return v }, false},
		{Chat, `"reasoning_effort":"low"`, func(r generation.Request) any { v, _ := r.Chat.Get("reasoning_effort"); return v }, "low"},
		{Chat, `"tools":[]`, func(r generation.Request) any { return len(r.Tools) }, 0},
	} {
		t.Run(c.fields, func(t *testing.T) {
			t.Parallel()
			body := `{"prompt":"hi",` + c.fields + `}`
			if c.endpoint == Chat {
				body = `{` + messages + `,` + c.fields + `}`
			}
			require.Equal(t, c.want, c.check(generationOf(parse(t, c.endpoint, body), 0)))
		})
	}
}

func TestPrompts(t *testing.T) {
	t.Parallel()
	type given struct {
		Text   string
		Tokens []int32
	}
	for body, want := range map[string][]given{
		`{"prompt":"a"}`:             {{Text: "a"}},
		`{"prompt":""}`:              {{}},
		`{"prompt":["a","b"]}`:       {{Text: "a"}, {Text: "b"}},
		`{"prompt":[1,2]}`:           {{Tokens: []int32{1, 2}}},
		`{"prompt":[[1,2],[3],[]]}`:  {{Tokens: []int32{1, 2}}, {Tokens: []int32{3}}, {Tokens: []int32{}}},
		`{"prompt":"a \u00e9 \n b"}`: {{Text: "a é \n b"}},
	} {
		r := parse(t, Completions, body)
		require.Equal(t, len(want), r.NumPrompts(), body)
		for i, w := range want {
			req := generationOf(r, i)
			got := given{req.Text, req.Tokens}
			require.Equal(t, w, got, body)
			require.Equal(t, uint64(testSeed)+uint64(i), req.Sampling.Seed, "each prompt draws its own tokens")
		}
	}
}

func TestModelsOfRequests(t *testing.T) {
	t.Parallel()
	r := parse(t, Completions, `{"prompt":"a","model":"x"}`)
	require.Equal(t, "x", r.Model())
	require.NoError(t, r.CheckModel("m", "x"))
	require.Equal(t, &Error{Code: CodeUnknownModel, Param: "model", Message: `"model" is "x", which is not served here: use "m" or "n"`}, r.CheckModel("m", "n"))
	require.NoError(t, parse(t, Completions, `{"prompt":"a"}`).CheckModel("m"), "a request need not name a model")
}

// listOf returns a JSON array of n equal items.
func listOf(n int, item string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
}

func TestAsManyPromptsAsAllowed(t *testing.T) {
	t.Parallel()
	require.Equal(t, maxPrompts, parse(t, Completions, `{"prompt":`+listOf(maxPrompts, `"x"`)+`}`).NumPrompts())
}

// The answer continues the assistant's last message only if that has a text.
func TestContinuedMessages(t *testing.T) {
	t.Parallel()
	const user = `{"role":"user","content":"hi"},`
	for _, c := range []struct{ last, fields, message string }{
		{`{"role":"assistant","content":"Once"}`, "", ""},
		{`{"role":"assistant","content":"Once"}`, `,"add_generation_prompt":false`, ""},
		{`{"role":"assistant","content":"Once"}`, `,"add_generation_prompt":true`, `"continue_final_message" and "add_generation_prompt" cannot both be true`},
		{`{"role":"assistant","content":""}`, "", `"continue_final_message" needs a last message with the role "assistant" and a non-empty content`},
		{`{"role":"assistant","content":null}`, "", `"continue_final_message" needs a last message with the role "assistant" and a non-empty content`},
		{`{"role":"system","content":"Once"}`, "", `"continue_final_message" needs a last message with the role "assistant" and a non-empty content`},
		{`"Once"`, "", `"messages[1]" must be an object, not a string`},
	} {
		r, err := ParseRequest(Chat, []byte(`{"messages":[`+user+c.last+`],"continue_final_message":true`+c.fields+`}`))
		if c.message != "" {
			require.EqualError(t, err, c.message)
			continue
		}
		require.NoError(t, err)
		v, _ := generationOf(r, 0).Chat.Get("continue_final_message")
		require.Equal(t, true, v)
	}
	_, err := ParseRequest(Chat, []byte(`{"messages":[],"continue_final_message":true}`))
	require.EqualError(t, err, `"messages" is empty`)
	r := parse(t, Chat, `{"messages":[`+user+`{"role":"assistant","content":"Once"}],"continue_final_message":false}`)
	_, given := generationOf(r, 0).Chat.Get("continue_final_message")
	require.False(t, given)
}

func TestMessages(t *testing.T) {
	t.Parallel()
	r := parse(t, Chat, `{"messages":[
		{"role":"system","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}],"name":"s"},
		{"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"b\":1,\"a\":2}"}},{"function":{"name":"g","arguments":""}},{"function":{"name":"h"}},
			{"function":{"name":"i","arguments":{"d":1,"c":2}}}]},
		{"role":"assistant","tool_calls":[]},
		{"role":"tool","tool_call_id":"1","content":"3"}]}`)
	v, _ := generationOf(r, 0).Chat.Get("messages")
	messages := v.([]ordered.Value)
	require.Len(t, messages, 4)

	first := messages[0].(*ordered.Object)
	require.Equal(t, []string{"role", "content", "name"}, first.Keys(), "keys keep their order")
	content, _ := first.Get("content")
	require.Equal(t, "one\ntwo", content)

	calls, _ := messages[1].(*ordered.Object).Get("tool_calls")
	arguments := func(i int) ordered.Value {
		f, _ := calls.([]ordered.Value)[i].(*ordered.Object).Get("function")
		a, _ := f.(*ordered.Object).Get("arguments")
		return a
	}
	require.Equal(t, []string{"b", "a"}, arguments(0).(*ordered.Object).Keys(), "arguments are an object for the template")
	require.Equal(t, []string{"d", "c"}, arguments(3).(*ordered.Object).Keys(), "arguments may be an object already")
	for i := 1; i <= 2; i++ {
		require.Zero(t, arguments(i).(*ordered.Object).Len())
	}
}

func TestErrorsNameTheField(t *testing.T) {
	t.Parallel()
	const messages = `"messages":[{"role":"user","content":"hi"}]`
	for _, c := range []struct {
		endpoint              Endpoint
		fields, code, message string
	}{
		{Completions, `"temperature":"0.5"`, CodeInvalidType, `"temperature" must be a number, not a string`},
		{Completions, `"temperature":true`, CodeInvalidType, `"temperature" must be a number, not true or false`},
		{Completions, `"temperature":[]`, CodeInvalidType, `"temperature" must be a number, not an array`},
		{Completions, `"temperature":2.1`, CodeInvalidValue, `"temperature" must be between 0 and 2, not 2.1`},
		{Completions, `"temperature":-0.1`, CodeInvalidValue, `"temperature" must be between 0 and 2, not -0.1`},
		{Completions, `"temperature":1e999`, CodeInvalidValue, `"temperature" must be between 0 and 2, not 1e999`},
		{Completions, `"top_p":1.5`, CodeInvalidValue, `"top_p" must be between 0 and 1, not 1.5`},
		{Completions, `"min_p":-1`, CodeInvalidValue, `"min_p" must be between 0 and 1, not -1`},
		{Completions, `"top_k":-2`, CodeInvalidValue, `"top_k" must be at least -1, not -2`},
		{Completions, `"top_k":1.5`, CodeInvalidType, `"top_k" must be a whole number, not 1.5`},
		{Completions, `"repetition_penalty":0`, CodeInvalidValue, `"repetition_penalty" must be greater than 0`},
		{Completions, `"presence_penalty":2.5`, CodeInvalidValue, `"presence_penalty" must be between -2 and 2, not 2.5`},
		{Completions, `"frequency_penalty":"1"`, CodeInvalidType, `"frequency_penalty" must be a number, not a string`},
		{Completions, `"logit_bias":[]`, CodeInvalidType, `"logit_bias" must be an object, not an array`},
		{Completions, `"logit_bias":{"a":1}`, CodeInvalidValue, `"logit_bias" must have token ids as keys, not "a"`},
		{Completions, `"logit_bias":{"-1":1}`, CodeInvalidValue, `"logit_bias" must have token ids as keys, not "-1"`},
		{Completions, `"logit_bias":{"5":1,"05":1}`, CodeInvalidValue, `"logit_bias" has token 5 twice, once as "5"`},
		{Completions, `"logit_bias":{"5":1,"+5":1}`, CodeInvalidValue, `"logit_bias" has token 5 twice, once as "5"`},
		{Completions, `"logit_bias":{"5":1,"6":{"a":1},"5":2}`, CodeInvalidValue, `"logit_bias" has the key "5" twice`},
		{Completions, `"logit_bias":{"1":101}`, CodeInvalidValue, `"logit_bias.1" must be between -100 and 100, not 101`},
		{Completions, `"logit_bias":{"1":"x"}`, CodeInvalidType, `"logit_bias.1" must be a number, not a string`},
		{Completions, `"seed":"x"`, CodeInvalidType, `"seed" must be a number, not a string`},
		{Completions, `"seed":1.5`, CodeInvalidType, `"seed" must be a whole number, not 1.5`},
		{Completions, `"seed":1e300`, CodeInvalidType, `"seed" must be a whole number, not 1e300`},
		{Completions, `"n":0`, CodeInvalidValue, `"n" must be between 1 and 128, not 0`},
		{Completions, `"n":129`, CodeInvalidValue, `"n" must be between 1 and 128, not 129`},
		{Completions, `"n":2,"best_of":3`, CodeUnsupported, `"best_of" is not supported: use "n" with "logprobs", and choose the best answer yourself`},
		{Completions, `"max_tokens":-1`, CodeInvalidValue, `"max_tokens" must be at least 0, not -1`},
		{Completions, `"max_tokens":0`, CodeInvalidValue, `"max_tokens" is 0, which makes sense only with "echo"`},
		{Completions, `"max_tokens":"16"`, CodeInvalidType, `"max_tokens" must be a number, not a string`},
		{Completions, `"min_tokens":17`, CodeInvalidValue, `"min_tokens" is 17, more than the 16 tokens that may be generated`},
		{Chat, `"max_tokens":0`, CodeInvalidValue, `"max_tokens" must be at least 1, not 0`},
		{Chat, `"max_completion_tokens":0`, CodeInvalidValue, `"max_completion_tokens" must be at least 1, not 0`},
		{Chat, `"min_tokens":5,"max_tokens":4`, CodeInvalidValue, `"min_tokens" is 5, more than the 4 tokens that may be generated`},
		{Completions, `"ignore_eos":1`, CodeInvalidType, `"ignore_eos" must be true or false, not a number`},
		{Completions, `"stop":5`, CodeInvalidType, `"stop" must be a string or an array, not a number`},
		{Completions, `"stop":["a",5]`, CodeInvalidType, `"stop[1]" must be a string, not a number`},
		{Completions, `"stop":""`, CodeInvalidValue, `"stop" has an empty string`},
		{Completions, `"stop":` + listOf(maxStops+1, `"x"`), CodeInvalidValue, `"stop" has 65 strings, more than 64`},
		{Completions, `"stop_token_ids":[2147483648]`, CodeInvalidValue, `"stop_token_ids[0]" must be a token id, not 2147483648`},
		{Completions, `"logit_bias":{"2147483648":1}`, CodeInvalidValue, `"logit_bias" must have token ids as keys, not "2147483648"`},
		{Completions, `"seed":9007199254740994.0`, CodeInvalidType, `"seed" must be a whole number, not 9007199254740994.0`},
		{Completions, `"max_tokens":2147483648`, CodeInvalidValue, `"max_tokens" must be at most 2147483647, not 2147483648`},
		{Completions, `"best_of":129`, CodeInvalidValue, `"best_of" must be between 1 and 128, not 129`},
		{Completions, `"frequency_penalty":2.01`, CodeInvalidValue, `"frequency_penalty" must be between -2 and 2, not 2.01`},
		{Completions, `"stop_token_ids":` + "[\n1,\r2,\t\"a\"]", CodeInvalidType, `"stop_token_ids[2]" must be a number, not a string`},
		{Completions, `"presence_penalty":2.01`, CodeInvalidValue, `"presence_penalty" must be between -2 and 2, not 2.01`},
		{Completions, `"repetition_penalty":100.5`, CodeInvalidValue, `"repetition_penalty" must be between 0 and 100, not 100.5`},
		{Chat, `"chat_template_kwargs":{"tools":[]}`, CodeInvalidValue, `"chat_template_kwargs" cannot set "tools": give it in the body itself`},
		{Chat, `"continue_final_message":1`, CodeInvalidType, `"continue_final_message" must be true or false, not a number`},
		{Chat, `"continue_final_message":true`, CodeInvalidValue, `"continue_final_message" needs a last message with the role "assistant" and a non-empty content`},
		{Completions, `"stop_token_ids":["a"]`, CodeInvalidType, `"stop_token_ids[0]" must be a number, not a string`},
		{Completions, `"stop_token_ids":[-1]`, CodeInvalidValue, `"stop_token_ids[0]" must be a token id, not -1`},
		{Completions, `"logprobs":true`, CodeInvalidType, `"logprobs" must be a number, not true or false`},
		{Completions, `"logprobs":21`, CodeInvalidValue, `"logprobs" must be between 0 and 20, not 21`},
		{Chat, `"logprobs":1`, CodeInvalidType, `"logprobs" must be true or false, not a number`},
		{Chat, `"min_tokens":2,"max_tokens":1`, CodeInvalidValue, `"min_tokens" is 2, more than the 1 tokens that may be generated`},
		{Chat, `"top_logprobs":1`, CodeInvalidValue, `"top_logprobs" needs "logprobs" to be true`},
		{Chat, `"top_logprobs":5`, CodeInvalidValue, `"top_logprobs" needs "logprobs" to be true`},
		{Chat, `"logprobs":true,"top_logprobs":21`, CodeInvalidValue, `"top_logprobs" must be between 0 and 20, not 21`},
		{Completions, `"echo":"yes"`, CodeInvalidType, `"echo" must be true or false, not a string`},
		{Completions, `"return_token_ids":"yes"`, CodeInvalidType, `"return_token_ids" must be true or false, not a string`},
		{Completions, `"suffix":"end"`, CodeUnsupported, `"suffix" is not supported: text cannot be inserted before a suffix`},
		{Completions, `"stream":true`, CodeUnsupported, `"stream" is not supported: a row's result is written when it is complete`},
		{Chat, `"functions":[{}]`, CodeUnsupported, `"functions" is not supported: use "tools"`},
		{Chat, `"modalities":["text","audio"]`, CodeUnsupported, `"modalities" is not supported: only text is generated`},
		{Chat, `"echo":true`, CodeUnsupported, `"echo" is not supported: use /v1/completions`},
		{Chat, `"chat_template":"{{ x }}"`, CodeUnsupported, `"chat_template" is not supported: the model's own template is used`},
		{Chat, `"chat_template_kwargs":[]`, CodeInvalidType, `"chat_template_kwargs" must be an object, not an array`},
		{Chat, `"chat_template_kwargs":{"messages":[]}`, CodeInvalidValue, `"chat_template_kwargs" cannot set "messages": give it in the body itself`},
		{Chat, `"tools":{}`, CodeInvalidType, `"tools" must be an array, not an object`},
		{Chat, `"temprature":0`, CodeInvalidValue, `"temprature" is unknown: did you mean "temperature"?`},
		{Completions, `"max_token":0`, CodeInvalidValue, `"max_token" is unknown: did you mean "max_tokens"?`},
		{Completions, `"stop_tokens_ids":[0]`, CodeInvalidValue, `"stop_tokens_ids" is unknown: did you mean "stop_token_ids"?`},
		{Completions, `"temperate":0`, CodeInvalidValue, `"temperate" is unknown: did you mean "temperature"?`},
		{Completions, `"temperatures_":0`, CodeInvalidValue, `"temperatures_" is unknown: did you mean "temperature"?`},
		{Completions, `"ax_tokens":5`, CodeInvalidValue, `"ax_tokens" is unknown: did you mean "max_tokens"?`},
	} {
		t.Run(c.fields, func(t *testing.T) {
			t.Parallel()
			body := `{"prompt":"hi",` + c.fields + `}`
			if c.endpoint == Chat {
				body = `{` + messages + `,` + c.fields + `}`
			}
			_, err := ParseRequest(c.endpoint, []byte(body))
			require.Equal(t, errorf(c.code, "%s", c.message), err)
		})
	}
}

// The variables of a chat template have the limits of ordered.ParseJSON.
func TestVariablesThatAreNestedTooDeep(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 1002) + strings.Repeat("]", 1002)
	for fields, param := range map[string]string{`"chat_template_kwargs":{"a":` + deep + `}`: "chat_template_kwargs", `"documents":` + deep: "documents"} {
		_, err := ParseRequest(Chat, []byte(bodyWith(Chat, "n", "1,"+fields)))
		require.ErrorContains(t, err, `"`+param+`": parse JSON: offset `)
		require.ErrorContains(t, err, "values are nested more than 1000 deep")
		require.Equal(t, []string{CodeInvalidJSON, param}, []string{AsError(err).Code, AsError(err).Param})
	}
}

// Half of a surrogate pair is no text. Read as U+FFFD, it would be another prompt.
func TestHalfSurrogatePairsAreRefused(t *testing.T) {
	t.Parallel()
	for e, body := range map[Endpoint]string{
		Completions: `{"prompt":"a \ud83d b"}`, Chat: `{"messages":[{"role":"user","content":"\udcff"}]}`,
	} {
		_, err := ParseRequest(e, []byte(body))
		require.ErrorContains(t, err, "half of a surrogate pair at byte ")
		require.Equal(t, CodeInvalidText, AsError(err).Code)
	}
	r := parse(t, Completions, `{"prompt":"a \ud83d\ude00 \\ud83d"}`)
	require.Equal(t, `a 😀 \ud83d`, generationOf(r, 0).Text)
}

func TestErrorsOfPrompts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		endpoint            Endpoint
		body, code, message string
	}{
		{Completions, `{}`, CodeMissing, `"prompt" is missing`},
		{Completions, `{"prompt":null}`, CodeMissing, `"prompt" is missing`},
		{Completions, `{"prompt":5}`, CodeInvalidType, `"prompt" must be a string or an array, not a number`},
		{Completions, `{"prompt":` + listOf(maxPrompts+1, `"x"`) + `}`, CodeInvalidValue, `"prompt" has 2049 prompts, more than 2048`},
		{Completions, `{"prompt":["a",[1]]}`, CodeInvalidType, `"prompt" must be a string, or an array of strings, of token ids or of arrays of token ids`},
		{Chat, `[]`, CodeInvalidJSON, "is not a JSON object, but an array"},
		{Chat, `{"messages":[{"role":"user","content":"hi","videos":["x"]}]}`, CodeUnsupported, `"messages[0].videos" is not supported: only text can be used`},
		{Completions, `{"prompt":[]}`, CodeInvalidValue, `"prompt" is an empty array`},
		{Completions, `{"prompt":[1,"a"]}`, CodeInvalidType, `"prompt[1]" must be a number, not a string`},
		{Completions, `{"prompt":["a",1]}`, CodeInvalidType, `"prompt" must be a string, or an array of strings, of token ids or of arrays of token ids`},
		{Completions, `{"prompt":[{}]}`, CodeInvalidType, `"prompt" must be a string, or an array of strings, of token ids or of arrays of token ids`},
		{Completions, `{"prompt":[[1.5]]}`, CodeInvalidValue, `"prompt[0]" must be a token id, not 1.5`},
		{Completions, `{"prompt":[4294967296]}`, CodeInvalidValue, `"prompt[0]" must be a token id, not 4294967296`},
		{Chat, `{}`, CodeMissing, `"messages" is missing`},
		{Chat, `{"messages":{}}`, CodeInvalidType, `"messages" must be an array, not an object`},
		{Chat, `{"messages":[]}`, CodeInvalidValue, `"messages" is empty`},
		{Chat, `{"messages":["hi"]}`, CodeInvalidType, `"messages[0]" must be an object, not a string`},
		{Chat, `{"messages":[{"content":"hi"}]}`, CodeMissing, `"messages[0].role" is missing`},
		{Chat, `{"messages":[{"role":1,"content":"hi"}]}`, CodeInvalidType, `"messages[0].role" must be a string, not a number`},
		{Chat, `{"messages":[{"role":"users","content":"hi"}]}`, CodeInvalidValue, `"messages[0].role" must be one of system, developer, user, assistant, tool, function, not "users"`},
		{Chat, `{"messages":[{"role":"user"}]}`, CodeMissing, `"messages[0].content" is missing`},
		{Chat, `{"messages":[{"role":"user","content":null}]}`, CodeInvalidType, `"messages[0].content" must be a string or an array, not null`},
		{Chat, `{"messages":[{"role":"user","content":5}]}`, CodeInvalidType, `"messages[0].content" must be a string or an array, not a number`},
		{Chat, `{"messages":[{"role":"user","content":["hi"]}]}`, CodeInvalidType, `"messages[0].content[0]" must be an object, not a string`},
		{Chat, `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, CodeUnsupported, `"messages[0].content[0].type" must be "text", not "image_url": only text can be used`},
		{Chat, `{"messages":[{"role":"user","content":[{"type":"text","text":5}]}]}`, CodeInvalidType, `"messages[0].content[0].text" must be a string, not a number`},
	} {
		t.Run(c.body, func(t *testing.T) {
			t.Parallel()
			_, err := ParseRequest(c.endpoint, []byte(c.body))
			require.Equal(t, errorf(c.code, "%s", c.message), err)
		})
	}
}
