package prompt_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/prompt"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
)

// requests returns the rows that package rows reads from an input, as "id endpoint body" or "id
// error", and the notice about the guessed shape.
func requests(t *testing.T, name, text string, to table.Options, o prompt.Options) (list []string, notice string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	in, err := table.Open([]string{path}, to)
	require.NoError(t, err)
	o.Notice = func(s string) { notice += s }
	s := prompt.NewStream(in, o)
	defer func() { require.NoError(t, s.Close()) }()
	if err := s.Start(); err != nil {
		return nil, notice, err
	}
	format := rows.FormatJSONL
	if s.Text() {
		format = rows.FormatText
	}
	var whole []byte
	for range 2 { // the stream can be read twice
		if whole, err = io.ReadAll(iotest.OneByteReader(s)); err != nil {
			return nil, notice, err
		}
		at, err := s.Seek(0, io.SeekCurrent)
		require.NoError(t, err)
		require.Equal(t, int64(len(whole)), at)
		_, err = s.Seek(0, io.SeekStart)
		require.NoError(t, err)
	}
	r := rows.NewReader(s, rows.Options{Format: format})
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list, notice, nil
		}
		require.NoError(t, err)
		if row.Err != nil {
			list = append(list, strings.Join([]string{row.CustomID, row.Err.Code, row.Err.Message}, " "))
		} else {
			list = append(list, strings.Join([]string{row.CustomID, strings.TrimPrefix(string(row.Endpoint), "/v1/"), string(row.Body)}, " "))
		}
	}
}

func template(t *testing.T, role, text string) *prompt.Template {
	t.Helper()
	tmpl := &prompt.Template{}
	require.NoError(t, tmpl.Add(role, "--"+role, text))
	return tmpl
}

func TestShapes(t *testing.T) {
	t.Parallel()
	const chat = `chat/completions {"messages":`
	for _, c := range []struct {
		name, text string
		o          prompt.Options
		notice     string // the guessed shape
		want       string
	}{
		{"messages.json", `[{"messages":[{"role":"user","content":"a"}]},{"messages":[{"role":"user","content":"b"},{"role":"assistant","content":"c"}]}]`,
			prompt.Options{}, "", `line-1 ` + chat + `[{"role":"user","content":"a"}]}|line-2 ` + chat + `[{"role":"user","content":"b"},{"role":"assistant","content":"c"}]}`},
		{"messages.csv", "id,messages\n7,\"[{\"\"role\"\":\"\"user\"\",\"\"content\"\":\"\"b\"\"},{\"\"role\"\":\"\"assistant\"\",\"\"content\"\":\"\"c\"\"}]\"\n8,x\n9,\n",
			prompt.Options{}, "messages",
			`7 ` + chat + `[{"role":"user","content":"b"}]}|line-2 invalid_record column "messages" is not a list|line-3 invalid_record column "messages" is not a list`},
		{"sharegpt.jsonl", `{"id":"x","conversations":[{"from":"system","value":"s"},{"from":"human","value":"{{.a}}"},{"from":"gpt","value":"c"},{"from":"human","value":"d"},{"from":"gpt","value":"e"}]}` +
			"\n\n" + `{"id":"x","conversations":[{"from":"gpt","value":"c"}]}` + "\n" + `{"conversations":[{"from":"alien","value":"c"}]}` + "\n" + `{"conversations":[{"from":"human"}]}` + "\n" + `{"a":1}`,
			prompt.Options{}, "sharegpt",
			`x ` + chat + `[{"role":"system","content":"s"},{"role":"user","content":"{{.a}}"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}]}` +
				`|line-3 invalid_record the chat has no message with the role user|line-4 invalid_record column "conversations": element 1 is from "alien", which is not a known role` +
				`|line-5 invalid_record column "conversations": element 1 has no texts "from" and "value"|line-6 invalid_record column "conversations" has no value`},
		{"alpaca.json", `[{"instruction":"do","input":"","output":"x"},{"instruction":"do","input":"this","output":"x"},{"instruction":"do","input":null,"output":""}]`,
			prompt.Options{}, "alpaca",
			`line-1 ` + chat + `[{"role":"user","content":"do"}]}|line-2 ` + chat + `[{"role":"user","content":"do\n\nthis"}]}|line-3 ` + chat + `[{"role":"user","content":"do"}]}`},
		{"prompt.tsv", "prompt\tcompletion\na b\tc\n", prompt.Options{}, "prompt", `line-1 ` + chat + `[{"role":"user","content":"a b"}]}`},
		{"prompt.tsv", "prompt\tcompletion\na b\tc\n", prompt.Options{Shape: prompt.Completion}, "", `line-1 completions {"prompt":"a b"}`},
		{"prompt.jsonl", `{"prompt":"a b","completion":"c"}`, prompt.Options{}, "", `line-1 unknown_field "completion" is unknown: remove it (--unknown-fields ignore accepts unknown fields)`},
		{"prompt.jsonl", `{"prompt":[{"role":"user","content":"a"}]}`, prompt.Options{}, "prompt", `line-1 ` + chat + `[{"role":"user","content":"a"}]}`},
		{"prompt.jsonl", `{"prompt":"a b","completion":"c"}`, prompt.Options{Shape: prompt.Prompt}, "", `line-1 ` + chat + `[{"role":"user","content":"a b"}]}`},
		{"settings.jsonl", `{"prompt":"a","max_tokens":5,"stop":null,"id":"x","completion":"c","seed":3,"echo":true}` + "\n" +
			`{"custom_id":"y","body":{"prompt":[{"role":"user","content":"b"}],"temperature":0}}` + "\n" + `{"body":{"prompt":"c"},"prompt":"d"}` + "\n" + `{"body":[1],"prompt":null}`,
			prompt.Options{Shape: prompt.Prompt}, "", `x ` + chat + `[{"role":"user","content":"a"}],"max_tokens":5,"seed":3}|y ` + chat + `[{"role":"user","content":"b"}],"temperature":0}` +
				`|line-3 ` + chat + `[{"role":"user","content":"d"}]}|line-4 invalid_record column "prompt" has no value`},
		{"text.txt", "a\nb\n", prompt.Options{Shape: prompt.Completion}, "", `line-1 completions {"prompt":"a"}|line-2 completions {"prompt":"b"}`},
		{"text.txt", "\xff\n", prompt.Options{}, "", `line-1 invalid_text the row is not UTF-8 at byte 1`},
		{"text.txt", "a\n\n{b\n", prompt.Options{}, "", `line-1 ` + chat + `[{"role":"user","content":"a"}]}|line-3 ` + chat + `[{"role":"user","content":"{b"}]}`},
		{"text.txt", "a\n\xff\n", prompt.Options{System: template(t, "system", "s")}, "",
			`line-1 ` + chat + `[{"role":"system","content":"s"},{"role":"user","content":"a"}]}|line-2 invalid_record the record is not UTF-8`},
		{"text.txt", "a\n", prompt.Options{Template: template(t, "user", "<{{.text}}>")}, "", `line-1 ` + chat + `[{"role":"user","content":"<a>"}],"no_special_in_content":true}`},
		{"text.txt", "a\n", prompt.Options{Template: template(t, "user", "<{{.text}}>"), Shape: prompt.Completion}, "", `line-1 completions {"prompt":"<a>"}`},
		{"prefill.csv", "t\na\n", prompt.Options{Template: template(t, "assistant", "{{.t}}")}, "",
			`line-1 ` + chat + `[{"role":"assistant","content":"a"}],"continue_final_message":true}`},
		{"mixed.jsonl", `{"custom_id":"a","body":{"messages":[{"role":"user","content":"a"}]}}` + "\n" + `{"prompt":"b"}` + "\n" + `{"messages":[{"role":"developer","content":"c"}]}` + "\n{",
			prompt.Options{System: template(t, "system", "s")}, "",
			`a ` + chat + `[{"role":"system","content":"s"},{"role":"user","content":"a"}]}|line-2 invalid_record a completion has no system message: leave out --system` +
				`|line-3 ` + chat + `[{"role":"developer","content":"c"}]}|line-4 invalid_json is not valid JSON at byte 2: the text ends where a key is expected`},
		{"error.jsonl", `{"custom_id":"a","error":{"code":"c","message":"m"}}` + "\n" + `{"error":"x"}` + "\n" + `{"error":{}}`, prompt.Options{}, "",
			`a c m|line-2 invalid_type "error" must be an object, not a string|line-3 invalid_type "error" must be an object with a "code" and a "message"`},
		{"id.csv", "id,t\n1,a\n1,b\n,c\nline-5,d\n2,e\n", prompt.Options{Template: template(t, "user", "{{.t}}")}, "",
			`1 ` + chat + `[{"role":"user","content":"a"}]}|line-2 ` + chat + `[{"role":"user","content":"b"}]}|line-3 ` + chat + `[{"role":"user","content":"c"}]}` +
				`|line-5 ` + chat + `[{"role":"user","content":"d"}]}|2 ` + chat + `[{"role":"user","content":"e"}]}`},
		{"nothing.csv", "t\n", prompt.Options{Template: template(t, "user", "{{.t}}")}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, notice, err := requests(t, c.name, c.text, table.Options{}, c.o)
			require.NoError(t, err)
			require.Equal(t, strings.ReplaceAll(c.want, "|", "\n"), strings.Join(got, "\n"))
			if c.notice == "" {
				require.Empty(t, notice)
			} else {
				require.Regexp(t, `^rows have the shape `+c.notice+` \(.*\); --shape or --prompt overrides this$`, notice)
			}
		})
	}
}

// TestALastAnswerIsContinuedOnRequest: an assistant's message at the end of a chat is continued
// with continue_final_message, and left out otherwise.
func TestALastAnswerIsContinuedOnRequest(t *testing.T) {
	t.Parallel()
	var defaults []prompt.Default
	for _, s := range prompt.Settings {
		if s.Name == "continue_final_message" {
			defaults = append(defaults, prompt.Default{Setting: s, Value: []byte("true")})
		}
	}
	const text = `[{"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]}]`
	got, _, err := requests(t, "a.json", text, table.Options{}, prompt.Options{Defaults: defaults})
	require.NoError(t, err)
	require.Equal(t, []string{`line-1 chat/completions {"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"continue_final_message":true}`}, got)
}

func TestTablesWithoutAPrompt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"a.csv", "id,Question\n1,a\n", `the columns are "id", "Question", but a prompt is missing: give --prompt, such as --prompt 'Translate: {{.Question}}'`},
		{"a.csv", "My text\n1\n", `such as --prompt 'Translate: {{index . "My text"}}'`},
		{"a.jsonl", "{\"review\":\"a\"}\n", `such as --prompt 'Translate: {{.review}}'`},
		{"a.json", `[{"review":"a"}]`, `such as --prompt 'Translate: {{.review}}'`},
	} {
		_, _, err := requests(t, c.name, c.text, table.Options{}, prompt.Options{})
		var use *prompt.UseError
		require.ErrorAs(t, err, &use)
		require.ErrorContains(t, err, c.want)
	}
}

// TestSelectedLinesStayAsTheyAre: selected lines keep their numbers and checksums, so that a run of
// all rows can continue a run of some.
func TestSelectedLinesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	const text = `{"prompt": "a",  "id":"x"}` + "\n\n" + `{"prompt":"b"}` + "\nbroken\n" + `{"prompt":"c"}` + "\n"
	sums := func(s table.Selection) map[int]string {
		path := filepath.Join(t.TempDir(), "in.jsonl")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		in, err := table.Open([]string{path}, table.Options{Select: s})
		require.NoError(t, err)
		list := map[int]string{}
		stream := prompt.NewStream(in, prompt.Options{})
		defer stream.Close()
		r := rows.NewReader(stream, rows.Options{})
		for {
			row, err := r.Next()
			if errors.Is(err, io.EOF) {
				return list
			}
			require.NoError(t, err)
			list[row.Line] = row.Sum
		}
	}
	all := sums(table.Selection{})
	require.Len(t, all, 4)
	some := sums(table.Selection{Where: `prompt != "b"`, Skip: 1})
	require.Equal(t, map[int]string{4: all[4], 5: all[5]}, some)
}
