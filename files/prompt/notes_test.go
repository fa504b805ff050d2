package prompt_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/prompt"
	"github.com/ingot-run/ingot/files/table"
)

// TestWarningsOfTemplates: a template without columns, and cells without text, are reported once,
// the cells when all records were read. An input that is read again has been warned of already.
func TestWarningsOfTemplates(t *testing.T) {
	t.Parallel()
	const empty = "; their prompts lack this text (--where '"
	constant := `the template names no column, so all rows have the same prompt: write {{.text}} to insert a column (the columns are "text", "lang")`
	for name, c := range map[string]struct {
		user, system string
		rows         string
		want         string
	}{
		"all cells have text":            {"{{.text}}", "", "a,b\nc,d\n", ""},
		"one cell":                       {"{{.text}}", "", "a,b\n,d\n", `: "text" is empty in 1 of 2 rows` + empty + `text != ""' leaves such rows out)`},
		"a cell that no template uses":   {"{{.text}}", "", "a,\nb,\n", ""},
		"white space":                    {"{{.text}}", "", "\" \",b\n\"\t\n\",d\nx,y\n", `: "text" is empty in 2 of 3 rows` + empty + `text != ""' leaves such rows out)`},
		"a text that begins with spaces": {"{{.text}}", "", "\"  a\",b\n\"\na\",d\n", ""},
		"two columns":                    {"{{.text}} {{.lang}}", "", "a,\n,\nb,c\n", `: "lang" is empty in 2 of 3 rows, "text" is empty in 1 of 3 rows` + empty + `lang != ""' leaves such rows out)`},
		"a column of the system message": {"{{.text}}", "{{.lang}}", "a,\n", `: "lang" is empty in 1 of 1 rows` + empty + `lang != ""' leaves such rows out)`},
		"no column":                      {"Hello", "", "a,b\n,\n", constant},
		"no column, with a system":       {"Hello", "Be kind", "a,b\n", constant},
		"a column in the system":         {"Hello", "{{.lang}}", "a,b\n", ""},
		"the whole record":               {"{{json .}}", "", "a,b\n", ""},
		"the whole record in the system": {"Hello", "{{json .}}", "a,b\n", ""},
		"no rows":                        {"Hello", "", "", ""},
		"a word that is a column":        {"Which Lang is this?", "", "a,b\n", strings.Replace(constant, "{{.text}}", "{{.lang}}", 1)},
		"a column in single braces":      {"{{.text}} in { lang }", "", "a,b\n", "the template has {lang} as plain text: write {{.lang}} to insert the column"},
		"braces with no column":          {"{{.text}} in {\"lang\": 1} or {x}", "", "a,b\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var warnings []string
			o := prompt.Options{Shape: prompt.Auto, Template: template(t, "user", c.user), Warn: func(s string) { warnings = append(warnings, s) }}
			if c.system != "" {
				o.System = template(t, "system", c.system)
			}
			path := put(t, "a.csv", "text,lang\n"+c.rows)
			in, err := prompt.Open([]string{path}, table.Options{}, o)
			require.NoError(t, err)
			for range 2 {
				_, err = io.Copy(io.Discard, in)
				require.NoError(t, err)
				_, err = in.Seek(0, io.SeekStart)
				require.NoError(t, err)
			}
			require.NoError(t, in.Close())
			switch {
			case c.want == "":
				require.Empty(t, warnings)
			case strings.HasPrefix(c.want, ":"):
				require.Equal(t, []string{path + c.want}, warnings)
			default:
				require.Equal(t, []string{c.want}, warnings)
			}
		})
	}
	lines := prompt.Options{Shape: prompt.Auto, System: template(t, "system", "{{.lang}}")}
	warning := ""
	lines.Warn = func(s string) { warning += s }
	in, err := prompt.Open([]string{put(t, "a.jsonl", `{"lang":null,"prompt":"a"}`+"\n"+`{"lang":5,"prompt":"a"}`+"\n"+`{"lang":"de","prompt":"a"}`)}, table.Options{}, lines)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, in)
	require.NoError(t, err)
	require.Contains(t, warning, `: "lang" is empty in 1 of 3 rows`)

	none := prompt.Options{Shape: prompt.Auto, Template: template(t, "user", "Hello"), Warn: func(s string) { require.Fail(t, "there is no column to insert", s) }}
	in, err = prompt.Open([]string{put(t, "a.jsonl", "{}\n{}\n")}, table.Options{}, none)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, in)
	require.NoError(t, err)
}

// TestInputsWithoutRows: the reason is the selection, if there is one.
func TestInputsWithoutRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		s    table.Selection
		want string // after the path; empty if there are rows
	}{
		{"prompt\n", table.Selection{}, " has no rows"},
		{"prompt\na\n", table.Selection{}, ""},
		{"prompt\na\nb\n", table.Selection{Skip: 1}, ""},
		{"prompt\na\nb\n", table.Selection{Skip: 2}, " has no more than 2 rows, which --skip leaves out"},
		{"prompt\na\n", table.Selection{Where: `prompt == "b"`}, ` satisfies --where 'prompt == "b"': check the spelling of values, and that numbers of CSV files are converted, such as int(x)`},
		{"prompt\na\n", table.Selection{Where: `prompt == "a"`}, ""},
		{"prompt\na\n", table.Selection{Where: `prompt == "a"`, Skip: 1}, ` satisfies --where 'prompt == "a"': `},
	} {
		path := put(t, "a.csv", c.text)
		in, err := prompt.Open([]string{path}, table.Options{Select: c.s}, prompt.Options{Shape: prompt.Auto})
		require.NoError(t, err)
		if c.want == "" {
			require.Empty(t, in.NoRows())
		} else {
			require.Contains(t, in.NoRows(), path+c.want)
			require.Equal(t, c.s.Where != "", strings.HasPrefix(in.NoRows(), "no row of "+path))
		}
		require.NoError(t, in.Close())
	}
}

// TestPipes: the first record of a pipe is too little to guess a shape from, unless the columns are
// known; requests are read as they come.
func TestPipes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text   string
		format table.Format
		want   string
		err    string
	}{
		{"{\"a\":1}\n{\"prompt\":\"b\"}\n", table.Lines, "{\"a\":1}\n{\"prompt\":\"b\"}\n", ""},
		{"{\"conversations\":[{\"from\":\"user\",\"value\":\"b\"}]}\n", table.Lines, `{"body":{"messages":[{"role":"user","content":"b"}]}}` + "\n", ""},
		{"a,b\n1,2\n", table.CSV, "", `read stdin: the columns are "a", "b", but a prompt is missing`},
		{"", table.Lines, "", ""},
	} {
		in, err := prompt.Open([]string{"-"}, table.Options{Format: c.format, Stdin: strings.NewReader(c.text)}, prompt.Options{Shape: prompt.Auto})
		require.NoError(t, err)
		got, err := io.ReadAll(in)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, string(got))
		require.Empty(t, in.NoRows(), "it is not known before the end")
	}
}

// TestSeedsOfRows: each row has its own seed, which its number and the run's seed decide.
func TestSeedsOfRows(t *testing.T) {
	t.Parallel()
	// First 53 bits of the SHA-256 of "7:1", as sha256sum computes it.
	require.Equal(t, int64(7586741312996310), prompt.RowSeed("7", 1))
	require.NotEqual(t, prompt.RowSeed("7", 1), prompt.RowSeed("7", 2))
	require.NotEqual(t, prompt.RowSeed("71", 1), prompt.RowSeed("7", 11))
	got, _, err := requests(t, "a.csv", "prompt\na\nb\n", table.Options{}, prompt.Options{Defaults: []prompt.Default{setting(t, "seed", "7"), setting(t, "max_tokens", "7")}})
	require.NoError(t, err)
	for i, line := range got {
		require.Contains(t, line, fmt.Sprintf(`"seed":%d,"max_tokens":7}`, prompt.RowSeed("7", i+1)))
	}
}

// TestSingleBracesAreRefused: a template in which columns stand in single braces, as in Python, and
// none in double ones, is refused before anything is answered.
func TestSingleBracesAreRefused(t *testing.T) {
	t.Parallel()
	path := put(t, "a.csv", "id,text,two words\n1,a,b\n")
	for user, want := range map[string]string{
		"{text}":            "{text} is plain text: write {{.text}}",
		"Say { two words }": `{two words} is plain text: write {{index . "two words"}}`,
		"{other} {text}":    "{text} is plain text: write {{.text}}",
		"{other}":           "",
		`{{"{text}"}}`:      "",
	} {
		_, err := prompt.Open([]string{path}, table.Options{}, prompt.Options{Template: template(t, "user", user)})
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, "read "+path+": the template names no column, since "+want)
	}
}
