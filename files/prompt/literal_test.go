package prompt

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/openai"
)

// TestLiteralColumns: texts of control tokens in columns are ordinary text. Those that the template
// of a completion writes itself are not, nor those of requests.
func TestLiteralColumns(t *testing.T) {
	t.Parallel()
	const row = `{"a":"<|x|>","b":"é[y]","c":"plain","prompt":"<s>"}`
	for _, c := range []struct {
		template, system string
		shape            Shape
		row, want        string
	}{
		{"{{.c}}", "", Auto, row, `{"messages":[{"role":"user","content":"plain"}]}`},
		{"{{.a}}", "", Auto, row, `{"messages":[{"role":"user","content":"<|x|>"}],"no_special_in_content":true}`},
		{"{{.c}}", "{{.b}}", Auto, row, `{"messages":[{"role":"system","content":"é[y]"},{"role":"user","content":"plain"}],"no_special_in_content":true}`},
		{"", "", Prompt, row, `{"messages":[{"role":"user","content":"<s>"}],"no_special_in_content":true}`},
		{"", "", Prompt, `{"prompt":"<s>","no_special_in_content":false}`, `{"messages":[{"role":"user","content":"<s>"}],"no_special_in_content":true}`},
		{"", "", Messages, `{"messages":[{"role":"user","content":"\u003cs>"}]}`, `{"messages":[{"role":"user","content":"\u003cs>"}],"no_special_in_content":true}`},
		{"", "", Completion, row, `{"prompt":"<s>"}`},
		{"<s>é{{.c}}", "", Completion, row, `{"prompt":"<s>éplain"}`},
		{"<s>é{{.a}}</s>{{$x := .b}}{{if .c}}{{.b | trim}}{{end}}{{with .a}}{{.}}{{end}}", "", Completion, row,
			`{"prompt":"<s>é<|x|></s>é[y]<|x|>","literal_ranges":[[5,10],[14,19],[19,24]]}`},
		{"<s>{{range .l}}{{.}}{{end}}{{if .n}}x{{else}}{{.a}}{{end}}", "", Completion, `{"a":"<|x|>","l":["<|y|>"],"n":""}`,
			`{"prompt":"<s><|y|><|x|>","literal_ranges":[[3,8],[8,13]]}`},
		{"{{define \"t\"}}<s>{{.a}}{{end}}{{template \"t\" .}}", "", Completion, row, `{"prompt":"<s><|x|>","literal_ranges":[[3,8]]}`},
	} {
		o := Options{Shape: c.shape}
		if c.template != "" {
			o.Template = &Template{}
			require.NoError(t, o.Template.Add("user", "--prompt", c.template))
		}
		if c.system != "" {
			o.System = &Template{}
			require.NoError(t, o.System.Add("system", "--system", c.system))
		}
		line := func() json.RawMessage {
			record := table.Record{Fields: fieldsOf(t, c.row)}
			m, _, err := newMaker(o, false, nil, []table.Record{record})
			require.NoError(t, err)
			text, err := m.line(record)
			require.NoError(t, err)
			checked, err := openai.ParseInputLine(text)
			require.NoError(t, err)
			request, err := openai.ParseRequest(checked.Endpoint, checked.Body)
			require.NoError(t, err)
			require.NoError(t, request.CheckUnknown())
			return value(fieldsOf(t, string(text)), "body")
		}
		require.JSONEq(t, c.want, string(line()), "%s %s", c.template, c.shape)
		i := slices.IndexFunc(Settings, func(f *openai.Field) bool { return f.Name == literalField })
		o.Defaults = []Default{{Settings[i], json.RawMessage("false")}}
		var without map[string]any
		require.NoError(t, json.Unmarshal([]byte(c.want), &without))
		delete(without, literalRangesField)
		without[literalField] = false
		want, err := json.Marshal(without)
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(line()), "turned off")
	}
}
