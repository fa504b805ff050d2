package openai

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

// answerOf has the parts of a response that do not come from the completions.
var answerOf = Answer{ID: "7", Created: time.Unix(1700000000, 0), Model: "m", Fingerprint: "fp", Seed: 9}

// scored returns a token with alternatives, best first.
func scored(text string, p float64, top ...generation.TokenLogprob) generation.TokenLogprob {
	t := token(text, p)
	t.Top = top
	return t
}

func liveOf(t testing.TB, e Endpoint, fields string) *Request {
	t.Helper()
	body := `{"prompt":"ab"` + fields + `}`
	if e == Chat {
		body = `{"messages":[{"role":"user","content":"hi"}]` + fields + `}`
	}
	r, err := ParseLive(e, []byte(body))
	require.NoError(t, err)
	return r
}

func TestResponses(t *testing.T) {
	t.Parallel()
	one := func(c generation.Choice) []generation.Completion {
		return []generation.Completion{{PromptTokens: []int32{1, 2}, Choices: []generation.Choice{c}, Stats: generation.Stats{
			PromptTokens: 2, CompletionTokens: 3, CachedTokens: 1, ReasoningTokens: 2,
		}}}
	}
	const usage = `{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":1},"completion_tokens_details":{"reasoning_tokens":2}}`
	for name, c := range map[string]struct {
		endpoint             Endpoint
		fields               string
		done                 []generation.Completion
		id, object           string
		choices, wantedUsage string
	}{
		"chat": {
			Chat, "", one(generation.Choice{Text: "<é>", Reasoning: "hm", FinishReason: generation.FinishStop, StopReason: "END", Tokens: []int32{5}}),
			"chatcmpl-7", "chat.completion",
			`[{"index":0,"message":{"role":"assistant","content":"<é>","refusal":null,"reasoning_content":"hm"},"logprobs":null,"finish_reason":"stop","stop_reason":"END"}]`, usage,
		},
		"completion": {
			Completions, "", one(generation.Choice{Text: "c", FinishReason: generation.FinishLength}),
			"cmpl-7", "text_completion", `[{"index":0,"text":"c","logprobs":null,"finish_reason":"length"}]`, usage,
		},
		"several prompts and choices": {
			Completions, `,"n":2`, []generation.Completion{
				{Choices: []generation.Choice{{Text: "a", FinishReason: "stop"}, {Text: "b", FinishReason: "length"}}, Stats: generation.Stats{PromptTokens: 1, CompletionTokens: 20, CachedTokens: 300, ReasoningTokens: 5000}},
				{Choices: []generation.Choice{{Text: "c", FinishReason: "stop"}}, Stats: generation.Stats{PromptTokens: 2, CompletionTokens: 30, CachedTokens: 400, ReasoningTokens: 6000}},
			}, "cmpl-7", "text_completion",
			`[{"index":0,"text":"a","logprobs":null,"finish_reason":"stop"},{"index":1,"text":"b","logprobs":null,"finish_reason":"length"},{"index":2,"text":"c","logprobs":null,"finish_reason":"stop"}]`,
			`{"prompt_tokens":3,"completion_tokens":50,"total_tokens":53,"prompt_tokens_details":{"cached_tokens":700},"completion_tokens_details":{"reasoning_tokens":11000}}`,
		},
		"token ids": {
			Chat, `,"return_token_ids":true`, one(generation.Choice{Text: "a", FinishReason: "stop", Tokens: []int32{7, 8}}), "chatcmpl-7", "chat.completion",
			`[{"index":0,"message":{"role":"assistant","content":"a","refusal":null},"logprobs":null,"finish_reason":"stop","prompt_token_ids":[1,2],"token_ids":[7,8]}]`, usage,
		},
		"token ids of an empty answer": {
			Completions, `,"return_token_ids":true`, one(generation.Choice{FinishReason: "length"}), "cmpl-7", "text_completion",
			`[{"index":0,"text":"","logprobs":null,"finish_reason":"length","prompt_token_ids":[1,2],"token_ids":[]}]`, usage,
		},
		"echo": {
			Completions, `,"echo":true`, one(generation.Choice{Text: "c", FinishReason: "stop"}), "cmpl-7", "text_completion",
			`[{"index":0,"text":"abc","logprobs":null,"finish_reason":"stop"}]`, usage,
		},
		"log-probabilities of a completion": {
			Completions, `,"logprobs":2`, one(generation.Choice{Text: "xyz", FinishReason: "stop", StopReason: "z", Logprobs: []generation.TokenLogprob{
				scored("x", -1, token("x", -1), token("q", -3)), scored("yz", -4, token("r", -2), token("r", -1), token("r", -3)),
			}}), "cmpl-7", "text_completion",
			`[{"index":0,"text":"xyz","logprobs":{"tokens":["x","yz"],"token_logprobs":[-1,-4],"top_logprobs":[{"x":-1,"q":-3},{"r":-1,"yz":-4}],"text_offset":[0,1]},"finish_reason":"stop","stop_reason":"z"}]`, usage,
		},
		"log-probabilities of no tokens": {
			Completions, `,"logprobs":1`, one(generation.Choice{FinishReason: "stop"}), "cmpl-7", "text_completion",
			`[{"index":0,"text":"","logprobs":{"tokens":[],"token_logprobs":[],"top_logprobs":[],"text_offset":[]},"finish_reason":"stop"}]`, usage,
		},
		"neither log-probabilities nor alternatives": {
			Completions, `,"logprobs":0`, one(generation.Choice{FinishReason: "stop"}), "cmpl-7", "text_completion",
			`[{"index":0,"text":"","logprobs":{"tokens":[],"token_logprobs":[],"top_logprobs":null,"text_offset":[]},"finish_reason":"stop"}]`, usage,
		},
		"a chat with an empty answer": {
			Chat, "", one(generation.Choice{FinishReason: "stop"}), "chatcmpl-7", "chat.completion",
			`[{"index":0,"message":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":"stop"}]`, usage,
		},
		"a chat with only a call": {
			Chat, "", one(generation.Choice{FinishReason: "tool_calls", ToolCalls: []generation.ToolCall{{ID: "c1", Name: "f", Arguments: "{}"}}}), "chatcmpl-7", "chat.completion",
			`[{"index":0,"message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"}]`, usage,
		},
		"log-probabilities without alternatives": {
			Completions, `,"logprobs":0`, one(generation.Choice{Text: "x", FinishReason: "stop", Logprobs: []generation.TokenLogprob{scored("x", -1, token("q", -3))}}), "cmpl-7", "text_completion",
			`[{"index":0,"text":"x","logprobs":{"tokens":["x"],"token_logprobs":[-1],"top_logprobs":null,"text_offset":[0]},"finish_reason":"stop"}]`, usage,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Marshal(liveOf(t, c.endpoint, c.fields).Response(answerOf, c.done))
			require.NoError(t, err)
			require.JSONEq(t, `{"id":"`+c.id+`","object":"`+c.object+`","created":1700000000,"model":"m","system_fingerprint":"fp","seed":9,"choices":`+c.choices+`,"usage":`+c.wantedUsage+`}`, string(got))
			require.NotContains(t, string(got), `\u00`, "characters that are special in HTML are not escaped")
		})
	}
}

// The echo of a prompt of token ids joins the bytes of the tokens; of its log-probabilities, the
// first is null, since no token precedes it.
func TestEchoOfTokenIDs(t *testing.T) {
	t.Parallel()
	r := parse(t, Completions, `{"prompt":[1,2,3],"echo":true,"logprobs":1,"max_tokens":1}`)
	split := func(b ...byte) generation.TokenLogprob {
		return generation.TokenLogprob{Text: "\uFFFD", Bytes: b, Logprob: -2}
	}
	done := []generation.Completion{{
		PromptLogprobs: []generation.TokenLogprob{scored("N", -7, token("?", -1)), split(0xC3), split(0xA9)},
		Choices:        []generation.Choice{{Text: "!", FinishReason: "length", Logprobs: []generation.TokenLogprob{token("!", -1)}}},
	}}
	text, err := Marshal(r.Response(answerOf, done))
	require.NoError(t, err)
	var body struct {
		Choices []struct {
			Text     string
			Logprobs json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal(text, &body))
	require.Equal(t, "Né!", body.Choices[0].Text)
	require.JSONEq(t, `{"tokens":["N","\uFFFD","\uFFFD","!"],"token_logprobs":[null,-2,-2,-1],"top_logprobs":[null,{"\uFFFD":-2},{"\uFFFD":-2},{"!":-1}],"text_offset":[0,1,1,2]}`,
		string(body.Choices[0].Logprobs))

	done[0].PromptLogprobs = done[0].PromptLogprobs[:2] // the prompt ends within a character
	text, err = Marshal(r.Response(answerOf, done))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &body))
	require.Equal(t, "N\uFFFD!", body.Choices[0].Text)
}

// A chat's log-probabilities leave a stop token out, but not the tokens of a stop string.
func TestLogprobsOfChats(t *testing.T) {
	t.Parallel()
	tokens := []generation.TokenLogprob{scored("a", -1, token("a", -1), token("b", -2)), token("</s>", -3)}
	const first = `{"token":"a","logprob":-1,"bytes":[97],"top_logprobs":[{"token":"a","logprob":-1,"bytes":[97]},{"token":"b","logprob":-2,"bytes":[98]}]}`
	const last = `{"token":"</s>","logprob":-3,"bytes":[60,47,115,62],"top_logprobs":[]}`
	for name, c := range map[string]struct {
		tokens     []generation.TokenLogprob
		reason     generation.FinishReason
		stopString string
		want       string
	}{
		"a stop token":       {tokens, generation.FinishStop, "", `{"content":[` + first + `],"refusal":null}`},
		"a stop string":      {tokens, generation.FinishStop, "</s>", `{"content":[` + first + `,` + last + `],"refusal":null}`},
		"the maximum length": {tokens, generation.FinishLength, "", `{"content":[` + first + `,` + last + `],"refusal":null}`},
		"no tokens":          {nil, generation.FinishStop, "", `{"content":[],"refusal":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := liveOf(t, Chat, `,"logprobs":true,"top_logprobs":2`)
			got, err := Marshal(r.Response(answerOf, []generation.Completion{{Choices: []generation.Choice{{Logprobs: c.tokens, FinishReason: c.reason, StopReason: c.stopString}}}}))
			require.NoError(t, err)
			var body struct {
				Choices []struct{ Logprobs json.RawMessage }
			}
			require.NoError(t, json.Unmarshal(got, &body))
			require.JSONEq(t, c.want, string(body.Choices[0].Logprobs))
		})
	}
}

// Choices reads the texts out of a response that Response made.
func TestChoicesReadsAResponse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		endpoint Endpoint
		body     string
		done     [][]generation.Choice // by prompt
	}{
		"a chat":                             {Chat, `{"messages":[{"role":"user","content":"hi"}],"n":2}`, [][]generation.Choice{{{Text: "a", Reasoning: "r", FinishReason: "stop", StopReason: "x"}, {Text: "b", FinishReason: "length"}}}},
		"several prompts":                    {Completions, `{"prompt":["p","q"],"n":2}`, [][]generation.Choice{{{Text: "a"}, {Text: "b"}}, {{Text: "c"}, {Text: "d", FinishReason: "stop"}}}},
		"echoed texts":                       {Completions, `{"prompt":["p","q"],"echo":true}`, [][]generation.Choice{{{Text: "pa"}}, {{Text: "b"}}}},
		"a text that begins like its prompt": {Completions, `{"prompt":"p"}`, [][]generation.Choice{{{Text: "pa"}}}},
		"echoed token ids":                   {Completions, `{"prompt":[1],"echo":true}`, [][]generation.Choice{{{Text: "a"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := parse(t, c.endpoint, c.body)
			var done []generation.Completion
			for _, choices := range c.done {
				done = append(done, generation.Completion{Choices: choices})
			}
			text, err := Marshal(r.Response(answerOf, done))
			require.NoError(t, err)
			got, err := r.Choices(text)
			require.NoError(t, err)
			require.Equal(t, c.done, got)
		})
	}
	r := parse(t, Completions, `{"prompt":"p"}`)
	_, err := r.Choices([]byte(`{"choices":1}`))
	require.ErrorContains(t, err, "decode a response")
	got, err := r.Choices([]byte(`{"choices":[{"text":"a"},{"text":"b"}]}`))
	require.NoError(t, err)
	require.Len(t, got[0], 2, "choices beyond n belong to the last prompt")
}

func TestStreams(t *testing.T) {
	t.Parallel()
	const chat, text = `"object":"chat.completion.chunk"`, `"object":"text_completion"`
	chunk := func(id, object, choices, rest string) string {
		return `{"id":"` + id + `-7",` + object + `,"created":1700000000,"model":"m","system_fingerprint":"fp","seed":9,"choices":` + choices + rest + `}`
	}
	chatChunk := func(choice, rest string) string { return chunk("chatcmpl", chat, `[`+choice+`]`, rest) }
	textChunk := func(choice, rest string) string { return chunk("cmpl", text, `[`+choice+`]`, rest) }
	for name, c := range map[string]struct {
		endpoint Endpoint
		fields   string
		pieces   []generation.Piece
		want     []string
	}{
		"a chat": {
			Chat, "", []generation.Piece{
				{Reasoning: "hm"}, {Text: "a", Tokens: []int32{5}}, {}, {Text: "b", FinishReason: "stop", StopReason: "END"},
			},
			[]string{
				chatChunk(`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`, ""),
				chatChunk(`{"index":0,"delta":{"reasoning_content":"hm"},"logprobs":null,"finish_reason":null}`, ""),
				chatChunk(`{"index":0,"delta":{"content":"a"},"logprobs":null,"finish_reason":null}`, ""),
				chatChunk(`{"index":0,"delta":{"content":"b"},"logprobs":null,"finish_reason":null}`, ""),
				chatChunk(`{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":"END"}`, ""),
			},
		},
		"token ids and log-probabilities of a chat": {
			Chat, `,"logprobs":true,"return_token_ids":true`, []generation.Piece{
				{Tokens: []int32{5}, Logprobs: []generation.TokenLogprob{token("a", -1)}},
				{Tokens: []int32{2}, Logprobs: []generation.TokenLogprob{token("</s>", -1)}, FinishReason: "stop"},
			},
			[]string{
				chatChunk(`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`, ""),
				chatChunk(`{"index":0,"delta":{"content":""},"logprobs":{"content":[{"token":"a","logprob":-1,"bytes":[97],"top_logprobs":[]}],"refusal":null},"finish_reason":null,"token_ids":[5]}`, ""),
				chatChunk(`{"index":0,"delta":{"content":""},"logprobs":{"content":[],"refusal":null},"finish_reason":null,"token_ids":[2]}`, ""),
				chatChunk(`{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}`, ""),
			},
		},
		"log-probabilities of an unfinished text": {
			Chat, `,"logprobs":true`, []generation.Piece{{Logprobs: []generation.TokenLogprob{token("a", -1)}}, {Logprobs: []generation.TokenLogprob{token("</s>", -1)}, FinishReason: "stop"}},
			[]string{
				chatChunk(`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`, ""),
				chatChunk(`{"index":0,"delta":{"content":""},"logprobs":{"content":[{"token":"a","logprob":-1,"bytes":[97],"top_logprobs":[]}],"refusal":null},"finish_reason":null}`, ""),
				chatChunk(`{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}`, ""),
			},
		},
		"a completion with usage": {
			Completions, `,"stream":true,"stream_options":{"include_usage":true}`, []generation.Piece{{Text: "c"}, {FinishReason: "length"}},
			[]string{
				textChunk(`{"index":0,"text":"c","logprobs":null,"finish_reason":null}`, `,"usage":null`),
				textChunk(`{"index":0,"text":"","logprobs":null,"finish_reason":"length"}`, `,"usage":null`),
				textChunk(``, `,"usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":1},"completion_tokens_details":{"reasoning_tokens":0}}`),
			},
		},
		"an echo with token ids": {
			Completions, `,"echo":true,"return_token_ids":true`, []generation.Piece{{Tokens: []int32{4}}, {Text: "c", Tokens: []int32{5}, FinishReason: "length"}},
			[]string{
				textChunk(`{"index":0,"text":"ab","logprobs":null,"finish_reason":null}`, ""),
				textChunk(`{"index":0,"text":"","logprobs":null,"finish_reason":null,"token_ids":[4]}`, ""),
				textChunk(`{"index":0,"text":"c","logprobs":null,"finish_reason":null,"token_ids":[5]}`, ""),
				textChunk(`{"index":0,"text":"","logprobs":null,"finish_reason":"length"}`, ""),
			},
		},
		"choices with log-probabilities": {
			Completions, `,"n":2,"logprobs":1`, []generation.Piece{
				{Text: "xy", Logprobs: []generation.TokenLogprob{scored("x", -1, token("q", -2)), token("y", -1)}},
				{Choice: 1, Text: "v", Logprobs: []generation.TokenLogprob{token("v", -1)}},
				{Text: "z", Logprobs: []generation.TokenLogprob{token("z", -1)}, FinishReason: "stop"},
			},
			[]string{
				textChunk(`{"index":0,"text":"xy","logprobs":{"tokens":["x","y"],"token_logprobs":[-1,-1],"top_logprobs":[{"x":-1,"q":-2},{"y":-1}],"text_offset":[0,1]},"finish_reason":null}`, ""),
				textChunk(`{"index":1,"text":"v","logprobs":{"tokens":["v"],"token_logprobs":[-1],"top_logprobs":[{"v":-1}],"text_offset":[0]},"finish_reason":null}`, ""),
				textChunk(`{"index":0,"text":"z","logprobs":{"tokens":["z"],"token_logprobs":[-1],"top_logprobs":[{"z":-1}],"text_offset":[2]},"finish_reason":null}`, ""),
				textChunk(`{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}`, ""),
			},
		},
		"an echo with log-probabilities, as a whole": {
			Completions, `,"echo":true,"logprobs":0`, []generation.Piece{{Text: "never sent"}},
			[]string{textChunk(`{"index":0,"text":"abc"}`, "")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := liveOf(t, c.endpoint, c.fields)
			s := r.NewStream(answerOf)
			var chunks []any
			for _, p := range c.pieces {
				chunks = append(chunks, s.Chunks(0, p)...)
			}
			end, err := s.End(json.RawMessage(`{"choices":[{"index":0,"text":"abc"}]}`), Tokens{Prompt: 2, Completion: 3, Cached: 1})
			require.NoError(t, err)
			var got []string
			for _, chunk := range append(chunks, end...) {
				text, err := Marshal(chunk)
				require.NoError(t, err)
				got = append(got, string(text))
			}
			require.Len(t, got, len(c.want), "%q", got)
			for i := range got {
				require.JSONEq(t, c.want[i], got[i], "chunk %d", i)
			}
		})
	}
}

// The choices of the second prompt of a stream follow those of the first.
func TestStreamOfSeveralPrompts(t *testing.T) {
	t.Parallel()
	r, err := ParseLive(Completions, []byte(`{"prompt":["a","b"],"n":3,"echo":true}`))
	require.NoError(t, err)
	s := r.NewStream(answerOf)
	for prompt, echo := range []string{"a", "b"} {
		for n := range 3 {
			text, err := Marshal(s.Chunks(prompt, generation.Piece{Choice: n, Text: "c"}))
			require.NoError(t, err)
			var chunks []struct {
				Choices []struct {
					Index int
					Text  string
				}
			}
			require.NoError(t, json.Unmarshal(text, &chunks))
			require.Len(t, chunks, 2)
			for i, want := range []string{echo, "c"} {
				require.Equal(t, prompt*3+n, chunks[i].Choices[0].Index)
				require.Equal(t, want, chunks[i].Choices[0].Text)
			}
		}
	}
}

func TestWhatARequestAsksFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		endpoint                                Endpoint
		fields                                  string
		streamed, whole, namesTokens, withUsage bool
	}{
		{endpoint: Chat},
		{endpoint: Chat, fields: `,"stream":true`, streamed: true},
		{endpoint: Chat, fields: `,"stream":false`},
		{endpoint: Chat, fields: `,"stream":true,"stream_options":{}`, streamed: true},
		{endpoint: Chat, fields: `,"stream":true,"stream_options":{"include_usage":true}`, streamed: true, withUsage: true},
		{endpoint: Chat, fields: `,"logprobs":true`, namesTokens: true},
		{endpoint: Completions, fields: `,"return_token_ids":true`, namesTokens: true},
		{endpoint: Completions, fields: `,"echo":true`},
		{endpoint: Completions, fields: `,"echo":true,"max_tokens":0`, whole: true},
		{endpoint: Completions, fields: `,"echo":true,"logprobs":0`, whole: true, namesTokens: true},
	} {
		r := liveOf(t, c.endpoint, c.fields)
		require.Equal(t, c.endpoint, r.Endpoint())
		require.Equal(t, []bool{c.streamed, c.whole, c.namesTokens, c.withUsage}, []bool{r.Streamed(), r.Whole(), r.NamesTokens(), r.streamUsage}, c.fields)
	}
	_, err := ParseRequest(Chat, []byte(`{"messages":[{"role":"user","content":"hi"}],"stream_options":{"include_usage":true}}`))
	require.NoError(t, err, "only a live request needs a stream for the options of one")
	for fields, want := range map[string]string{
		`,"stream":1`: `"stream" must be true or false, not a number`,
		`,"stream_options":{"include_usage":true}`:                     `"stream_options" needs "stream" to be true`,
		`,"stream":true,"stream_options":[]`:                           `"stream_options" must be an object, not an array`,
		`,"stream":true,"stream_options":{"include_usage":"yes"}`:      `"stream_options.include_usage" must be true or false, not a string`,
		`,"temperature":"a","stream":true,"stream_options":{"x":true}`: `"temperature" must be a number, not a string`,
	} {
		_, err := ParseLive(Chat, []byte(`{"messages":[{"role":"user","content":"hi"}]`+fields+`}`))
		require.EqualError(t, err, want)
	}
}
