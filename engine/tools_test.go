package engine_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// withControls copies micro-glm with another template, and with other texts of control tokens.
func withControls(t *testing.T, template string, names map[string]string) string {
	t.Helper()
	return rewrite(t, microGLM, func(m *gguf.Metadata) *gguf.Metadata {
		tokens, err := m.Strings("tokenizer.ggml.tokens")
		require.NoError(t, err)
		tokens = slices.Clone(tokens)
		for from, to := range names {
			tokens[slices.Index(tokens, from)] = to
		}
		m = without(without(m, "tokenizer.chat_template"), "tokenizer.ggml.tokens")
		m.Set("tokenizer.ggml.tokens", tokens)
		m.Set("tokenizer.chat_template", template)
		return m
	})
}

// answered returns what a request returns if the model generates a text and a stop token: whole,
// and joined from streamed pieces.
func answered(t *testing.T, e *engine.Engine, req generation.Request, text string) (whole, streamed generation.Choice, stats generation.Stats) {
	t.Helper()
	prompt, err := e.Prompt(t.Context(), req)
	require.NoError(t, err)
	ids := e.Tokenizer().Encode(text, tokenizer.EncodeOptions{Special: true})
	stop := e.Tokenizer().StopIDs()[0]
	req.Sampling.LogitBias = map[int32]float64{stop: 1e6}
	req.Resume = &generation.Progress{Prompt: generation.HashPrompt(prompt), Choices: [][]int32{ids}}
	req.Stream = func(p generation.Piece) error {
		streamed.Text += p.Text
		streamed.Reasoning += p.Reasoning
		streamed.FinishReason = p.FinishReason
		for _, d := range p.ToolCalls {
			if d.ID != "" {
				streamed.ToolCalls = append(streamed.ToolCalls, generation.ToolCall{ID: d.ID, Name: d.Name})
			}
			streamed.ToolCalls[d.Index].Arguments += d.Arguments
		}
		return nil
	}
	done := generate(t, e, req)
	whole = done.Choices[0]
	require.Equal(t, append(ids, stop), whole.Tokens)
	whole.Tokens = nil
	return whole, streamed, done.Stats
}

// The calls in an answer are found, also if control tokens mark them, in the whole answer and in
// pieces.
func TestToolCalls(t *testing.T) {
	t.Parallel()
	const plain = "{% for m in messages %}{{ m.content }}{% endfor %}"
	for name, c := range map[string]struct {
		template, text string
		names          map[string]string
		want           generation.Choice
		reasoning      string // the part of the text that counts as reasoning
		bare           string // content without tools, if it is not the text
	}{
		"no tools in the template": {
			template: plain, text: "Wait.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"é\"}}\n</tool_call>",
			want: generation.Choice{Text: "Wait.", ToolCalls: []generation.ToolCall{{Name: "f", Arguments: `{"a": "é"}`}}},
		},
		"text marks": {
			template: plain + "{# tools tool_calls <tool_call> <arg_key> #}", text: "<tool_call>f<arg_key>a</arg_key><arg_value>é</arg_value></tool_call>",
			want: generation.Choice{ToolCalls: []generation.ToolCall{{Name: "f", Arguments: `{"a": "é"}`}}},
		},
		"control tokens": {
			template: plain + "{# tools tool_calls [TOOL_CALLS] [ARGS] #}", names: map[string]string{"[MASK]": "[TOOL_CALLS]", "[sMASK]": "[ARGS]"},
			text: `[TOOL_CALLS]f[ARGS]{"a": "é"}[TOOL_CALLS]f[ARGS]{}`,
			want: generation.Choice{ToolCalls: []generation.ToolCall{{Name: "f", Arguments: `{"a": "é"}`}, {Name: "f", Arguments: "{}"}}},
		},
		"harmony": {
			template: plain + "<|start|>assistant{# tools tool_calls #}{# <|channel|> <|message|> #}",
			names: map[string]string{
				"[MASK]": "<|channel|>", "[sMASK]": "<|message|>", "<eop>": "<|end|>", "<|system|>": "<|start|>", "<|assistant|>": "<|constrain|>",
				"<|observation|>": "<|call|>", "<|user|>": "<|return|>",
			},
			text:      `<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": "é"}`,
			want:      generation.Choice{Reasoning: "Hm.", ToolCalls: []generation.ToolCall{{Name: "f", Arguments: `{"a": "é"}`}}},
			reasoning: "<|channel|>analysis<|message|>Hm.<|end|>", bare: `{"a": "é"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := open(t, withControls(t, c.template, c.names), engine.Options{})
			req := generation.Request{
				Chat:  messages(t, `{"messages": [{"role": "user", "content": "Hi"}]}`),
				Tools: []generation.Tool{{Name: "f", Parameters: `{"type":"object","properties":{"a":{"type":"string"}}}`}},
			}
			c.want.FinishReason = generation.FinishToolCalls
			got, streamed, stats := answered(t, e, req, c.text)
			require.Equal(t, got, streamed)
			again, _, _ := answered(t, e, req, c.text)
			require.Equal(t, got, again, "the same request has the same ids")
			ids := map[string]bool{}
			for i := range got.ToolCalls {
				ids[got.ToolCalls[i].ID] = true
				got.ToolCalls[i].ID = ""
			}
			require.Len(t, ids, len(got.ToolCalls))
			require.Equal(t, c.want, got)
			require.Len(t, e.Tokenizer().Encode(c.reasoning, tokenizer.EncodeOptions{Special: true}), stats.ReasoningTokens)

			req.Sampling.Seed++
			other, _, _ := answered(t, e, req, c.text)
			require.NotContains(t, ids, other.ToolCalls[0].ID)
			req.Tools, req.ToolChoice.Single = nil, true
			none, streamed, _ := answered(t, e, req, c.text)
			require.Equal(t, none, streamed)
			if c.bare == "" {
				c.bare = c.text
			}
			require.Equal(t, generation.Choice{Text: c.bare, Reasoning: c.want.Reasoning, FinishReason: generation.FinishStop}, none, "without tools, marks are content")
		})
	}
}

// Tools are a part of the prompt for every template, and they need messages.
func TestToolsAreInThePrompt(t *testing.T) {
	t.Parallel()
	tools := []generation.Tool{{Name: "find_rivers", Description: "Finds rivers.", Parameters: `{"type":"object"}`}}
	e := open(t, microGLM, engine.Options{})
	chat := messages(t, `{"messages": [{"role": "user", "content": "Hi"}]}`)
	ids, err := e.Prompt(t.Context(), generation.Request{Chat: chat, Tools: tools})
	require.NoError(t, err)
	require.Contains(t, e.Tokenizer().DecodeSpecial(ids), `<|system|># Tools`)
	require.Contains(t, e.Tokenizer().DecodeSpecial(ids), `"function": {"name": "find_rivers", "description": "Finds rivers."`)
	for name, c := range map[string]struct {
		req  generation.Request
		want string
	}{
		"a text":     {generation.Request{Text: "Hi", Tools: tools}, "tools need messages"},
		"a name":     {generation.Request{Chat: chat, Tools: []generation.Tool{{Name: "a b"}}}, "the name of tool 1 has the character ' '"},
		"twice":      {generation.Request{Chat: chat, Tools: append(tools, tools...)}, `two tools have the name "find_rivers"`},
		"no such":    {generation.Request{Chat: chat, Tools: tools, ToolChoice: generation.ToolChoice{Names: []string{"g"}}}, `the tool "g" is chosen, but there is no such tool`},
		"none":       {generation.Request{Chat: chat, ToolChoice: generation.ToolChoice{Mode: generation.ToolsRequired}}, "a call is required, but there are no tools"},
		"parameters": {generation.Request{Chat: chat, Tools: []generation.Tool{{Name: "f", Parameters: `{"type":"array"}`, Strict: true}}}, `"tools[0].function.parameters" cannot be kept: the arguments are not an object`},
	} {
		_, err := e.Generate(t.Context(), c.req)
		require.ErrorIs(t, err, generation.ErrBadRequest, name)
		require.ErrorContains(t, err, c.want, name)
	}
}

// constrainedTools are tools whose arguments are short.
var constrainedTools = []generation.Tool{
	{Name: "get_weather", Strict: true, Parameters: `{"type":"object","properties":{"city":{"type":"string","maxLength":6},"unit":{"type":"string","enum":["C","F"]},
		"days":{"type":"integer","minimum":1,"maximum":9},"exact":{"type":["boolean","null"]}},"required":["city","unit","days","exact"],"additionalProperties":false}`},
	{Name: "now"},
}

// With a choice that requires calls, a model with random weights calls tools in every form: the
// answer is the same in pieces and in one, drafts or not, and its arguments keep the schema.
func TestRequiredCalls(t *testing.T) {
	t.Parallel()
	const plain = "{% for m in messages %}{{ m.content }}{% endfor %}"
	for name, c := range map[string]struct {
		template string
		names    map[string]string
	}{
		"Hermes, by Ingot": {plain, nil},
		"Hermes":           {plain + `{# tools tool_calls <tool_call> "arguments" #}`, map[string]string{"[MASK]": "<tool_call>"}},
		"GLM-4.5":          {plain + "{# tools tool_calls <tool_call>{function-name}\n<arg_key> #}", nil},
		"GLM-4.7":          {plain + "{# tools tool_calls <tool_call> <arg_key> #}", map[string]string{"[MASK]": "<tool_call>", "[sMASK]": "</tool_call>", "<eop>": "</arg_value>"}},
		"Qwen3-Coder":      {plain + "{# tools tool_calls <tool_call> <function= <parameter= #}", nil},
		"Llama 3":          {plain + `{# tools tool_calls "parameters": tool_call ipython #}`, map[string]string{"[MASK]": "<|python_tag|>"}},
		"Mistral":          {plain + "{# tools tool_calls [TOOL_CALLS] [ARGS] #}", map[string]string{"[MASK]": "[TOOL_CALLS]", "[sMASK]": "[ARGS]"}},
		"Mistral, a list":  {plain + "{# tools tool_calls [TOOL_CALLS] #}", map[string]string{"[MASK]": "[TOOL_CALLS]"}},
		"harmony": {plain + "<|start|>assistant{# tools tool_calls #}{# <|channel|> <|message|> #}", map[string]string{
			"[MASK]": "<|channel|>", "[sMASK]": "<|message|>", "<eop>": "<|end|>", "<|system|>": "<|start|>", "<|assistant|>": "<|constrain|>",
			"<|observation|>": "<|call|>", "<|user|>": "<|return|>",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := open(t, withControls(t, c.template, c.names), engine.Options{})
			for seed, choice := range []generation.ToolChoice{
				{Mode: generation.ToolsRequired, Single: true}, {Mode: generation.ToolsNamed, Names: []string{"get_weather"}},
				{Mode: generation.ToolsRequired, Single: true, Names: []string{"now"}},
			} {
				req := generation.Request{
					Chat: messages(t, `{"messages": [{"role": "user", "content": "Hi"}]}`), Tools: constrainedTools, ToolChoice: choice,
					MaxTokens: 600, Sampling: generation.Sampling{Temperature: 1, Seed: uint64(seed)},
				}
				var streamed generation.Choice
				parts := 0
				req.Stream = func(p generation.Piece) error {
					streamed.Text, streamed.Reasoning = streamed.Text+p.Text, streamed.Reasoning+p.Reasoning
					streamed.Tokens = append(streamed.Tokens, p.Tokens...)
					streamed.FinishReason = p.FinishReason
					for _, d := range p.ToolCalls {
						parts++
						if d.ID != "" {
							streamed.ToolCalls = append(streamed.ToolCalls, generation.ToolCall{ID: d.ID, Name: d.Name})
						}
						streamed.ToolCalls[d.Index].Arguments += d.Arguments
					}
					return nil
				}
				got := generate(t, e, req).Choices[0]
				require.Equal(t, got, streamed)
				if got.FinishReason == generation.FinishLength {
					require.Equal(t, "harmony", name, "only free reasoning can be that long")
					continue
				}
				require.Equal(t, choice.Mode == generation.ToolsNamed, got.FinishReason == generation.FinishStop)
				require.Len(t, got.ToolCalls, 1)
				require.Empty(t, got.Text)
				requireArguments(t, got.ToolCalls[0])
				if len(choice.Names) > 0 {
					require.Equal(t, choice.Names[0], got.ToolCalls[0].Name)
				}
				req.Stream = nil
				require.Equal(t, got, generate(t, e, req).Choices[0])
			}
		})
	}
}

func requireArguments(t *testing.T, call generation.ToolCall) {
	t.Helper()
	if call.Name == "now" {
		require.Equal(t, "{}", call.Arguments)
		return
	}
	var arguments struct {
		City  *string
		Unit  string
		Days  int
		Exact any
	}
	decoder := json.NewDecoder(strings.NewReader(call.Arguments))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&arguments), call.Arguments)
	require.LessOrEqual(t, utf8.RuneCountInString(*arguments.City), 6)
	require.Contains(t, []string{"C", "F"}, arguments.Unit)
	require.True(t, arguments.Days >= 1 && arguments.Days <= 9)
	require.Contains(t, []any{nil, true, false}, arguments.Exact)
}

// Calls are required after the reasoning, which is free.
func TestRequiredCallsAfterReasoning(t *testing.T) {
	t.Parallel()
	e := open(t, withControls(t, "{% for m in messages %}{{ m.content }}{% endfor %}<|assistant|><think>{# </think> tools tool_calls <tool_call> <arg_key> #}", nil), engine.Options{})
	req := generation.Request{
		Chat: messages(t, `{"messages": [{"role": "user", "content": "Hi"}]}`), Tools: constrainedTools,
		ToolChoice: generation.ToolChoice{Mode: generation.ToolsRequired, Single: true}, MaxTokens: 600, Sampling: generation.Sampling{Temperature: 1},
	}
	prompt, err := e.Prompt(t.Context(), req)
	require.NoError(t, err)
	thoughts := e.Tokenizer().Encode("<tool_call>?</think>", tokenizer.EncodeOptions{Special: true})
	req.Resume = &generation.Progress{Prompt: generation.HashPrompt(prompt), Choices: [][]int32{thoughts}}
	done := generate(t, e, req)
	got := done.Choices[0]
	require.Equal(t, thoughts, got.Tokens[:len(thoughts)])
	require.Equal(t, "<tool_call>?", got.Reasoning)
	require.Equal(t, len(thoughts), done.Stats.ReasoningTokens)
	require.Empty(t, got.Text)
	require.Equal(t, generation.FinishToolCalls, got.FinishReason)
	require.Len(t, got.ToolCalls, 1)
	requireArguments(t, got.ToolCalls[0])
}

// In gpt-oss, the form of an answer is that of its final message.
func TestFormOfTheFinalMessage(t *testing.T) {
	t.Parallel()
	e := open(t, withControls(t, "{% for m in messages %}{{ m.content }}{% endfor %}<|start|>assistant{# tools tool_calls <|channel|> <|message|> #}", map[string]string{
		"[MASK]": "<|channel|>", "[sMASK]": "<|message|>", "<eop>": "<|end|>", "<|system|>": "<|start|>", "<|assistant|>": "<|constrain|>",
		"<|observation|>": "<|call|>", "<|user|>": "<|return|>",
	}), engine.Options{})
	req := generation.Request{
		Chat:       messages(t, `{"messages": [{"role": "user", "content": "Hi"}]}`),
		Constraint: &generation.Constraint{Choices: []string{"yes", "no"}}, MaxTokens: 40,
	}
	prompt, err := e.Prompt(t.Context(), req)
	require.NoError(t, err)
	begun := e.Tokenizer().Encode("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>", tokenizer.EncodeOptions{Special: true})
	req.Resume = &generation.Progress{Prompt: generation.HashPrompt(prompt), Choices: [][]int32{begun}}
	got := generate(t, e, req).Choices[0]
	require.Equal(t, begun, got.Tokens[:len(begun)])
	require.Contains(t, []string{"yes", "no"}, got.Text)
	require.Equal(t, "Hm.", got.Reasoning)
	require.Equal(t, generation.FinishStop, got.FinishReason)

	chat := messages(t, `{"messages": [{"role": "assistant", "content": "Hi"}], "continue_final_message": true}`)
	_, err = e.Generate(t.Context(), generation.Request{Chat: chat, Constraint: req.Constraint})
	require.ErrorIs(t, err, generation.ErrBadRequest)
	require.ErrorContains(t, err, "continue_final_message cannot be combined")
}

// A call that is cut is no call: a stop string or the limit of tokens within it leaves neither cut
// arguments nor the marks of the call, in the whole answer and in pieces.
func TestCutCalls(t *testing.T) {
	t.Parallel()
	e := open(t, microGLM, engine.Options{})
	for name, c := range map[string]struct {
		mode generation.ToolMode
		stop []string
		max  int
		want generation.FinishReason
	}{
		"a stop string, required": {generation.ToolsRequired, []string{"city"}, 600, generation.FinishStop},
		"a stop string, named":    {generation.ToolsNamed, []string{"city"}, 600, generation.FinishStop},
		"few tokens":              {generation.ToolsRequired, nil, 9, generation.FinishLength},
	} {
		req := generation.Request{
			Chat: messages(t, `{"messages": [{"role": "user", "content": "Hi"}]}`), Tools: constrainedTools, Stop: c.stop, MaxTokens: c.max,
			ToolChoice: generation.ToolChoice{Mode: c.mode, Names: []string{"get_weather"}},
		}
		req.Stream = func(p generation.Piece) error {
			require.Empty(t, p.Text, name)
			require.Empty(t, p.ToolCalls, name)
			return nil
		}
		got := generate(t, e, req).Choices[0]
		require.Equal(t, c.want, got.FinishReason, name)
		require.Empty(t, got.Text, name)
		require.Empty(t, got.ToolCalls, name)
	}
}
