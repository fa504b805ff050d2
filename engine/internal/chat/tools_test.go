package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/chat/tools"
	"github.com/ingot-run/ingot/internal/ordered"
)

// recorded is the file of testdata/tools.py.
type recorded struct {
	Date  string
	Tools []struct {
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
		}
	}
	Cases     map[string]json.RawMessage
	Templates map[string]struct {
		Format  string
		Prompts map[string]string
	}
}

// needTemplates returns the folder of published templates, or skips the test.
func needTemplates(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("INGOT_VECTORS")
	if dir == "" {
		t.Skip("published chat templates are not tested: set INGOT_VECTORS")
	}
	return filepath.Join(dir, "templates")
}

func readTemplate(t *testing.T, dir, name string) *Template {
	t.Helper()
	var source string
	if strings.HasPrefix(name, "families/") {
		text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		require.NoError(t, err)
		var f family
		require.NoError(t, json.Unmarshal(text, &f))
		source = f.Template
	} else {
		text, err := os.ReadFile(filepath.Join(dir, name+".jinja"))
		require.NoError(t, err)
		source = string(text)
	}
	tmpl := parse(source)
	require.NoError(t, tmpl.err)
	tmpl.tokens = []variable{{"bos_token", "<s>"}, {"eos_token", "</s>"}}
	return tmpl
}

// TestRecordedTools compares chats with tools, as OpenAI's clients send them, with the prompts that
// Hugging Face's transformers makes of them.
func TestRecordedTools(t *testing.T) {
	t.Parallel()
	dir := needTemplates(t)
	data, err := os.ReadFile("testdata/tools.json")
	require.NoError(t, err)
	var all recorded
	require.NoError(t, json.Unmarshal(data, &all))
	date, err := time.Parse(time.DateOnly, all.Date)
	require.NoError(t, err)
	var list []generation.Tool
	for _, tool := range all.Tools {
		list = append(list, generation.Tool{Name: tool.Function.Name, Description: tool.Function.Description, Parameters: string(tool.Function.Parameters)})
	}
	require.Len(t, all.Templates, 16)
	for name, want := range all.Templates {
		tmpl := readTemplate(t, dir, name)
		require.Equal(t, want.Format, tmpl.ToolFormat().Name, name)
		for c, prompt := range want.Prompts {
			v, err := ordered.ParseJSON(all.Cases[c])
			require.NoError(t, err)
			vars := ordered.NewObject()
			vars.Set("messages", decoded(t, v.([]ordered.Value)))
			before := string(ordered.AppendJSON(nil, vars))
			got, err := tmpl.Render(t.Context(), vars, list, date)
			require.NoError(t, err, "%s: %s", name, c)
			if hash, ok := strings.CutPrefix(prompt, "sha256:"); ok {
				sum := sha256.Sum256([]byte(got))
				require.Equal(t, hash, hex.EncodeToString(sum[:]), "%s: %s", name, c)
			} else {
				require.Equal(t, prompt, got, "%s: %s", name, c)
			}
			require.Equal(t, before, string(ordered.AppendJSON(nil, vars)), "the caller's object does not change")
		}
	}
}

// TestResultsInAnotherOrder renders the results of several calls in the order of the calls.
func TestResultsInAnotherOrder(t *testing.T) {
	t.Parallel()
	dir := needTemplates(t)
	data, err := os.ReadFile("testdata/tools.json")
	require.NoError(t, err)
	var all recorded
	require.NoError(t, json.Unmarshal(data, &all))
	call := `{"id": "call_%d", "type": "function", "function": {"name": "f", "arguments": "{\"n\": %d}"}}`
	result := `{"role": "tool", "tool_call_id": "call_%d", "content": "result %d"}`
	first, second, third := fmt.Sprintf(result, 1, 1), fmt.Sprintf(result, 2, 2), fmt.Sprintf(result, 3, 3)
	list := []generation.Tool{{Name: "f", Description: "Computes."}}
	for name := range all.Templates {
		tmpl := readTemplate(t, dir, name)
		render := func(results ...string) string {
			v, err := ordered.ParseJSON(fmt.Appendf(nil, `[{"role": "user", "content": "u"}, {"role": "assistant", "content": "", "tool_calls": [%s, %s, %s]}, %s]`,
				fmt.Sprintf(call, 1, 1), fmt.Sprintf(call, 2, 2), fmt.Sprintf(call, 3, 3), strings.Join(results, ", ")))
			require.NoError(t, err)
			vars := ordered.NewObject()
			vars.Set("messages", decoded(t, v.([]ordered.Value)))
			got, err := tmpl.Render(t.Context(), vars, list, time.Time{})
			require.NoError(t, err, name)
			return got
		}
		want := render(first, second, third)
		require.Contains(t, want, "result 3", name)
		require.Equal(t, want, render(third, first, second), name)
	}
}

// decoded returns messages whose calls have their arguments as objects, as a request has them.
func decoded(t testing.TB, messages []ordered.Value) []ordered.Value {
	t.Helper()
	for _, m := range messages {
		v, _ := m.(*ordered.Object).Get("tool_calls")
		list, _ := v.([]ordered.Value)
		for _, c := range list {
			f, _ := c.(*ordered.Object).Get("function")
			arguments, _ := f.(*ordered.Object).Get("arguments")
			parsed, err := ordered.ParseJSON([]byte(arguments.(string)))
			require.NoError(t, err)
			f.(*ordered.Object).Set("arguments", parsed)
		}
	}
	return messages
}

var writtenTools = []generation.Tool{
	{Name: "write", Description: "Writes.", Parameters: `{"type":"object","properties":{"text":{"type":"string","description":"a"},"count":{"type":"integer","description":"a"},
		"ratio":{"type":"number","description":"a"},"on":{"type":"boolean","description":"a"},"list":{"type":"array","items":{"type":"string"},"description":"a"},
		"owner":{"type":"object","description":"a"},"note":{"anyOf":[{"type":"string"},{"type":"null"}],"description":"a"}}}`},
	{Name: "stop_all", Description: "Stops.", Parameters: `{"type":"object","properties":{"now":{"type":"string","description":"a"}}}`},
}

// randomText avoids the texts that end a value without quotes.
func randomText(t *rapid.T) string {
	s := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("<>/\"'\\{}[]:,\n\t ab0é日🎉")))).Draw(t, "text")
	for _, end := range []string{"</arg_value>", "</parameter>", `<|"|>`} {
		s = strings.ReplaceAll(s, end, "")
	}
	return s
}

func randomArguments(t *rapid.T) *ordered.Object {
	o := ordered.NewObject()
	values := map[string]func() ordered.Value{
		"text":  func() ordered.Value { return randomText(t) },
		"count": func() ordered.Value { return rapid.Int64().Draw(t, "count") },
		"ratio": func() ordered.Value { return rapid.Float64Range(-1e30, 1e30).Draw(t, "ratio") },
		"on":    func() ordered.Value { return rapid.Bool().Draw(t, "on") },
		"list":  func() ordered.Value { return []ordered.Value{randomText(t), randomText(t)} },
		"owner": func() ordered.Value {
			inner := ordered.NewObject()
			inner.Set(randomText(t), randomText(t))
			inner.Set("n", nil)
			return inner
		},
		"note": func() ordered.Value {
			if s := randomText(t); rapid.Bool().Draw(t, "noted") && strings.TrimSpace(s) != "null" && strings.TrimSpace(s) != "None" {
				return s
			}
			return nil
		},
	}
	for _, key := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"text", "count", "ratio", "on", "list", "owner", "note"}), func(s string) string { return s }).Draw(t, "keys") {
		o.Set(key, values[key]())
	}
	return o
}

// written is how a template is used in TestParseIsTheInverseOfRender.
type written struct {
	template string
	single   bool   // one call a message
	content  bool   // a message can have content and calls
	off      bool   // the template can turn thinking off
	ends     string // the text after a message of the assistant
	native   bool   // Gemma 4: keys are sorted and have no quotes, and only with thinking does the answer follow the prompt
}

// TestParseIsTheInverseOfRender renders 1,000 random calls with each template, and reads them from
// the text in random pieces.
func TestParseIsTheInverseOfRender(t *testing.T) {
	t.Parallel()
	dir := needTemplates(t)
	for _, w := range []written{
		{"GLM-4.6", false, true, true, "", false},
		{"GLM-4.7-Flash", false, true, true, "", false},
		{"GLM-5.2", false, true, true, "", false},
		{"Qwen-Qwen2.5-7B-Instruct", false, true, false, "<|im_end|>\n", false},
		{"Qwen-Qwen3-0.6B", false, true, true, "<|im_end|>\n", false},
		{"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", false, false, false, "<|im_end|>\n", false},
		{"Qwen3.5-4B", false, true, true, "<|im_end|>\n", false},
		{"openai-gpt-oss-120b", true, false, false, "", false},
		{"mistralai-Mistral-Nemo-Instruct-2407", false, false, false, "</s>", false},
		{"mistralai-Ministral-3-14B-Reasoning-2512", false, true, false, "</s>", false},
		{"unsloth-mistral-Devstral-Small-2507", false, true, false, "</s>", false},
		{"meta-llama-Llama-3.1-8B-Instruct", true, false, false, "<|eot_id|>", false},
		{"microsoft-Phi-3.5-mini-instruct", false, true, false, "<|end|>\n</s>", false},
		{"HuggingFaceTB-SmolLM3-3B", false, true, true, "<|im_end|>\n", false},
		{"google-gemma-4-31B-it", false, true, false, "<|tool_response>", true},
		{"ibm-granite-granite-3.3-2B-Instruct", false, true, false, "<|end_of_text|>\n", false},
		{"families/phi4-mini", false, true, false, "<|end|></s>", false},
	} {
		tmpl := readTemplate(t, dir, w.template)
		t.Run(w.template, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				n := 10
				if w.single {
					n = 1
				}
				for i := 0; i < 10; i += n {
					w.check(t, tmpl, n)
				}
			})
		})
	}
}

func (w *written) check(t *rapid.T, tmpl *Template, n int) {
	calls := make([]ordered.Value, n)
	for i := range calls {
		f := ordered.NewObject()
		f.Set("name", "write")
		f.Set("arguments", w.arguments(t))
		call := ordered.NewObject()
		call.Set("id", "call_"+string(rune('0'+i)))
		call.Set("function", f)
		calls[i] = call
	}
	content := ""
	if w.content {
		content = rapid.SampledFrom([]string{"", "Let me see."}).Draw(t, "content")
	}
	prompt := w.render(t, tmpl, true)
	m := ordered.NewObject()
	m.Set("role", "assistant")
	m.Set("content", content)
	m.Set("tool_calls", calls)
	answer, ok := strings.CutPrefix(w.render(t, tmpl, false, m), prompt)
	require.True(t, ok)
	answer, ok = strings.CutSuffix(answer, w.ends)
	require.True(t, ok)

	text, got := read(t, tmpl, prompt, answer)
	require.Equal(t, content, strings.TrimLeft(text, "\n"), answer) // GLM-4.6 begins a line after its thoughts
	require.Len(t, got, n, answer)
	for i, c := range got {
		f, _ := calls[i].(*ordered.Object).Get("function")
		want, _ := f.(*ordered.Object).Get("arguments")
		arguments, err := ordered.ParseJSON([]byte(c.Arguments))
		require.NoError(t, err, c.Arguments)
		require.Equal(t, "write", c.Name)
		require.Equal(t, string(ordered.AppendJSON(nil, want)), string(ordered.AppendJSON(nil, arguments)), answer)
	}
}

// arguments draws the arguments of a call that the format can write.
func (w *written) arguments(t *rapid.T) *ordered.Object {
	o := randomArguments(t)
	if !w.native {
		return o
	}
	keys := o.Keys()
	slices.Sort(keys)
	sorted := ordered.NewObject()
	for _, key := range keys {
		v, _ := o.Get(key)
		if key == "owner" {
			inner := ordered.NewObject()
			inner.Set("m", randomText(t))
			inner.Set("n", nil)
			v = inner
		}
		sorted.Set(key, v)
	}
	return sorted
}

func (w *written) render(t *rapid.T, tmpl *Template, generate bool, more ...ordered.Value) string {
	ask := ordered.NewObject()
	ask.Set("role", "user")
	ask.Set("content", "Write.")
	vars := ordered.NewObject()
	vars.Set("messages", append([]ordered.Value{ask}, more...))
	vars.Set("add_generation_prompt", generate)
	if w.off {
		vars.Set("enable_thinking", false)
	}
	if w.native {
		vars.Set("enable_thinking", true)
	}
	prompt, err := tmpl.Render(t.Context(), vars, writtenTools, time.Unix(0, 0))
	require.NoError(t, err)
	return prompt
}

// read reads an answer in random pieces.
func read(t *rapid.T, tmpl *Template, prompt, answer string) (text string, calls []generation.ToolCall) {
	set := tools.NewSet(&generation.Request{Tools: writtenTools})
	parser := tmpl.ToolFormat().NewParser(set, prompt, rapid.Bool().Draw(t, "trusted"), func(int) string { return "id" })
	splitter := NewSplitter(tmpl.Tags(), prompt)
	runes := []rune(answer)
	cuts := rapid.SliceOfN(rapid.IntRange(0, len(runes)), 0, 40).Draw(t, "cuts")
	slices.Sort(cuts)
	from := 0
	for i, to := range append(cuts, len(runes)) {
		part, ended := string(runes[from:to]), i == len(cuts)
		from = to
		if tmpl.Reasons() {
			_, part = splitter.Next(part, ended)
		}
		out := parser.Next(part, ended)
		text += out.Text
		for _, d := range out.Calls {
			if d.Name != "" {
				require.Len(t, calls, d.Index)
				calls = append(calls, generation.ToolCall{ID: d.ID, Name: d.Name})
			}
			calls[d.Index].Arguments += d.Arguments
		}
	}
	return text, calls
}

// A template that does not know tools gets them in the texts of messages.
func TestOwnRendering(t *testing.T) {
	t.Parallel()
	const plain = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
	chat := `{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
		{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {"a": "x, y: z", "b": [1, 2]}}}]},
		{"role": "tool", "tool_call_id": "1", "content": "one"}, {"role": "tool", "content": "two"}, {"role": "user", "content": "And?"}]}`
	list := []generation.Tool{{Name: "f", Description: "Does f.", Parameters: `{"type":"object","properties":{"a":{"type":"string"}}}`}}
	const introduced = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
		"You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n" +
		`{"type": "function", "function": {"name": "f", "description": "Does f.", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}}` +
		"\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n" +
		"<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>"
	const rest = "<assistant><tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x, y: z\", \"b\": [1, 2]}}\n</tool_call>" +
		"<user><tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>\nAnd?"
	for name, c := range map[string]struct {
		source string
		list   []generation.Tool
		want   string
	}{
		"in the system message": {plain, list, "<system>Be brief.\n\n" + introduced + "<user>Hi" + rest},
		"without tools":         {plain, nil, "<system>Be brief.<user>Hi" + rest},
		"system refused": {
			"{% if messages[0].role == 'system' and '<tools>' in messages[0].content %}{{ raise_exception('no') }}{% endif %}" + plain, list,
			"<system>Be brief.<user>" + introduced + "\n\nHi" + rest,
		},
		"system left out": {"{% for m in messages if m.role != 'system' %}<{{ m.role }}>{{ m.content }}{% endfor %}", list, "<user>" + introduced + "\n\nHi" + rest},
	} {
		got, err := parse(c.source).Render(t.Context(), object(t, chat), c.list, time.Time{})
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
}

// glm4Template has calls, results and content as GLM-4-0414's published template has them.
const glm4Template = "[gMASK]<sop>{% if tools %}<|system|>\n# 可用工具{% for t in tools %}{% set f = t.function if t.get(\"function\") else t %}\n\n## {{ f.name }}{% endfor %}{% endif %}" +
	"{% for m in messages %}{% set message = m %}{% set meta = message.get(\"metadata\", \"\") %}{% if m.role == 'user' %}<|user|>\n{{ m.content }}{% elif m.role == 'assistant' and not meta %}<|assistant|>\n{{ m.content }}" +
	"{% elif m.role == 'assistant' and meta %}<|assistant|>{{ meta }}\n{{ m.content }}{% elif m.role == 'observation' %}<|observation|>\n{{ m.content }}{% endif %}{% endfor %}" +
	"{% if add_generation_prompt %}<|assistant|>{% endif %}"

// TestGLM4 renders calls and results as GLM-4-0414's template wants them, and reads random calls
// back.
func TestGLM4(t *testing.T) {
	t.Parallel()
	tmpl := parse(glm4Template)
	require.NoError(t, tmpl.err)
	require.Equal(t, "GLM-4-0414", tmpl.ToolFormat().Name)
	chat := object(t, `{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "I look.", "tool_calls": [
		{"id": "1", "function": {"name": "write", "arguments": {"text": "a, b", "count": 2}}}, {"id": "2", "function": {"name": "stop_all", "arguments": {}}}]},
		{"role": "tool", "tool_call_id": "2", "content": "two"}, {"role": "tool", "tool_call_id": "1", "content": "one"}]}`)
	prompt, err := tmpl.Render(t.Context(), chat, writtenTools, time.Time{})
	require.NoError(t, err)
	require.Equal(t, "[gMASK]<sop><|system|>\n# 可用工具\n## write\n## stop_all<|user|>\nHi<|assistant|>\nI look.<|assistant|>write\n{\"text\": \"a, b\", \"count\": 2}<|observation|>\none"+
		"<|assistant|>stop_all\n{}<|observation|>\ntwo<|assistant|>", prompt)
	rapid.Check(t, func(t *rapid.T) {
		(&written{single: true}).check(t, tmpl, 1)
	})
}

// A tool needs neither a description nor parameters, whatever the template does with them.
func TestToolsWithoutDescription(t *testing.T) {
	t.Parallel()
	dir := needTemplates(t)
	for _, name := range []string{"GLM-4.6", "GLM-4.7-Flash", "Qwen3.5-4B", "Qwen-Qwen3-0.6B", "openai-gpt-oss-120b", "mistralai-Mistral-Nemo-Instruct-2407", "meta-llama-Llama-3.1-8B-Instruct", "google-gemma-4-31B-it"} {
		ask := ordered.NewObject()
		ask.Set("role", "user")
		ask.Set("content", "Write.")
		vars := ordered.NewObject()
		vars.Set("messages", []ordered.Value{ask})
		prompt, err := readTemplate(t, dir, name).Render(t.Context(), vars, []generation.Tool{{Name: "refresh_all"}}, time.Unix(0, 0))
		require.NoError(t, err, name)
		require.Contains(t, prompt, "refresh_all", name)
	}
}

// TestPythonCalls: one template of LFM2 renders calls, the other gets them in the texts of
// messages. A parser reads them back.
func TestPythonCalls(t *testing.T) {
	t.Parallel()
	rendering := "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if m.tool_calls is defined %}<|tool_call_start|>[" +
		"{% for c in m.tool_calls %}{{ c.function.name }}({% for k, v in c.function.arguments.items() %}{{ k }}=" +
		"{% if v is string %}'{{ v }}'{% elif v is mapping %}{{ v | tojson }}{% else %}{{ v }}{% endif %}{% if not loop.last %}, {% endif %}{% endfor %})" +
		"{% if not loop.last %}, {% endif %}{% endfor %}]<|tool_call_end|>{% endif %}{% endfor %}{% if tools %}{% endif %}"
	plain := "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if tools %}<|tool_list_start|>{{ tools | tojson }}{% endif %}"
	for name, c := range map[string]struct{ source, format, quote string }{
		"rendered": {rendering, "LFM2", "'"}, "as text": {plain, "LFM2, calls as text", `\'`},
	} {
		tmpl := parse(c.source)
		require.Equal(t, c.format, tmpl.ToolFormat().Name)
		chat := object(t, `{"messages": [{"role": "assistant", "content": "Yes.", "tool_calls": [{"id": "1", "function": {"name": "write",
			"arguments": {"text": "it's \"so\"", "count": 2, "on": true, "list": ["a", "b"], "owner": {"n": null}, "note": null}}},
			{"id": "2", "function": {"name": "stop_all", "arguments": {}}}]}]}`)
		prompt, err := tmpl.Render(t.Context(), chat, nil, time.Time{})
		require.NoError(t, err, name)
		require.Equal(t, "<assistant>Yes.<|tool_call_start|>[write(text='it"+c.quote+"s \"so\"', count=2, on=True, list=['a', 'b'], owner={\"n\": null}, note=None), stop_all()]<|tool_call_end|>", prompt, name)
		set := tools.NewSet(&generation.Request{Tools: writtenTools})
		out := tmpl.ToolFormat().NewParser(set, "", false, func(int) string { return "id" }).Next(strings.TrimPrefix(prompt, "<assistant>"), true)
		require.Equal(t, "Yes.", out.Text)
		require.Len(t, out.Calls, 2)
		require.JSONEq(t, `{"text": "it's \"so\"", "count": 2, "on": true, "list": ["a", "b"], "owner": {"n": null}, "note": null}`, out.Calls[0].Arguments)
		require.Equal(t, "stop_all", out.Calls[1].Name)
	}
}
