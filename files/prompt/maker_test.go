package prompt

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/openai"
)

// TestOneLine: a request is one line; what is no JSON, and what has no line end, stays as it is.
func TestOneLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{ \"a\" : 1 }": "{ \"a\" : 1 }", "{ \"a\" :\n 1 }": `{"a":1}`, "{ \"a\" :\r 1 }": `{"a":1}`, "{\n": "{\n", `{"a":"\n"}`: `{"a":"\n"}`,
	} {
		require.Equal(t, want, string(oneLine([]byte(text))))
	}
}

func TestPlaceholders(t *testing.T) {
	t.Parallel()
	for column, want := range map[string]string{
		"a": "{{.a}}", "_a9": "{{._a9}}", "azAZ09_": "{{.azAZ09_}}", "z": "{{.z}}", "Z": "{{.Z}}", "A": "{{.A}}", "9a": `{{index . "9a"}}`, "a b": `{{index . "a b"}}`,
		"a/": `{{index . "a/"}}`, "a:": `{{index . "a:"}}`, "a@": `{{index . "a@"}}`, "a[": `{{index . "a["}}`, "a`": "{{index . \"a`\"}}", "a{": `{{index . "a{"}}`, "é": `{{index . "é"}}`,
	} {
		require.Equal(t, want, placeholder(column), column)
	}
	require.EqualError(t, &UseError{}, "the input has no columns")
	require.ErrorContains(t, &UseError{Columns: []string{"id", "QUERY", "text"}}, "'Translate: {{.QUERY}}'")
	for _, name := range []string{"text", "question", "query", "input", "content", "sentence", "title"} {
		require.ErrorContains(t, &UseError{Columns: []string{"id", name, "text"}}, "'Translate: {{."+name+"}}'")
	}
	require.Equal(t, "id", likeliest([]string{"id", "text"}, []string{"the ID of"}), "the template mentions it")
	require.ErrorContains(t, &UseError{Columns: []string{"id", "other"}}, "'Translate: {{.other}}'")
	require.ErrorContains(t, &UseError{Columns: []string{"id", "uuid"}}, "'Translate: {{.id}}'")
}

// TestFormsOfRows: a row has a form of its own if the form of its answer is not the default.
func TestFormsOfRows(t *testing.T) {
	t.Parallel()
	fields := map[string]*openai.Field{}
	for _, f := range openai.Fields(openai.Chat) {
		fields[f.Name] = f
	}
	form := Default{fields["response_format"], []byte(`{"type":"json_object"}`)}
	length := Default{fields["max_tokens"], []byte("5")}
	for _, c := range []struct {
		line     string
		defaults []Default
		own      bool
	}{
		{`{"messages":[],"response_format":{"type":"json_object"}}`, []Default{length, form}, false},
		{`{"messages":[],"response_format":{"type":"text"},"max_tokens":5}`, []Default{length, form}, true},
		{`{"messages":[]}`, []Default{form}, true},
		{`{"messages":[],"response_format":{"type":"text"}}`, []Default{length}, false},
		{`{"messages":[]}`, nil, false},
	} {
		require.Equal(t, c.own, hasOwnForm([]byte(c.line), c.defaults), c.line)
	}
}

// TestBlankValues: null, and strings of spaces in any notation, have no text.
func TestBlankValues(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`""`: true, `"  "`: true, `"\t\n\u0020"`: true, `null`: true, ` null `: true, ` "" `: true, "\n\"\"": true, ``: true,
		`"a"`: false, `" a"`: false, `"\u0061"`: false, `0`: false, `[]`: false, `{}`: false, `" "x`: false, `"`: false, `false`: false,
	} {
		require.Equal(t, want, isBlank(json.RawMessage(text)), text)
	}
}

// TestNamesOfRequests: custom_id stands before id; long ones, empty ones and those that were seen
// are no names.
func TestNamesOfRequests(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", openai.MaxCustomID)
	m := &maker{names: rows.NewNames()}
	for _, c := range []struct{ record, want string }{
		{`{"id":"a","custom_id":"b"}`, "b"}, {`{"id":"a"}`, "a"}, {`{"id":"a"}`, ""}, {`{"custom_id":"a","id":"new"}`, ""}, {`{"id":5}`, "5"}, {`{"id":-1.5}`, "-1.5"},
		{`{"custom_id":"","id":"c"}`, "c"}, {`{"custom_id":null,"id":"d"}`, "d"}, {`{"custom_id":[1],"id":"e"}`, "e"}, {`{"custom_id":{},"id":"f"}`, "f"},
		{`{"custom_id":true,"id":"g"}`, "g"}, {`{"custom_id":false,"id":"h"}`, "h"}, {`{"custom_id":"` + long + `x","id":"i"}`, "i"}, {`{"id":"` + long + `"}`, long}, {`{"x":1}`, ""},
	} {
		require.Equal(t, c.want, m.id(table.Record{Number: 7, Fields: fieldsOf(t, c.record)}), "%.60s", c.record)
	}
	require.Empty(t, m.id(table.Record{Number: 20, Fields: fieldsOf(t, `{"id":"line-7"}`)}), "the name of an earlier record without one")
	require.Equal(t, "line-9", m.id(table.Record{Number: 21, Fields: fieldsOf(t, `{"id":"line-9"}`)}))
}

// TestRecordsWithoutARequest: each shape says what is wrong with a record.
func TestRecordsWithoutARequest(t *testing.T) {
	t.Parallel()
	system, user := &Template{}, &Template{}
	require.NoError(t, system.Add("system", "--system", "{{.lang}}"))
	require.NoError(t, user.Add("user", "--prompt", "{{.text}}"))
	for _, c := range []struct {
		o      Options
		record string
		want   string
	}{
		{Options{Shape: Prompt}, `{"prompt":5}`, `column "prompt" is not text`},
		{Options{Shape: Prompt}, `{"prompt":null}`, `column "prompt" has no value`},
		{Options{Shape: Prompt}, `{"prompt":""}`, ""},
		{Options{Shape: Messages}, `{"messages":"\\ud800"}`, `column "messages" is not a list`},
		{Options{Shape: Prompt}, `{"prompt":[1]}`, `column "prompt" is not text`},
		{Options{Shape: Completion}, `{"prompt":5}`, `column "prompt" is not text`},
		{Options{Shape: Messages}, `{"messages":[]}`, `column "messages" has an empty list`},
		{Options{Shape: Messages}, `{"messages":"x"}`, `column "messages" is not a list`},
		{Options{Shape: Messages}, `{"a":1}`, `column "messages" has no value`},
		{Options{Shape: Messages}, `{"messages":[{"role":"assistant","content":"a"}]}`, "the chat has no message with the role user"},
		{Options{Shape: Messages}, `{"messages":[5]}`, ""},
		{Options{Shape: Alpaca}, `{"input":"a"}`, `column "instruction" has no value`},
		{Options{Shape: Alpaca}, `{"instruction":"a","input":5}`, `column "input" is not text`},
		{Options{Shape: ShareGPT}, `{"conversations":[5]}`, `column "conversations": element 1 has no texts "from" and "value"`},
		{Options{Shape: ShareGPT}, `{"conversations":[{"from":"human","value":"a"},{"value":"a"}]}`, `element 2 has no texts "from" and "value"`},
		{Options{Shape: ShareGPT}, `{"conversations":[{"from":"Human"}]}`, `element 1 has no texts "from" and "value"`},
		{Options{Shape: ShareGPT}, `{"conversations":[{"from":"Human","value":""}]}`, ""},
		{Options{Template: user}, `{"text":"a"}`, ""},
		{Options{Template: user}, `{"text":"a","other":["\ud83d"]}`, `column "other" has half of a surrogate pair, which is no text`},
		{Options{Shape: Alpaca}, `{"instruction":"\udc00"}`, `column "instruction" has half of a surrogate pair, which is no text`},
		{Options{Template: user}, `{"text":"\ud83d\ude00"}`, ""},
		{Options{Template: user}, `{"lang":"a"}`, `the record has no column "text"`},
		{Options{Template: user, System: system}, `{"text":"a"}`, `the record has no column "lang"`},
		{Options{Shape: Requests, System: system}, `{"messages":[{"role":"user","content":"a"}]}`, `the record has no column "lang"`},
		{Options{Shape: Requests, System: system}, `{"messages":5,"lang":"de"}`, `"messages" is not a list`},
	} {
		m, notice, err := newMaker(c.o, true, nil, nil)
		require.NoError(t, err)
		require.Empty(t, notice)
		m.raw = c.o.Shape == Requests
		_, err = m.line(table.Record{Number: 1, Fields: fieldsOf(t, c.record)})
		if c.want == "" {
			require.NoError(t, err, c.record)
			continue
		}
		require.ErrorContains(t, err, c.want, c.record)
	}
}

// TestSystemMessages: a chat that begins with a message of the system or the developer keeps it.
func TestSystemMessages(t *testing.T) {
	t.Parallel()
	for messages, want := range map[string]string{
		`[{"role":"user"}]`:                   `[{"role":"system","content":"s"},{"role":"user"}]`,
		`[{"role":"system"},{"role":"user"}]`: `[{"role":"system"},{"role":"user"}]`,
		`[{"role":"developer"}]`:              `[{"role":"developer"}]`,
		`[{"role":"user"},{"role":"system"}]`: `[{"role":"system","content":"s"},{"role":"user"},{"role":"system"}]`,
		`[]`:                                  `[{"role":"system","content":"s"}]`,
		`["system"]`:                          `[{"role":"system","content":"s"},"system"]`,
	} {
		got, err := withSystem([]byte(messages), "s")
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	_, err := withSystem([]byte("5"), "s")
	require.EqualError(t, err, `"messages" is not a list`)
	for messages, want := range map[string]string{
		`[{"role":"user"}]`: `[{"role":"user"}]`, `[{"role":"user"},{"role":"assistant"},{"role":"assistant"}]`: `[{"role":"user"}]`,
		`[{"role":"assistant"},{"role":"user"}]`: `[{"role":"assistant"},{"role":"user"}]`,
	} {
		got, err := withoutAnswer([]byte(messages))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	_, err = withoutAnswer([]byte("5"))
	require.Error(t, err)
}

// TestGuessing: the columns and the first records decide how records become requests.
func TestGuessing(t *testing.T) {
	t.Parallel()
	record := func(text string) []table.Record { return []table.Record{{Fields: fieldsOf(t, text)}} }
	textColumn := []table.Column{{Name: table.TextColumn}}
	for _, c := range []struct {
		o          Options
		lines      bool
		columns    []table.Column
		sample     []table.Record
		raw, plain bool
		shape      Shape
	}{
		{Options{}, true, textColumn, record(`{"text":"a"}`), false, true, ""},
		{Options{}, false, nil, nil, true, false, ""},
		{Options{}, true, []table.Column{{Name: "prompt"}}, record(`{"prompt":"a"}`), false, false, Prompt},
		{Options{}, false, append(textColumn, table.Column{Name: "messages"}), record(`{"text":"a","messages":"b"}`), false, false, Messages},
		{Options{}, true, nil, record(`{"prompt":"a"}`), true, false, ""},
		{Options{}, true, nil, record(`{}`), true, false, ""},
		{Options{}, true, nil, record(`{"error":"x"}`), true, false, ""},
		{Options{}, true, nil, record(`{"body":{}}`), true, false, ""},
		{Options{}, true, nil, record(`{"conversations":[]}`), false, false, ShareGPT},
		{Options{}, true, nil, record(`{"instruction":"a","output":""}`), false, false, Alpaca},
		{Options{}, true, nil, record(`{"prompt":[ {}]}`), false, false, Prompt},
		{Options{Shape: Requests}, false, []table.Column{{Name: "a"}}, record(`{"a":1}`), true, false, Requests},
		{Options{Shape: Alpaca}, false, []table.Column{{Name: "a"}}, record(`{"a":1}`), false, false, Alpaca},
	} {
		m, _, err := newMaker(c.o, c.lines, c.columns, c.sample)
		require.NoError(t, err)
		require.Equal(t, c.raw, m.raw, "%+v", c)
		require.Equal(t, c.plain, m.plain, "%+v", c)
		name := Shape("")
		if m.shape != nil {
			name = m.shape.name
		}
		require.Equal(t, c.shape, name, "%+v", c)
	}
	for _, sample := range []string{`{"instruction":"a"}`, `{"a":1}`} {
		_, _, err := newMaker(Options{}, true, nil, record(sample))
		var use *UseError
		require.ErrorAs(t, err, &use)
	}
	_, _, err := newMaker(Options{}, false, textColumn, record(`{"text":"a"}`))
	require.ErrorContains(t, err, "a prompt is missing")
	wrong := &Template{}
	require.NoError(t, wrong.Add("system", "--system", "{{.wrong}}"))
	for _, o := range []Options{{System: wrong}, {Template: wrong}} {
		_, _, err := newMaker(o, true, nil, nil)
		require.NoError(t, err, "the columns are not known")
		_, _, err = newMaker(o, true, nil, record(`{"a":1}`))
		require.EqualError(t, err, `there is no column "wrong": the columns are "a"`)
		_, _, err = newMaker(o, true, textColumn, nil)
		require.EqualError(t, err, `there is no column "wrong": the columns are "text"`)
	}
}
