package tools

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine/generation"
)

func number(i int) string { return fmt.Sprintf("id%d", i) }

// parse reads a text in the given parts.
func parse(f *Format, set *Set, trusted bool, parts ...string) (out Output) {
	p := f.NewParser(set, "<|start|>assistant", trusted, number)
	for i, part := range parts {
		next := p.Next(part, i == len(parts)-1)
		out.Reasoning += next.Reasoning
		out.Text += next.Text
		for _, d := range next.Calls {
			if d.ID != "" {
				out.Calls = append(out.Calls, d)
				continue
			}
			out.Calls[d.Index].Arguments += d.Arguments
		}
	}
	return out
}

var someTools = &generation.Request{Tools: []generation.Tool{
	{Name: "f", Parameters: `{"type":"object","properties":{"s":{"type":"string"},"n":{"type":"integer"},"b":{"type":"boolean"},"o":{"type":"object"},
		"m":{"anyOf":[{"type":"string"},{"type":"null"}]},"e":{"$ref":"#/$defs/E"}},"$defs":{"E":{"enum":["1","2"]}}}`},
	{Name: "now"},
}}

func call(index int, name, arguments string) generation.ToolCallDelta {
	return generation.ToolCallDelta{Index: index, ID: number(index), Name: name, Arguments: arguments}
}

func format(t testing.TB, name string) *Format {
	t.Helper()
	for _, f := range formats {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("there is no format %q", name)
	return nil
}

// TestParse reads answers as models write them, whole and a character at a time.
func TestParse(t *testing.T) {
	t.Parallel()
	type calls = []generation.ToolCallDelta
	for _, c := range []struct {
		format, text string
		want         Output
	}{
		{"Hermes", "hello", Output{Text: "hello"}},
		{"Hermes", " a <tool_cal", Output{Text: " a <tool_cal"}},
		{"Hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"}</tool_call>\"}}\n</tool_call>", Output{Calls: calls{call(0, "f", `{"s": "}</tool_call>"}`)}}},
		{"Hermes", "Let me see. \n<tool_call>{\"arguments\": {}, \"x\": [1, 2], \"name\": \"now\"}</tool_call>\n\n<tool_call>\n{\"name\":\"f\",\"arguments\":{\"n\":1}}\n</tool_call>\nDone.\n",
			Output{Text: "Let me see.\nDone.\n", Calls: calls{call(0, "now", "{}"), call(1, "f", `{"n":1}`)}}},
		{"Hermes", "<tool_call>{\"name\": \"now\"}", Output{Calls: calls{call(0, "now", "{}")}}},
		{"Hermes", `<tool_call>{"name": "f", "arguments": "{\"n\": 2}"}</tool_call>`, Output{Calls: calls{call(0, "f", `{"n": 2}`)}}},
		{"Hermes", "x\n<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>", Output{Text: "x\n<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>"}},
		{"Hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {n: 1}}</tool_call>.", Output{Text: "<tool_call>{\"name\": \"f\", \"arguments\": {n: 1}}</tool_call>."}},
		{"Hermes", "<tool_call>{\"name\": \"f\", \"argum", Output{Text: "<tool_call>{\"name\": \"f\", \"argum"}},
		{"Hermes", "<tool_call>f(1)</tool_call>", Output{Text: "<tool_call>f(1)</tool_call>"}},

		{"GLM-4.5", "\nFirst.\n<tool_call>f\n<arg_key>s</arg_key>\n<arg_value> \"Zürich\"\n</arg_value>\n<arg_key>n</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
			Output{Text: "\nFirst.", Calls: calls{call(0, "f", `{"s": " \"Zürich\"\n", "n": 3}`)}}},
		{"GLM-4.7", "<tool_call>now</tool_call><tool_call>f<arg_key>m</arg_key><arg_value>null</arg_value><arg_key>e</arg_key><arg_value>2</arg_value></tool_call>",
			Output{Calls: calls{call(0, "now", "{}"), call(1, "f", `{"m": null, "e": "2"}`)}}},
		{"GLM-4.7", "<tool_call>f<arg_key>m</arg_key><arg_value>none < all</arg_value><arg_key>o</arg_key><arg_value>{\"a\": [1]}</arg_value></tool_call>",
			Output{Calls: calls{call(0, "f", `{"m": "none < all", "o": {"a": [1]}}`)}}},
		{"GLM-4.7", "<tool_call>f<arg_key>new</arg_key><arg_value>true</arg_value><arg_key>b</arg_key><arg_value>maybe</arg_value></tool_call>",
			Output{Calls: calls{call(0, "f", `{"new": true, "b": "maybe"}`)}}},
		{"GLM-4.7", "<tool_call>f<arg_key>s</arg_value></tool_call>", Output{Text: "<tool_call>f<arg_key>s</arg_value></tool_call>"}},
		{"GLM-4.7", "<tool_call>g</tool_call>", Output{Text: "<tool_call>g</tool_call>"}},

		{"Qwen3-Coder", "I look.\n\n<tool_call>\n<function=f>\n<parameter=s>\n\nline\n\n</parameter>\n<parameter=b>\nTrue\n</parameter>\n</function>\n</tool_call>",
			Output{Text: "I look.", Calls: calls{call(0, "f", `{"s": "\nline\n", "b": true}`)}}},
		{"Qwen3-Coder", "<function=f>\n<parameter=n>\n5\n</parameter>\n</function>\n</tool_call>", Output{Calls: calls{call(0, "f", `{"n": 5}`)}}},
		{"Qwen3-Coder", "<tool_call>\n<function=now>\n</function>\n</tool_call>", Output{Calls: calls{call(0, "now", `{}`)}}},
		{"Qwen3-Coder", "<tool_call>\n<function=no>\n</function>\n</tool_call>", Output{Text: "<tool_call>\n<function=no>\n</function>\n</tool_call>"}},

		{"Gemma 4", `<|tool_call>call:f{n:3,s:<|"|>a "b", {c}<|"|>}<tool_call|><|tool_call>call:now{}<tool_call|>Done.`,
			Output{Text: "Done.", Calls: calls{call(0, "f", `{"n": 3, "s": "a \"b\", {c}"}`), call(1, "now", "{}")}}},
		{"Gemma 4", `I call.<|tool_call>call:f{ o : {list:[1,<|"|>x<|"|>,{k:None}], <|"|>q<|"|>:[]},b:True,m:<|"|><|"|>}`,
			Output{Text: "I call.", Calls: calls{call(0, "f", `{"o": {"list": [1, "x", {"k": null}], "q": []}, "b": true, "m": ""}`)}}},
		{"Gemma 4", `<|tool_call>call:f{"o": {"a": "]}, \"<tool_call|>"}, s: word}<tool_call|>`, Output{Calls: calls{call(0, "f", `{"o": {"a": "]}, \"<tool_call|>"}, "s": "word"}`)}}},
		{"Gemma 4", `<|tool_call>call:g{}<tool_call|>`, Output{Text: `<|tool_call>call:g{}<tool_call|>`}},
		{"Gemma 4", `<|tool_call>call:f{n:1]<tool_call|>`, Output{Text: `<|tool_call>call:f{n:1]<tool_call|>`}},
		{"Gemma 4", `<|tool_call>call:f{s:<|"|>cut`, Output{Text: `<|tool_call>call:f{s:<|"|>cut`}},

		{"Llama 3", `{"name": "f", "parameters": {"n": 1}}`, Output{Calls: calls{call(0, "f", `{"n": 1}`)}}},
		{"Llama 3", `<|python_tag|>{"name": "f", "parameters": {}}; {"name": "now", "parameters": {}}`, Output{Calls: calls{call(0, "f", `{}`), call(1, "now", `{}`)}}},
		{"Llama 3", ` {"answer": 42} `, Output{Text: ` {"answer": 42} `}},
		{"Llama 3", `It is {"name": "now"}`, Output{Text: `It is {"name": "now"}`}},

		{"Mistral, as a list", `[TOOL_CALLS][{"name": "f", "arguments": {"n": 1}, "id": "abcdefghi"}, {"name": "now", "arguments": {}}]`,
			Output{Calls: calls{call(0, "f", `{"n": 1}`), call(1, "now", `{}`)}}},
		{"Mistral", `Ok.[TOOL_CALLS]f[ARGS]{"s": "[TOOL_CALLS]"}[TOOL_CALLS]now[CALL_ID]abcdefghi[ARGS]{}`,
			Output{Text: "Ok.", Calls: calls{call(0, "f", `{"s": "[TOOL_CALLS]"}`), call(1, "now", `{}`)}}},
		{"Mistral", `[TOOL_CALLS]g[ARGS]{}`, Output{Text: `[TOOL_CALLS]g[ARGS]{}`}},

		{"Granite 3", "I look.<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"n\": 1}}, {\"name\": \"now\", \"arguments\": {}}]",
			Output{Text: "I look.", Calls: calls{call(0, "f", `{"n": 1}`), call(1, "now", "{}")}}},
		{"Granite 3", "<tool_call>[{\"arguments\": {\"s\": \"]}\"}, \"name\": \"f\"}]\n", Output{Calls: calls{call(0, "f", `{"s": "]}"}`)}}},
		{"Granite 3", "<|tool_call|>[{\"name\": \"g\", \"arguments\": {}}]", Output{Text: "<|tool_call|>[{\"name\": \"g\", \"arguments\": {}}]"}},
		{"Granite 3", "<|tool_call|>[{\"name\": \"f\", \"argum", Output{Text: "<|tool_call|>[{\"name\": \"f\", \"argum"}},
		{"Phi-4-mini", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"s\": \"<|/tool_call|>\"}}, {\"name\": \"now\"}] <|/tool_call|> Done.",
			Output{Text: "Done.", Calls: calls{call(0, "f", `{"s": "<|/tool_call|>"}`), call(1, "now", "{}")}}},
		{"Phi-4-mini", "<|tool_call|>{\"name\": \"now\", \"arguments\": {}}<|/tool_call|>", Output{Calls: calls{call(0, "now", "{}")}}},
		{"Phi-4-mini", "<|tool_call|>[]<|/tool_call|>", Output{Text: "<|tool_call|>[]<|/tool_call|>"}},
		{"GLM-4-0414", "f\n{\"n\": 1}", Output{Calls: calls{call(0, "f", `{"n": 1}`)}}},
		{"GLM-4-0414", "\nnow \n\n{}\n", Output{Calls: calls{call(0, "now", `{}`)}}},
		{"GLM-4-0414", "now\nor never", Output{Text: "now\nor never"}},
		{"GLM-4-0414", "\nHi\n{\"n\": 1} ", Output{Text: "\nHi\n{\"n\": 1} "}},
		{"GLM-4-0414", "now", Output{Text: "now"}},
		{"GLM-4-0414", "f\n{\"n\": ", Output{Text: "f\n{\"n\": "}},

		{"Muse Glimmer (ATEM)", " to=self<|message|>Hmm. <b>ok</b>\n<|eom|><|start|>assistant to=user<|message|>Hi <there><|eot|>",
			Output{Reasoning: "Hmm. <b>ok</b>\n", Text: "Hi <there>"}},
		{"Muse Glimmer (ATEM)", " to=self<|message|>A<|eom|><|start|>assistant to=f<|message|><atem:function_calls>\n<atem:invoke name=\"f\">\n<atem:parameter name=\"s\"> a <b>\n</atem:parameter>\n" +
			"<atem:parameter name=\"n\">3</atem:parameter>\n</atem:invoke>\n<atem:invoke name=\"now\">\n</atem:invoke>\n</atem:function_calls><|eot|>",
			Output{Reasoning: "A", Calls: calls{call(0, "f", `{"s": " a <b>\n", "n": 3}`), call(1, "now", "{}")}}},
		{"Muse Glimmer (ATEM)", " to=user<|message|>I call.<|eom|><|start|>assistant to=now<|message|><atem:function_calls>\n<atem:invoke name=\"now\">\n</atem:invoke>\n</atem:function_calls><|eom|>" +
			"<|start|>assistant to=f<|message|><atem:function_calls><atem:invoke name=\"f\"></atem:invoke></atem:function_calls>",
			Output{Text: "I call.", Calls: calls{call(0, "now", "{}"), call(1, "f", "{}")}}},
		{"Muse Glimmer (ATEM)", " to=g<|message|><atem:function_calls>\n<atem:invoke name=\"g\">\n</atem:invoke>\n</atem:function_calls><|eot|>",
			Output{Text: "<atem:invoke name=\"g\">\n</atem:invoke>"}},
		{"Muse Glimmer (ATEM)", "<|message|>plain", Output{Text: "plain"}},
		{"Muse Glimmer (ATEM)", " to=self<|mess", Output{}},

		{"LFM2", `Let me see. <|tool_call_start|>[f(s='it\'s', n=1, b=True, o={"a": [1, None]}), now()]<|tool_call_end|> Done.`,
			Output{Text: "Let me see.\nDone.", Calls: calls{call(0, "f", `{"s": "it's", "n": 1, "b": true, "o": {"a": [1, null]}}`), call(1, "now", `{}`)}}},
		{"LFM2", `<|tool_call_start|>[f(s='What\'s "new"? It's (here), isn't it', e = "1", o={'k': ('x', 2)})]<|tool_call_end|>`,
			Output{Calls: calls{call(0, "f", `{"s": "What's \"new\"? It's (here), isn't it", "e": "1", "o": {"k": ["x", 2]}}`)}}},
		{"LFM2", "<|tool_call_start|>f(s='C:\\dir\n', m=None)", Output{Calls: calls{call(0, "f", `{"s": "C:\\dir\n", "m": null}`)}}},
		{"LFM2", "<|tool_call_start|>[f(s='a \\n \\u00e9 \\d', n=-1.5e3)]", Output{Calls: calls{call(0, "f", `{"s": "a \n \u00e9 \\d", "n": -1.5e3}`)}}},
		{"LFM2", "<|tool_call_start|>[g(s='a')]<|tool_call_end|>", Output{Text: "<|tool_call_start|>[g(s='a')]<|tool_call_end|>"}},
		{"LFM2", "<|tool_call_start|>[f(s='a', n=)]<|tool_call_end|>", Output{Text: "<|tool_call_start|>[f(s='a', n=)]<|tool_call_end|>"}},
		{"LFM2", "<|tool_call_start|>[f(s='a", Output{Text: "<|tool_call_start|>[f(s='a"}},
		{"LFM2", "a [b] <|tool", Output{Text: "a [b] <|tool"}},

		{"gpt-oss (harmony)", `<|channel|>analysis<|message|>Hmm.<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"n": 1}<|call|>`,
			Output{Reasoning: "Hmm.", Calls: calls{call(0, "f", `{"n": 1}`)}}},
		{"gpt-oss (harmony)", `<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>commentary<|message|>I call.<|end|><|start|>assistant to=functions.now<|channel|>commentary json<|message|>{}`,
			Output{Reasoning: "A", Text: "I call.", Calls: calls{call(0, "now", `{}`)}}},
		{"gpt-oss (harmony)", `<|channel|>final<|message|>Hi <there>`, Output{Text: "Hi <there>"}},
		{"gpt-oss (harmony)", `<|channel|>commentary to=functions.g <|constrain|>json<|message|>{}<|call|>`, Output{Text: "{}"}},
		{"gpt-oss (harmony)", `<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"s": "<|end|>"}<|call|>`, Output{Calls: calls{call(0, "f", `{"s": "<|end|>"}`)}}},
		{"gpt-oss (harmony)", `<|channel|>commentary to=functions.f <|constrain|>json<|message|>{n: 1}<|end|><|start|>assistant<|channel|>final<|message|>x`, Output{Text: "{n: 1}\nx"}},
		{"gpt-oss (harmony)", `<|channel|>analysis<|mess`, Output{}},
		{"gpt-oss (harmony)", `plain`, Output{Text: "plain"}},
	} {
		f := format(t, c.format)
		set := NewSet(someTools)
		require.Equal(t, c.want, parse(f, set, false, c.text), "%s: %s", c.format, c.text)
		require.Equal(t, c.want, parse(f, set, false, append(strings.Split(c.text, ""), "")...), "%s, in characters: %s", c.format, c.text)
	}
}

// The choice among tools decides which calls are calls.
func TestParseChoice(t *testing.T) {
	t.Parallel()
	f, text := Hermes, "<tool_call>{\"name\": \"now\"}</tool_call>\n<tool_call>{\"name\": \"f\"}</tool_call>"
	r := *someTools
	r.ToolChoice = generation.ToolChoice{Names: []string{"f"}}
	require.Equal(t, Output{Text: "<tool_call>{\"name\": \"now\"}</tool_call>", Calls: []generation.ToolCallDelta{call(0, "f", "{}")}}, parse(f, NewSet(&r), false, text))
	r.ToolChoice = generation.ToolChoice{Single: true}
	require.Equal(t, Output{Text: "\n<tool_call>{\"name\": \"f\"}</tool_call>"[1:], Calls: []generation.ToolCallDelta{call(0, "now", "{}")}}, parse(f, NewSet(&r), false, text))
}

// Arguments of a constrained answer are passed on as they come, and stay cut if the answer is cut.
func TestParseConstrained(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"Hermes":              "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"abc",
		"GLM-4.7":             "<tool_call>f<arg_key>s</arg_key><arg_value>abc",
		"Qwen3-Coder":         "<tool_call>\n<function=f>\n<parameter=s>\nabc",
		"Llama 3":             "{\"name\": \"f\", \"parameters\": {\"s\": \"abc",
		"Muse Glimmer (ATEM)": " to=f<|message|><atem:function_calls>\n<atem:invoke name=\"f\">\n<atem:parameter name=\"s\">abc",
		"LFM2":                "<|tool_call_start|>[f(s=\"abc",
		"Mistral":             "[TOOL_CALLS]f[ARGS]{\"s\": \"abc",
		"Granite 3":           "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"s\": \"abc",
		"GLM-4-0414":          "f\n{\"s\": \"abc",
		"gpt-oss (harmony)":   "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"s\": \"abc",
	} {
		p := format(t, name).NewParser(NewSet(someTools), "<|start|>assistant", true, number)
		out := p.Next(text, false)
		require.Equal(t, Output{Calls: []generation.ToolCallDelta{call(0, "f", `{"s": "abc`)}}, out, name)
		require.Equal(t, Output{Calls: []generation.ToolCallDelta{{Arguments: "d"}}}, p.Next("d", false), name)
		require.Empty(t, p.Next("", true), name)
		require.Equal(t, 1, p.Calls(), name)
	}
}

// What is found does not depend on how a text is cut into parts, whatever the text.
func TestParseParts(t *testing.T) {
	t.Parallel()
	pieces := []string{
		"<tool_call>", "</tool_call>", "<tool", "_call>", "<function=", "</function>", "<parameter=", "</parameter>", "<arg_key>", "</arg_key>", "<arg_value>",
		"</arg_value>", "[TOOL_CALLS]", "[ARGS]", "[", "]", "{", "}", ",", ":", ";", `"`, `\`, `"name": "f"`, `"arguments": {}`, `{"name": "f", "parameters": {"n": 1}}`,
		"f", "now", ">", "\n", " ", "s", "é", " to=", "self", "user", "<|eom|>", "<|eot|>", "<atem:invoke name=\"f\">", "</atem:invoke>", "<atem:parameter name=\"s\">", "</atem:parameter>", "<|tool_call_start|>", "<|tool_call_end|>", "f(s='a'", "(", ")", "=", "'", "None", "<|python_tag|>", "<|tool_call|>", "<|/tool_call|>", "<|channel|>", "<|message|>", "<|end|>", "<|start|>", "analysis", "final", "commentary", " to=functions.f", strings.Repeat("x", 2*maxKey),
	}
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom(pieces)).Draw(t, "parts")
		f := rapid.SampledFrom(formats).Draw(t, "format")
		trusted := rapid.Bool().Draw(t, "trusted")
		whole := parse(f, NewSet(someTools), trusted, strings.Join(parts, ""))
		require.Equal(t, whole, parse(f, NewSet(someTools), trusted, append(parts, "")...), f.Name)
		if !trusted {
			for _, c := range whole.Calls {
				require.True(t, isObject(c.Arguments), c.Arguments)
			}
		}
	})
}
