package prompt_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/prompt"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/internal/openfiles"
	"github.com/ingot-run/ingot/openai"
)

func put(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func setting(t *testing.T, name, value string) prompt.Default {
	t.Helper()
	for _, s := range prompt.Settings {
		if s.Name == name {
			return prompt.Default{Setting: s, Value: json.RawMessage(value)}
		}
	}
	t.Fatal(name)
	return prompt.Default{}
}

// TestFormatsOfInputs: the format of the lines that Read gives follows from the input and the
// options.
func TestFormatsOfInputs(t *testing.T) {
	t.Parallel()
	user := template(t, "user", "{{.text}}")
	for name, c := range map[string]struct {
		path, text string
		to         table.Options
		o          prompt.Options
		format     rows.Format
		read       string
	}{
		"requests":              {"a.jsonl", `{"prompt": "a"}`, table.Options{}, prompt.Options{}, rows.FormatJSONL, `{"prompt": "a"}`},
		"text":                  {"a.txt", "a\n", table.Options{}, prompt.Options{}, rows.FormatText, "a\n"},
		"text with a template":  {"a.txt", "a\n", table.Options{}, prompt.Options{Template: user}, rows.FormatJSONL, `{"body":{"messages":[{"role":"user","content":"a"}]}}` + "\n"},
		"text with a default":   {"a.txt", "a\n", table.Options{}, prompt.Options{Defaults: []prompt.Default{setting(t, "max_tokens", "5")}}, rows.FormatJSONL, `{"body":{"messages":[{"role":"user","content":"a"}],"max_tokens":5}}` + "\n"},
		"stdin":                 {"-", "a\n", table.Options{}, prompt.Options{}, rows.FormatAuto, "a\n"},
		"stdin, text":           {"-", "a\n", table.Options{Format: table.Text}, prompt.Options{}, rows.FormatText, "a\n"},
		"stdin, text, template": {"-", "a\n", table.Options{Format: table.Text}, prompt.Options{Template: user}, rows.FormatJSONL, `{"body":{"messages":[{"role":"user","content":"a"}]}}` + "\n"},
		"stdin, lines":          {"-", `{"prompt":"a"}`, table.Options{Format: table.Lines}, prompt.Options{}, rows.FormatJSONL, `{"prompt":"a"}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := c.path
			c.to.Format = cmp.Or(c.to.Format, table.Auto)
			c.o.Shape = prompt.Auto
			c.to.Stdin = strings.NewReader(c.text)
			if path != "-" {
				path = put(t, c.path, c.text)
			}
			in, err := prompt.Open([]string{path}, c.to, c.o)
			require.NoError(t, err)
			require.Equal(t, c.format, in.Format)
			got, err := io.ReadAll(in)
			require.NoError(t, err)
			require.Equal(t, c.read, string(got))
			require.NoError(t, in.Close())
			n, err := in.Read(make([]byte, 1))
			require.ErrorIs(t, err, os.ErrClosed)
			require.Zero(t, n)
		})
	}
	_, err := prompt.Open([]string{filepath.Join(t.TempDir(), "none.csv")}, table.Options{}, prompt.Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = prompt.Open([]string{put(t, "a.csv", "id,note\n1,x\n")}, table.Options{}, prompt.Options{})
	var use *prompt.UseError
	require.ErrorAs(t, err, &use)
	_, err = prompt.Open([]string{put(t, "a.csv", "text\nx\n")}, table.Options{}, prompt.Options{Template: template(t, "user", "{{.txt}}")})
	require.ErrorContains(t, err, `there is no column "txt": the columns are "text"`)
}

// TestAsIs: only requests without any option of their own are passed on unchanged.
func TestAsIs(t *testing.T) {
	t.Parallel()
	user := template(t, "user", "a")
	for _, c := range []struct {
		o    prompt.Options
		asIs bool
	}{
		{prompt.Options{}, true},
		{prompt.Options{Shape: prompt.Auto}, true},
		{prompt.Options{Shape: prompt.Requests}, true},
		{prompt.Options{Shape: prompt.Messages}, false},
		{prompt.Options{Shape: prompt.Auto, Template: user}, false},
		{prompt.Options{Shape: prompt.Auto, System: user}, false},
		{prompt.Options{Shape: prompt.Auto, Defaults: []prompt.Default{setting(t, "max_tokens", "5")}}, false},
	} {
		if c.o.Shape == "" {
			c.o.Shape = prompt.Auto
		}
		require.Equal(t, c.asIs, c.o.AsIs(), "%+v", c.o)
	}
}

// blocked is stdin whose reader waits.
type blocked struct{ reading, release chan struct{} }

func (b *blocked) Read(p []byte) (int, error) {
	close(b.reading)
	<-b.release
	return copy(p, "{\"prompt\":\"a\"}\n"), nil
}

// TestCloseDuringARead: Close does not wait for a Read that blocks, and the Read closes the input.
func TestCloseDuringARead(t *testing.T) {
	t.Parallel()
	stdin := &blocked{make(chan struct{}), make(chan struct{})}
	in, err := prompt.Open([]string{"-"}, table.Options{Format: table.Lines, Stdin: stdin}, prompt.Options{})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := in.Read(make([]byte, 10))
		done <- err
	}()
	<-stdin.reading
	require.NoError(t, in.Close())
	close(stdin.release)
	require.NoError(t, <-done)
	_, err = in.Read(make([]byte, 10))
	require.ErrorIs(t, err, os.ErrClosed)
}

// TestHints: the error of another input says what may have changed.
func TestHints(t *testing.T) {
	t.Parallel()
	other := fmt.Errorf("out.jsonl: %w", rows.ErrOtherFile)
	hint := func(o prompt.Options, err error) string {
		in, openErr := prompt.Open([]string{put(t, "a.jsonl", `{"prompt":"a"}`)}, table.Options{}, o)
		require.NoError(t, openErr)
		return in.Hint(err).Error()
	}
	o := prompt.Options{Shape: prompt.Auto}
	require.Equal(t, other.Error(), hint(o, other))
	o.Defaults = []prompt.Default{setting(t, "max_tokens", "5")}
	require.Equal(t, other.Error()+" (the rows depend on the input, on templates and on flags such as --max-tokens and --schema)", hint(o, other))
	require.Equal(t, "EOF", hint(o, io.EOF))
	o.Defaults = append(o.Defaults, setting(t, "seed", "5"))
	require.Contains(t, hint(o, other), "--schema); answers that an earlier version made with --seed cannot be continued")
}

// TestAnswered: records have the checksums of their requests. An input that was changed since its
// requests were read is an error.
func TestAnswered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, text string
		o          prompt.Options
		asIs       bool
	}{
		"requests":  {"a.jsonl", "{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\nbroken\n", prompt.Options{Shape: prompt.Auto}, true},
		"a default": {"a.jsonl", "{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\nbroken\n", prompt.Options{Defaults: []prompt.Default{setting(t, "max_tokens", "5")}}, false},
		"a table":   {"a.csv", "prompt\na\nb\n\"c\xff\"\n", prompt.Options{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := put(t, c.file, c.text)
			notices := 0
			c.o.Notice = func(string) { notices++ }
			c.o.Warn = func(string) { notices++ }
			in, err := prompt.Open([]string{path}, table.Options{}, c.o)
			require.NoError(t, err)
			defer func() { require.NoError(t, in.Close()) }()
			var sums []string
			r := rows.NewReader(in, rows.Options{Format: in.Format})
			for row, err := range r.Rows(t.Context()) {
				require.NoError(t, err)
				sums = append(sums, row.Sum)
			}
			require.Len(t, sums, 3)
			before := notices
			pass := func() (got []string, err error) {
				records, err := in.Answered()
				require.NoError(t, err)
				defer func() { require.NoError(t, records.Close()) }()
				for {
					record, err := records.Next()
					var damaged *table.RecordError
					switch {
					case errors.Is(err, io.EOF):
						return got, nil
					case errors.As(err, &damaged):
						require.Len(t, got, 2, "the last record is damaged")
						require.Equal(t, 3, damaged.Number)
						got = append(got, damaged.Record().Request, "damaged")
						continue
					case err != nil:
						return got, err
					}
					got = append(got, record.Request)
				}
			}
			for range 2 {
				got, err := pass()
				require.NoError(t, err)
				require.Equal(t, append(slices.Clone(sums), "damaged"), got)
			}
			require.Equal(t, before, notices, "a second pass says nothing again")
			require.NoError(t, os.WriteFile(path, []byte(strings.Replace(c.text, "b", "c", 1)), 0o600))
			got, err := pass()
			require.NotEqual(t, sums[1], got[1])
			if c.asIs {
				require.NoError(t, err, "the answers' checksums show the difference")
				return
			}
			require.ErrorIs(t, err, rows.ErrOtherFile)
			require.ErrorContains(t, err, path+" was changed while its rows were answered")
		})
	}
	path := put(t, "a.csv", "prompt\na\n")
	in, err := prompt.Open([]string{path}, table.Options{}, prompt.Options{})
	require.NoError(t, err)
	records, err := in.Answered()
	require.NoError(t, err)
	require.Equal(t, []string{"prompt"}, table.Names(records.Columns()))
	for range 2 { // not read to the end before: there is nothing to compare with
		_, err = records.Next()
	}
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, errors.Join(records.Close(), os.Remove(path)))
	_, err = in.Answered()
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = in.Seek(0, io.SeekStart)
	require.NoError(t, err)
	_, err = in.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("prompt\na\n"), 0o600))
	require.ErrorIs(t, in.Start(), os.ErrNotExist, "the error stays")
	_, err = in.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestLinesAreReadFromTheFile: lines that are passed on unchanged are read from the file alone,
// whose records are not held too. An error of that is an error of Start.
func TestLinesAreReadFromTheFile(t *testing.T) {
	t.Parallel()
	lines := []byte("{\"prompt\":\"a\"}\nbroken \xff\n")
	path := put(t, "a.jsonl", string(lines))
	in, err := table.Open([]string{path}, table.Options{})
	require.NoError(t, err)
	s := prompt.NewStream(in, prompt.Options{})
	require.NoError(t, s.Start())
	openfiles.Require(t, 1, path)
	read, err := io.ReadAll(s)
	require.NoError(t, err)
	require.Equal(t, lines, read)
	openfiles.Require(t, 1, path)
	require.NoError(t, s.Close())
	openfiles.Require(t, 0, path)
	require.NoError(t, s.Close(), "a second call does nothing")

	large := put(t, "b.jsonl", strings.Repeat("{\"prompt\":\"a\"}\n", 30_000))
	in, err = table.Open([]string{large}, table.Options{})
	require.NoError(t, err)
	for _, o := range []prompt.Options{{}, {Defaults: []prompt.Default{setting(t, "max_tokens", "5")}}} {
		s = prompt.NewStream(in, o)
		require.NoError(t, s.Start())
		openfiles.Require(t, 1, large) // either the lines or the records are read
		require.NoError(t, s.Close())
		openfiles.Require(t, 0, large)
	}
	in, err = table.Open([]string{path}, table.Options{})
	require.NoError(t, err)

	s = prompt.NewStream(in, prompt.Options{Warn: func(string) { require.NoError(t, os.Remove(path)) }})
	require.ErrorIs(t, s.Start(), fs.ErrNotExist)
	require.NoError(t, s.Close())
}

// TestSeek: requests can be read again from the start only, and those of a pipe not at all.
func TestSeek(t *testing.T) {
	t.Parallel()
	in, err := prompt.Open([]string{put(t, "a.csv", "prompt\na\n")}, table.Options{}, prompt.Options{})
	require.NoError(t, err)
	defer in.Close()
	for _, c := range []struct {
		offset int64
		whence int
	}{{1, io.SeekStart}, {1, io.SeekCurrent}, {0, io.SeekEnd}} {
		_, err := in.Seek(c.offset, c.whence)
		require.EqualError(t, err, "requests can only be read again from the start")
	}
	stdin, err := prompt.Open([]string{"-"}, table.Options{Stdin: strings.NewReader("")}, prompt.Options{})
	require.NoError(t, err)
	_, err = stdin.Seek(0, io.SeekStart)
	require.EqualError(t, err, "the input is a pipe or a terminal: it cannot be read again")
}

// TestWarningsOfEncodings: the first record that is not text is reported once.
func TestWarningsOfEncodings(t *testing.T) {
	t.Parallel()
	for _, at := range []int{2, 150} { // among the first records, from which the shape is guessed, or later
		path := put(t, "a.csv", "prompt\n"+strings.Repeat("a\n", at-1)+"\xe9\n\xe9\n")
		var warnings []string
		in, err := prompt.Open([]string{path}, table.Options{}, prompt.Options{Warn: func(s string) { warnings = append(warnings, s) }})
		require.NoError(t, err)
		require.Equal(t, at == 2, len(warnings) == 1, "the first records are read at once")
		for range 2 {
			_, err = io.Copy(io.Discard, in)
			require.NoError(t, err)
			_, err = in.Seek(0, io.SeekStart)
			require.NoError(t, err)
		}
		require.NoError(t, in.Close())
		require.Equal(t, []string{fmt.Sprintf(`%s: row %d cannot be used, since column "prompt" is not UTF-8: `+
			"if the file has another encoding, give --encoding, such as windows-1252", path, at)}, warnings)
	}
}

// TestShapesAreGuessedFromTheFirstRecords: a record later than the hundredth, or after a megabyte,
// does not show the shape.
func TestShapesAreGuessedFromTheFirstRecords(t *testing.T) {
	t.Parallel()
	const chat = `{"conversations":[{"from":"human","value":"a"}]}` + "\n"
	for text, want := range map[string]bool{
		strings.Repeat("{\"x\":1}\n", 99) + chat:                   true,
		strings.Repeat("{\"x\":1}\n", 100) + chat:                  false,
		`{"x":"` + strings.Repeat("a", 1<<20-3) + "\"}\n" + chat:   true,
		`{"x":"` + strings.Repeat("a", 1<<20-2) + "\"}\n" + chat:   false,
		"{\"x\":1}\n" + strings.Repeat("a", 1<<20-2) + "\n" + chat: true, // a line that cannot be read
		"{\"x\":1}\n" + strings.Repeat("a", 1<<20-1) + "\n" + chat: false,
	} {
		_, err := prompt.Open([]string{put(t, "a.jsonl", text)}, table.Options{}, prompt.Options{})
		if want {
			require.NoError(t, err, "%.40s", text)
			continue
		}
		var use *prompt.UseError
		require.ErrorAs(t, err, &use)
	}
}

// TestTextsWithDamagedLines: a text file is one, also if its first lines are not text.
func TestTextsWithDamagedLines(t *testing.T) {
	t.Parallel()
	for name, stdin := range map[string]io.Reader{"file": nil, "pipe": strings.NewReader("\xff\nb\n")} {
		path := "-"
		if stdin == nil {
			path = put(t, "a.txt", "\xff\nb\n")
		}
		in, err := prompt.Open([]string{path}, table.Options{Format: table.Text, Stdin: stdin}, prompt.Options{})
		require.NoError(t, err)
		text, err := io.ReadAll(in)
		require.NoError(t, err)
		require.True(t, in.Text(), name)
		require.Equal(t, "\xff\nb\n", string(text))
		require.NoError(t, in.Close())
	}
}

func TestParseShape(t *testing.T) {
	t.Parallel()
	names := []string{"auto", "requests", "messages", "sharegpt", "prompt", "alpaca", "completion"}
	for _, name := range names {
		got, err := prompt.ParseShape(name)
		require.NoError(t, err)
		require.Equal(t, prompt.Shape(name), got)
	}
	_, err := prompt.ParseShape("chatml")
	require.EqualError(t, err, `shape "chatml" is not known: use auto, requests, messages, sharegpt, prompt, alpaca or completion`)
	for name, help := range prompt.Shapes() {
		require.NotEmpty(t, help)
		if name == prompt.ShareGPT {
			break
		}
	}
}

// TestAnsweredForms: a record whose request asks for another form than the default is marked.
func TestAnsweredForms(t *testing.T) {
	t.Parallel()
	path := put(t, "a.jsonl", `{"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_object"}}
{"messages":[{"role":"user","content":"b"}],"response_format":{"type":"text"}}
{"messages":[{"role":"user","content":"c"}]}
`)
	fields := openai.Fields(openai.Chat)
	form := fields[slices.IndexFunc(fields, func(f *openai.Field) bool { return f.Name == "response_format" })]
	o := prompt.Options{Shape: prompt.Auto, Defaults: []prompt.Default{{Setting: form, Value: json.RawMessage(`{"type":"json_object"}`)}}}
	in, err := prompt.Open([]string{path}, table.Options{}, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, in.Close()) }()
	records, err := in.Answered()
	require.NoError(t, err)
	defer func() { require.NoError(t, records.Close()) }()
	for _, own := range []bool{false, true, false} {
		r, err := records.Next()
		require.NoError(t, err)
		require.Equal(t, own, r.OwnForm)
	}
}
