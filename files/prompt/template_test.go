package prompt

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/openai"
)

func fieldsOf(t *testing.T, object string) []table.Field {
	t.Helper()
	fields, err := table.Fields([]byte(object))
	require.NoError(t, err)
	return fields
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	const row = `{"text":"5 < 6 & {{.lang}} \"é\"\n","lang":"de","n":9007199254740993,"share":0.1,"large":1e300,"flag":true,"none":null,
		"list":[1,"a",null,{"k":2.5}],"object":{"b":[1],"a":null},"First Name":"Ada","empty":"","u":18446744073709551615,"v":123456789012345678901234567890,"w":[1,18446744073709551616],
		"huge":-1.5e400,"hugelist":[1e999],"odd":["%!d(x)"]}`
	for _, c := range []struct{ template, want string }{
		{"{{.text}}", "5 < 6 & {{.lang}} \"é\"\n"},
		{"{{.n}} {{.share}} {{.large}} {{.flag}}", "9007199254740993 0.1 1e+300 true"},
		{"<{{.none}}>{{if .none}}x{{end}}{{if eq .none \"\"}}y{{end}}", "<>y"},
		{"{{.list}} {{.object}}", `[1,"a",null,{"k":2.5}] {"a":null,"b":[1]}`},
		{"{{range .list}}[{{.}}]{{end}}", `[1][a][][{"k":2.5}]`},
		{"{{range $i, $e := .list}}{{$i}}{{$.lang}} {{end}}", "0de 1de 2de 3de "},
		{"{{index . \"First Name\"}} {{(index .list 3).k}} {{index .object \"b\" 0}}", "Ada 2.5 1"},
		{"{{json .text}}{{with .object}}{{.b}}{{end}}", `"5 < 6 & {{.lang}} \"é\"\n"[1]`},
		{"{{if gt .n 5}}{{if lt .share 0.2}}{{printf \"%.2f\" .share}}{{end}}{{end}}{{trim \" a \"}}{{with .empty}}x{{else}}{{.lang}}{{end}}", "0.10ade"},
		{"{{json .none}} {{json .}}", `null {"none":null,"u":18446744073709551615,"v":123456789012345678901234567890}`},
		{"{{.u}} {{json .u}} {{.v}} {{json .v}} {{.w}}{{if gt .u 5}}x{{end}}", "18446744073709551615 18446744073709551615 " +
			"123456789012345678901234567890 123456789012345678901234567890 [1,18446744073709551616]x"},
		{"{{.huge}} {{json .huge}} {{.hugelist}}", "-1.5e400 -1.5e400 [1e999]"},
		{"{{printf \"%d%%! %s %s %v %5.1f\" .n \"%!d(x)\" .list .none .share}}", "9007199254740993%! %!d(x) [1,\"a\",null,{\"k\":2.5}]    0.1"},
		{"{{printf \"%s %v\" (index .list 1) .odd}}", `a ["%!d(x)"]`},
		{"[{{trim .none}}{{len .none}}{{printf \"%s\" .none}}]", "[0]"},
		{"no column", "no column"},
		{"{{replace \"d\" \"D\" .lang}} {{.lang | upper}} {{lower \"AB\"}} {{replace \"e\" \"\" \"eel\"}} {{replace \"x\" \"y\" .none}}.", "De DE ab l ."},
		{"{{truncate 0 .lang}}|{{truncate 1 .lang}}|{{truncate 2 .lang}}|{{truncate 9 .lang}}|{{truncate 1 \"éa\"}}|{{truncate 1 .none}}", "|d|de|de|é|"},
		{"{{default \"x\" .none}} {{default \"x\" .empty}} {{default \"x\" .lang}} {{.n | default 5}} {{default 5 .none}} {{default \"x\" (index .list 2)}}", "x x de 9007199254740993 5 x"},
		{"{{define \"a\"}}<{{.}}>{{end}}{{template \"a\" .lang}}{{index .list 0}} {{index .list (len .none)}} {{index .w (index .w 0)}}", "<de>1 1 18446744073709551616"},
	} {
		row := row
		if strings.Contains(c.template, "{{json .}}") {
			row = `{"none":null,"u":18446744073709551615,"v":123456789012345678901234567890}`
		}
		tmpl := &Template{}
		require.NoError(t, tmpl.Add("user", "--prompt", c.template), c.template)
		got, err := tmpl.render(table.Record{Fields: fieldsOf(t, row)})
		require.NoError(t, err, c.template)
		require.Len(t, got, 1)
		require.Equal(t, "user", got[0].Role)
		require.Equal(t, c.want, got[0].Content, c.template)
	}
}

// TestTemplatesNameColumns: Check refuses a template that names a missing column anywhere.
func TestTemplatesNameColumns(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"{{.wrong}}", "{{.wrong.inner}}", "{{if .wrong}}{{end}}", "{{if .text}}{{.wrong}}{{end}}", "{{range .text}}{{$.wrong}}{{end}}",
		"{{with .text}}{{else}}{{.wrong}}{{end}}", "{{index . \"wrong\"}}", "{{index $ \"wrong\"}}", "{{printf \"%s\" .wrong}}", "{{(.wrong).x}}",
		"{{json (index .wrong 0)}}", "{{index . \"wrong\" .text}}", "{{index . \"text\" .wrong}}", "{{define \"a\"}}{{end}}{{template \"a\" .wrong}}", "{{if .text}}{{else}}{{.wrong}}{{end}}", "{{$x := .wrong}}{{$x}}", "{{.text | printf .wrong}}",
	} {
		tmpl := &Template{}
		require.NoError(t, tmpl.Add("user", "--prompt", text), text)
		require.EqualError(t, tmpl.Check([]string{"text", "lang"}), `there is no column "wrong": the columns are "text", "lang"`, text)
		require.NoError(t, tmpl.Check([]string{"text", "wrong"}), text)
		_, err := tmpl.render(table.Record{Fields: fieldsOf(t, `{"text":"a"}`)})
		require.EqualError(t, err, `the record has no column "wrong"`, text)
	}
	for _, text := range []string{"{{range .text}}{{.inner}}{{end}}", "{{with .text}}{{.inner}}{{end}}", "{{.}}", "{{index .}}", "{{.text.inner}}", "{{define \"a\"}}b{{end}}{{template \"a\"}}"} {
		tmpl := &Template{}
		require.NoError(t, tmpl.Add("user", "--prompt", text), text)
		require.NoError(t, tmpl.Check([]string{"text"}), text)
	}
}

// TestTemplatesReadTheirColumns: a column that a template does not use need not be readable.
func TestTemplatesReadTheirColumns(t *testing.T) {
	t.Parallel()
	record := table.Record{Fields: []table.Field{{Name: "text", Value: json.RawMessage(`"a"`)}, {Name: "other", Value: json.RawMessage("{")}}}
	for text, whole := range map[string]bool{
		"{{.text}}": false, "{{$x := .text}}{{$x}}": false, "{{$.text}}": false, `{{index . "text"}}`: false, `{{index $ "text" | trim}}`: false, `{{index . .text}}`: true, "{{range $i, $e := .text}}{{end}}{{.text}}": false,
		"{{.}}": true, "{{$}}": true, "{{with .text}}{{$}}{{end}}": true, "{{json .}}": true,
	} {
		tmpl := &Template{}
		require.NoError(t, tmpl.Add("user", "--prompt", text))
		_, err := tmpl.render(record)
		if whole {
			require.ErrorContains(t, err, `column "other": `, text)
		} else if err != nil {
			require.NotContains(t, err.Error(), "other", text)
		}
	}
}

func TestTemplateErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a {{.b":           `"{{" is not closed: write "}}" behind the column's name`,
		"a {{.b} c":        `"}" stands where "}}" is expected`,
		"{{if .b}}c":       "{{if}}, {{range}} or {{with}} is not closed: write {{end}}",
		"{{}}":             "{{}} is empty: write a column, such as {{.text}}",
		"{{.b \"c}}":       "a quote is not closed",
		"{{(.b}}":          "a parenthesis is not closed",
		"{{.b)}}":          "a parenthesis is closed that was not opened",
		"{{.first name}}":  `function "name" not defined: write {{index . "first name"}} for a column with a space in its name`,
		"{{ first name }}": `function "first" not defined: write {{index . "first name"}} for a column with a space in its name`,
	} {
		require.EqualError(t, (&Template{}).Add("user", "--prompt", text), "--prompt:1: "+want)
	}
	require.ErrorContains(t, (&Template{}).Add("user", "--prompt", "{{nothing .b}}"), `function "nothing" not defined`)
	require.ErrorContains(t, (&Template{}).Add("user", "--prompt", "{{.a-b}}"), `write {{index . "NAME"}} for a column whose name has other characters than letters, digits and _`)
	require.EqualError(t, (&Template{}).Add("user", "--prompt", "{{text}}"),
		`--prompt:1: function "text" not defined: if it is a column, write {{.text}}; the functions are default, index, json, lower, printf, replace, trim, truncate, upper`)
	require.ErrorContains(t, (&Template{}).AddFile("t.txt", "--- user\n{{"), "t.txt:1: ")
	require.ErrorContains(t, (&Template{}).AddFile("t.txt", "{{"), "t.txt:1: ")
	long := &Template{}
	require.NoError(t, long.Add("user", "--prompt", "{{.text}}{{.text}}"))
	for size, fits := range map[int]bool{openai.MaxBody / 2: true, openai.MaxBody/2 + 1: false} {
		_, err := long.render(table.Record{Fields: []table.Field{{Name: "text", Value: []byte(`"` + strings.Repeat("x", size) + `"`)}}})
		if fits {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "the prompt is longer than 16 MiB")
		}
	}
	for text, want := range map[string]string{
		"{{.text.inner}}":                 `--prompt:1:7: .text.inner: the value has no field "inner"`,
		"{{.object.inner}}":               `--prompt:1:9: .object.inner: there is no key "inner"`,
		"{{index .object \"c\"}}":         `there is no key "c": the keys are "a"`,
		"{{index .list 2}}":               "there is no element 2: the list has 1 elements",
		"{{index .list 1}}":               "there is no element 1: the list has 1 elements",
		"{{index .list -1}}":              "there is no element -1: the list has 1 elements",
		"{{index .list .text}}":           "a list is indexed by a number, not by a",
		"{{index .text 0}}":               "a has no elements",
		"{{index .list 0 0}}":             "1 has no elements",
		"{{printf \"%.2f\" .text}}":       `printf: the values do not fit "%.2f", since it gives "%!f(string=)" (values in CSV are texts, for %s)`,
		"{{printf \"%s\" .text .text}}":   `"%!(EXTRA string=)"`,
		"{{truncate -1 .text}}":           "truncate: -1 is negative",
		"{{truncate 1 .list}}":            "[1] is not a text",
		"{{replace \"\" \"x\" .text}}":    "replace: the text to replace is empty",
		"{{replace \"a\" \"x\" .object}}": `{"a":1} is not a text`,
		"{{upper .list}}":                 "[1] is not a text",
	} {
		tmpl := &Template{}
		require.NoError(t, tmpl.Add("user", "--prompt", text))
		_, err := tmpl.render(table.Record{Fields: fieldsOf(t, `{"text":"a","object":{"a":1},"list":[1]}`)})
		require.ErrorContains(t, err, want)
	}
}

func TestTemplateFile(t *testing.T) {
	t.Parallel()
	row := table.Record{Fields: fieldsOf(t, `{"text":"a\n--- system\nb","lang":"de"}`)}
	for _, c := range []struct {
		text string
		want []chatMessage
	}{
		{"Translate:\n{{.text}}\n", []chatMessage{{Role: "user", Content: "Translate:\na\n--- system\nb"}}},
		{"--- system\r\nTo {{.lang}}.\r\n--- user\r\n\r\n{{.text}}\r\n--- assistant\r\nHere:",
			[]chatMessage{{Role: "system", Content: "To de."}, {Role: "user", Content: "\na\n--- system\nb"}, {Role: "assistant", Content: "Here:"}}},
		{"--- user \t\na ---\n---\n--- user\n", []chatMessage{{Role: "user", Content: "a ---\n---"}, {Role: "user", Content: ""}}},
	} {
		tmpl := &Template{}
		require.NoError(t, tmpl.AddFile("t.txt", c.text))
		got, err := tmpl.render(row)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	require.EqualError(t, (&Template{}).AddFile("t.txt", "--- tool\na"), `t.txt: role "tool" is not known: use system, user, assistant`)
	require.EqualError(t, (&Template{}).AddFile("t.txt", "a\n--- user\nb"), `t.txt: the file begins with text that has no role: put a line such as "--- user" before it`)
}

// TestDefaultsOfRows: a default fills a field that is absent or null under all its names, if the
// endpoint has the field.
func TestDefaultsOfRows(t *testing.T) {
	t.Parallel()
	setting := func(field string) *openai.Field {
		for i := range Settings {
			if Settings[i].Name == field {
				return Settings[i]
			}
		}
		t.Fatal(field)
		return nil
	}
	defaults := []Default{
		{setting("max_tokens"), json.RawMessage("5")}, {setting("stop"), json.RawMessage(`["a"]`)}, {setting("enable_thinking"), json.RawMessage("false")},
	}
	for body, want := range map[string]string{
		`{"prompt":"x"}`:                                                  `{"prompt":"x","max_tokens":5,"stop":["a"]}`,
		`{"prompt":"x","max_tokens":null}`:                                `{"prompt":"x","max_tokens":null,"max_tokens":5,"stop":["a"]}`,
		`{"prompt":"x","n_predict":1,"stop":[]}`:                          `{"prompt":"x","n_predict":1,"stop":[]}`,
		`{"custom_id":"a","body":{"messages":[1]}}`:                       `{"custom_id":"a","body":{"messages":[1],"max_tokens":5,"stop":["a"],"enable_thinking":false}}`,
		`{"messages":[],"max_completion_tokens":9}`:                       `{"messages":[],"max_completion_tokens":9,"stop":["a"],"enable_thinking":false}`,
		`{"messages":[],"chat_template_kwargs":{"enable_thinking":true}}`: `{"messages":[],"chat_template_kwargs":{"enable_thinking":true},"max_tokens":5,"stop":["a"]}`,
		`{"neither":1}`:                                                   `{"neither":1}`,
	} {
		m := &maker{o: Options{Defaults: defaults}, raw: true}
		got, err := m.line(table.Record{Fields: fieldsOf(t, body)})
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}
