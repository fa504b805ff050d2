package export_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
)

// put writes a file and returns its path.
func put(t *testing.T, path, text string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// TestGuard: OUT is replaced only beside files of answers, from which this command made it.
func TestGuard(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		out    string
		models []string
		files  []string // that exist, beside each other
		want   string
	}{
		"no OUT":                            {"out.csv", []string{""}, nil, ""},
		"OUT is a folder":                   {".", []string{""}, nil, ""},
		"OUT alone":                         {"out.csv", []string{""}, []string{"out.csv"}, "out.csv.answers.jsonl"},
		"OUT and answers":                   {"out.csv", []string{""}, []string{"out.csv", "out.csv.answers.jsonl"}, ""},
		"batch lines":                       {"out.jsonl", []string{""}, []string{"out.jsonl"}, ""},
		"compressed batch lines":            {"out.jsonl.gz", []string{""}, []string{"out.jsonl.gz"}, "out.jsonl.gz.answers.jsonl"},
		"compressed batch lines, answers":   {"out.jsonl.gz", []string{""}, []string{"out.jsonl.gz", "out.jsonl.gz.answers.jsonl"}, ""},
		"models without answers":            {"out.jsonl", []string{"a/b", "c"}, []string{"out.jsonl"}, "out.jsonl.a_b.answers.jsonl"},
		"answers of the second model":       {"out.jsonl", []string{"a/b", "c"}, []string{"out.jsonl", "out.jsonl.c.answers.jsonl"}, ""},
		"answers with a slash in the model": {"out.csv", []string{"a/b/c"}, []string{"out.csv", "out.csv.a_b_c.answers.jsonl"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			for _, f := range c.files {
				put(t, filepath.Join(folder, f), "x")
			}
			out := filepath.Join(folder, c.out)
			err := (&export.Output{Path: out, Format: export.FormatOf(out)}).Guard(c.models...)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, out+" was not made by this command, since "+filepath.Join(folder, c.want)+
				" does not exist: choose another OUT, or remove "+out)
		})
	}
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	require.NoError(t, errors.Join(err, w.Close()))
	return b.String()
}

// TestCheckFailed: only a file of failed rows is replaced by another one.
func TestCheckFailed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, export.CheckFailed(filepath.Join(folder, "missing.csv")))
	require.ErrorIs(t, export.CheckFailed(filepath.Join(folder, "none", "failed.csv")), os.ErrNotExist)
	require.NoError(t, export.CheckFailed(folder), "a folder is no file that would be replaced")
	for name, c := range map[string]struct {
		text string
		ours bool
	}{
		"empty.csv":          {"", true},
		"empty.csv.gz":       {gzipped(t, ""), false},
		"empty.txt.gz":       {gzipped(t, ""), true},
		"header.csv":         {"id,ingot_error\n", true},
		"rows.csv":           {"id,ingot_error\n1,timeout\n", true},
		"other.csv":          {"id,reason\n1,timeout\n", false},
		"other-header.csv":   {"id\n", false},
		"rows.jsonl":         {`{"id":1,"ingot_error":"timeout"}` + "\n", true},
		"other.jsonl":        {`{"id":1}` + "\n", false},
		"later.jsonl":        {`{"id":1}` + "\n" + `{"id":2,"ingot_error":"timeout"}` + "\n", false},
		"notes.txt":          {"ingot_error\n", false},
		"damaged.jsonl":      {"{\"id\":\n", false},
		"damaged.csv":        {"id,ingot_error\n\"a\xffb\",timeout\n", true},
		"damaged-other.csv":  {"id,reason\n\"a\xffb\",timeout\n", false},
		"not-a-table.csv.gz": {"\x1f\x8bnot gzip", false},
		"picture.csv":        {"PK\x03\x04 archive", false},
		"cut.csv.gz":         {gzipped(t, "id,ingot_error\n")[:30], false},
	} {
		err := export.CheckFailed(put(t, filepath.Join(folder, name), c.text))
		if c.ours {
			require.NoError(t, err, name)
			continue
		}
		path := filepath.Join(folder, name)
		require.EqualError(t, err, path+" exists and is not a file of failed rows, since it has no column ingot_error: choose another FILE, or remove "+path, name)
		require.ErrorContains(t, (&export.Output{Path: filepath.Join(folder, "out.csv"), Failed: path}).Guard(""), "not a file of failed rows")
	}
}

// TestTablesOfAnswers: Finish makes OUT and the file of failed rows, and describes them.
func TestTablesOfAnswers(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	var summary string
	o := &export.Output{
		Path: filepath.Join(folder, "out.csv"), Format: export.CSV, Failed: filepath.Join(folder, "failed.csv"),
		Summary: func(s string) { summary = s },
		Table:   export.Options{Format: export.CSV, Filter: export.Filter{FinishReasons: []string{"stop"}, MaxTokens: 4}},
	}
	require.NoError(t, o.Guard(""))
	require.False(t, o.Appends())
	put(t, o.Path+".answers.jsonl", strings.Join([]string{
		answer(t, 1, "a", stop("one")), answer(t, 2, "b"), answer(t, 3, "c", stop("seven")), answer(t, 4, "d", choice{"x", "", "length", 1}),
	}, "\n")+"\n")
	in := from(`{"id":"a"}`, `{"id":"b"}`, `{"id":"c"}`, `{"id":"d"}`, `{"id":"e"}`, `{"id":"f"}`)
	require.NoError(t, o.Finish(t.Context(), in, ""))
	require.Equal(t, "id,response,finish_reason,model,prompt_tokens,completion_tokens,error\na,one,stop,tiny,7,3,\n", read(t, o.Path))
	require.Equal(t, "id,ingot_error\nb,timeout: line 2: too slow\n", read(t, o.Failed))
	require.Equal(t, o.Path+": 1 record, 3 dropped (failed 1, finish reason 1, too long 1); 2 rows without an answer; 1 row in "+o.Failed, summary)
	require.NoError(t, o.Guard(""))
	require.NoError(t, o.Finish(t.Context(), in, ""), "a file of failed rows and a table of this command are replaced")
	require.NoError(t, o.Close())
	require.EqualError(t, o.Stopped(), "stopped before the end: run the same command again to continue and to make "+o.Path)

	require.NoError(t, o.Guard(""))
	put(t, o.Failed, "id\n1\n")
	require.ErrorContains(t, o.Finish(t.Context(), in, ""), "write "+o.Path+": "+o.Failed+" exists and is not a file of failed rows")
	require.Equal(t, "id\n1\n", read(t, o.Failed))
	o.Failed = ""
	require.NoError(t, o.Guard(""))
	require.NoError(t, o.Finish(t.Context(), in, ""))
	require.Equal(t, o.Path+": 1 record, 3 dropped (failed 1, finish reason 1, too long 1); 2 rows without an answer", summary)
	require.NoError(t, o.Guard(""))
	require.ErrorIs(t, o.Finish(t.Context(), from(`{"id":"z"}`), ""), rows.ErrOtherFile)
	o.Table.Filter = export.Filter{}
	require.NoError(t, o.Guard(""))
	require.NoError(t, o.Write(t.Context(), []string{o.Path + ".answers.jsonl"}, nil))
	require.Equal(t, o.Path+": 4 records", summary)

	o.Path = filepath.Join(folder, "none", "out.csv")
	require.ErrorIs(t, o.Finish(t.Context(), in, ""), os.ErrNotExist)
	require.ErrorIs(t, o.Write(t.Context(), []string{filepath.Join(folder, "out.csv.answers.jsonl")}, in), os.ErrNotExist)
}

// TestAnswersOfSeveralModels: batch lines of several models are written by row; the table names the
// models.
func TestAnswersOfSeveralModels(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	lines := [][]string{{answer(t, 3, "c", stop("three")), answer(t, 1, "a", stop("one"))}, {answer(t, 2, "b", stop("two"))}}
	for _, name := range []string{"out.jsonl", "out.csv"} {
		o := &export.Output{Path: filepath.Join(folder, name), Format: export.FormatOf(name), Table: export.Options{Format: export.CSV}, Summary: func(string) {}}
		require.NoError(t, o.Guard("x", "y"))
		put(t, o.Path+".x.answers.jsonl", strings.Join(lines[0], "\n")+"\n")
		put(t, o.Path+".y.answers.jsonl", lines[1][0]+"\n")
		require.NoError(t, o.Finish(t.Context(), nil, "x", "y"))
		if name == "out.csv" {
			require.Equal(t, "custom_id,response,finish_reason,model,prompt_tokens,completion_tokens,error\n"+
				"a,one,stop,x,7,3,\nb,two,stop,y,7,3,\nc,three,stop,x,7,5,\n", read(t, o.Path))
			continue
		}
		require.Equal(t, lines[0][1]+"\n"+lines[1][0]+"\n"+lines[0][0]+"\n", read(t, o.Path))
		require.EqualError(t, o.Stopped(), "stopped before the end: run the same command again to continue")
		require.NoError(t, o.Guard("x", "y"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, o.Finish(ctx, nil, "x", "y"), context.Canceled)
	}
}

// TestAppendedAnswers: batch lines of one model are in OUT already; Ordered sorts them.
func TestAppendedAnswers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.jsonl")
	o := &export.Output{Path: path, Format: export.Batch}
	require.True(t, o.Appends())
	require.True(t, o.Regular())
	first, second := answer(t, 1, "a", stop("one")), answer(t, 2, "b", stop("two"))
	put(t, path, second+"\n"+first+"\n")
	require.NoError(t, o.Finish(t.Context(), nil, ""))
	require.Equal(t, second+"\n"+first+"\n", read(t, path))
	o.Ordered = true
	require.NoError(t, o.Finish(t.Context(), nil, ""))
	require.Equal(t, first+"\n"+second+"\n", read(t, path))

	put(t, path, second+"\n"+first+"\n")
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, export.Order(stopped, path), context.Canceled)
	require.Equal(t, second+"\n"+first+"\n", read(t, path), "a file that is not complete does not replace OUT")
	require.ErrorIs(t, export.Order(t.Context(), path+".none"), os.ErrNotExist)
	put(t, path, "no answers\n")
	require.ErrorContains(t, o.Finish(t.Context(), nil, ""), "the line is not a result of ingot")
}

// TestOutputsOfOtherPrograms: a file that another program put at OUT since Guard stays.
func TestOutputsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	answers := put(t, filepath.Join(t.TempDir(), "answers.jsonl"), answer(t, 1, "a", stop("one"))+"\n")
	for name, c := range map[string]struct {
		guard, before, replaced bool
		refused                 bool
	}{
		"without Guard":                {false, true, true, false},
		"the same file":                {true, true, false, false},
		"another file instead":         {true, true, true, true},
		"a file where there was none":  {true, false, true, true},
		"still no file":                {true, false, false, false},
		"no file, and nobody asked":    {false, false, false, false},
		"a new file, and nobody asked": {false, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &export.Output{Path: filepath.Join(t.TempDir(), "out.csv"), Format: export.CSV, Table: export.Options{Format: export.CSV}, Summary: func(string) {}}
			put(t, o.Path+".answers.jsonl", "")
			if c.before {
				put(t, o.Path, "before")
			}
			if c.guard {
				require.NoError(t, o.Guard(""))
			}
			if c.replaced {
				require.NoError(t, os.Rename(put(t, o.Path+".new", "theirs"), o.Path))
			}
			err := o.Write(t.Context(), []string{answers}, nil)
			if c.refused {
				require.ErrorIs(t, err, rows.ErrNotOurs)
				require.Equal(t, "theirs", read(t, o.Path))
				return
			}
			require.NoError(t, err)
			require.Contains(t, read(t, o.Path), "a,one,stop")
		})
	}
}

// TestOpen: answers go to OUT, to a separate file, or to stdout.
func TestOpen(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	var stdout bytes.Buffer
	for _, c := range []struct{ path, model, file string }{
		{"out.jsonl", "", "out.jsonl"},
		{"out.jsonl", "m", "out.jsonl.m.answers.jsonl"},
		{"out.csv", "", "out.csv.answers.jsonl"},
		{"out.csv", "m", "out.csv.m.answers.jsonl"},
		{"-", "", ""},
	} {
		o := &export.Output{Path: c.path, Format: export.FormatOf(c.path), Stdout: &stdout}
		if c.file != "" {
			o.Path = filepath.Join(folder, c.path)
		}
		require.Equal(t, c.file != "", o.Regular())
		out, err := o.Open(t.Context(), c.model, "b")
		require.NoError(t, err)
		require.NoError(t, errors.Join(out.Close(), o.Close()))
		if c.file != "" {
			require.FileExists(t, filepath.Join(folder, c.file))
		}
	}
	_, err := (&export.Output{Path: filepath.Join(folder, "none", "out.jsonl")}).Open(t.Context(), "", "b")
	require.ErrorContains(t, err, "none for the output does not exist: make it")
	o := &export.Output{Path: "-", Format: export.CSV, Table: export.Options{Format: export.CSV}, Stdout: &stdout, Summary: func(s string) { require.Equal(t, "stdout: 1 record", s) }}
	answers := put(t, filepath.Join(folder, "answers.jsonl"), answer(t, 1, "a", stop("one"))+"\n")
	require.NoError(t, o.Write(t.Context(), []string{answers}, nil))
	require.Contains(t, stdout.String(), "a,one,stop")
}

// TestTemporaryAnswers: beside a pipe, the answers are in a temporary folder, which Close removes.
func TestTemporaryAnswers(t *testing.T) { // not parallel, since it sets TMPDIR
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for _, format := range []export.Format{export.CSV, export.Batch} {
		path := filepath.Join(t.TempDir(), "fifo")
		require.NoError(t, unix.Mkfifo(path, 0o600))
		o := &export.Output{Path: path, Format: format, Table: export.Options{Format: export.CSV}, Summary: func(string) {}}
		require.False(t, o.Regular())
		require.NoError(t, o.Guard("x", "y"))
		for _, model := range []string{"x", "y", "x"} {
			out, err := o.Open(t.Context(), model, "b")
			require.NoError(t, err)
			require.NoError(t, out.Close())
		}
		found, err := filepath.Glob(filepath.Join(temp, "ingot-answers-*", "*"))
		require.NoError(t, err)
		require.Len(t, found, 2)
		put(t, found[0], answer(t, 1, "a", stop("one"))+"\n")
		text := make(chan string, 1)
		go func() {
			b, _ := os.ReadFile(path)
			text <- string(b)
		}()
		require.NoError(t, o.Finish(t.Context(), nil, "x", "y"))
		require.Contains(t, <-text, "one")
		require.NoError(t, o.Close())
		left, err := os.ReadDir(temp)
		require.NoError(t, err)
		require.Empty(t, left)
	}
	t.Setenv("TMPDIR", filepath.Join(temp, "none"))
	path := filepath.Join(temp, "fifo")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	o := &export.Output{Path: path, Format: export.CSV}
	_, err := o.Open(t.Context(), "", "b")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorIs(t, o.Finish(t.Context(), nil, ""), os.ErrNotExist)
}

// TestBatchLinesToAPipe: Close ends the pipe, so that its reader sees the end.
func TestBatchLinesToAPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	text := make(chan string, 1)
	go func() {
		b, _ := os.ReadFile(path)
		text <- string(b)
	}()
	o := &export.Output{Path: path, Format: export.Batch}
	out, err := o.Open(t.Context(), "", "b")
	require.NoError(t, err)
	require.NoError(t, o.Finish(t.Context(), nil, ""))
	require.NoError(t, errors.Join(out.Close(), o.Close()))
	require.Empty(t, <-text)
	require.NoError(t, o.Close(), "it is closed once")
}

// failing is an input whose reading fails.
type failing struct {
	input
	next, closing error
}

func (f *failing) Next() (table.Record, error) {
	if f.next != nil {
		return table.Record{}, f.next
	}
	return f.input.Next()
}

func (f *failing) Columns() []table.Column { return []table.Column{{Name: "id", Kind: table.String}} }
func (f *failing) Close() error            { return f.closing }

// TestTablesThatCannotBeWritten: errors of the input and of the output are not lost.
func TestTablesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	write := func(w io.Writer, o export.Options, in func() (table.Reader, error)) error {
		o.Format, o.Input = export.CSV, in
		o.Answers = []*export.Answers{open(t, answer(t, 1, "a", stop("one")), answer(t, 2, "b"))}
		_, err := export.WriteTable(t.Context(), w, o)
		return err
	}
	lines := []string{`{"id":"a"}`, `{"id":"b"}`}
	in := func(next, closing error) func() (table.Reader, error) {
		return func() (table.Reader, error) { return &failing{input{lines: lines}, next, closing}, nil }
	}
	require.NoError(t, write(io.Discard, export.Options{}, in(nil, nil)))
	require.ErrorIs(t, write(io.Discard, export.Options{}, in(broken, nil)), broken)
	require.ErrorIs(t, write(io.Discard, export.Options{}, in(nil, broken)), broken)
	require.ErrorIs(t, write(io.Discard, export.Options{}, func() (table.Reader, error) { return nil, broken }), broken)
	require.ErrorIs(t, write(full{}, export.Options{}, in(nil, nil)), errFull)
	for _, f := range []export.Format{export.CSV, export.Simple} {
		require.ErrorIs(t, write(io.Discard, export.Options{Failed: export.NewFailedRows(full{}, f)}, in(nil, nil)), errFull)
	}
	opened := 0
	second := func() (table.Reader, error) {
		if opened++; opened > 1 {
			return nil, broken
		}
		return in(nil, nil)()
	}
	require.ErrorIs(t, write(io.Discard, export.Options{}, second), broken)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := export.WriteTable(stopped, io.Discard, export.Options{Format: export.CSV, Input: in(nil, nil)})
	require.ErrorIs(t, err, context.Canceled)
	_, err = export.WriteTable(t.Context(), io.Discard, export.Options{Format: export.Batch, Input: in(nil, nil)})
	require.EqualError(t, err, `"batch" is not the format of a table`)
	var tabs bytes.Buffer
	_, err = export.WriteTable(t.Context(), &tabs, export.Options{Format: export.TSV, Input: in(nil, nil)})
	require.NoError(t, err)
	require.Equal(t, "id\tresponse\tfinish_reason\tmodel\tprompt_tokens\tcompletion_tokens\terror\n", tabs.String())
	require.ErrorIs(t, export.WriteLines(t.Context(), full{}, []*export.Answers{open(t, answer(t, 1, "a", stop("one")))}), errFull)
	require.ErrorIs(t, export.WriteLines(t.Context(), full{}, []*export.Answers{open(t, answer(t, 1, "a", stop(strings.Repeat("x", 2<<20))))}), errFull)
}

// checked is an input whose records have no checksum of their request.
type checked struct {
	records []table.Record
	next    int
}

func (c *checked) Columns() []table.Column { return []table.Column{{Name: "id", Kind: table.String}} }
func (c *checked) Close() error            { return nil }

func (c *checked) Next() (table.Record, error) {
	if c.next++; c.next > len(c.records) {
		return table.Record{}, io.EOF
	}
	return c.records[c.next-1], nil
}

// TestAnswersOfOtherRecords: an answer belongs to a record by the checksum of the request, else of
// the record, else of the line.
func TestAnswersOfOtherRecords(t *testing.T) {
	t.Parallel()
	fields := []table.Field{{Name: "id", Value: json.RawMessage(`"a"`)}}
	text := []byte(`{"id":"a"}`)
	long := bytes.Repeat([]byte("x"), rows.MaxLine+1)
	record := table.Record{Number: 1, Fields: fields}
	withSum := func(sum string) string {
		return strings.Replace(answer(t, 1, "a", stop("one")), `"custom_id":"a"`, `"custom_id":"a","record_sum":"`+sum+`"`, 1)
	}
	withID := func(sum string) string {
		return strings.Replace(answer(t, 1, "a", stop("one")), "-"+"0000abcd", "-"+sum, 1)
	}
	require.NotEqual(t, withSum("x"), withID("x"))
	for name, c := range map[string]struct {
		record table.Record
		answer string
		want   string
	}{
		"the request":             {table.Record{Number: 1, Fields: fields, Request: sum}, withSum("00000000"), ""},
		"another request":         {table.Record{Number: 1, Fields: fields, Request: "0000abce"}, withSum(record.Sum()), "is not the row that was answered; give the unchanged input"},
		"the record":              {record, withSum(record.Sum()), ""},
		"another record":          {record, withSum("00000000"), "is not the row that was answered"},
		"the line's record":       {table.Record{Number: 1, Fields: fields, Line: text}, withSum(table.Record{Line: text}.Sum()), ""},
		"the line":                {table.Record{Number: 1, Fields: fields, Line: text}, withID(rows.Checksum(text)), ""},
		"another line":            {table.Record{Number: 1, Fields: fields, Line: text}, withID("00000000"), "is not the row that was answered"},
		"a line that is too long": {table.Record{Number: 1, Line: long}, withID(rows.Checksum(long[:rows.MaxLine])), ""},
		"nothing to compare":      {record, withID(rows.Checksum(text)), "answers.jsonl has no checksum of its record"},
		"another id":              {table.Record{Number: 1, Fields: []table.Field{{Name: "id", Value: json.RawMessage(`"b"`)}}, Request: sum}, withID(sum), `row 1 has the id "a"`},
		"an id made up": {table.Record{Number: 1, Fields: []table.Field{{Name: "id", Value: json.RawMessage(`"b"`)}}, Request: sum},
			strings.Replace(withID(sum), `"custom_id":"a"`, `"custom_id":"line-1"`, 1), ""},
	} {
		_, err := export.WriteTable(t.Context(), io.Discard, export.Options{Format: export.CSV, Answers: []*export.Answers{open(t, c.answer)},
			Input: func() (table.Reader, error) { return &checked{records: []table.Record{c.record}}, nil }})
		if c.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.want, name)
		require.Equal(t, name != "nothing to compare", errors.Is(err, rows.ErrOtherFile), name)
	}
}

// TestAFileOfAnswersThatShrinks: an answer that cannot be read again is an error.
func TestAFileOfAnswersThatShrinks(t *testing.T) {
	t.Parallel()
	path := put(t, filepath.Join(t.TempDir(), "answers.jsonl"), answer(t, 1, "a", stop("one"))+"\n")
	a, err := export.OpenAnswers(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	require.NoError(t, os.Truncate(path, 10))
	want := "read " + path + ": EOF"
	require.EqualError(t, export.WriteLines(t.Context(), io.Discard, []*export.Answers{a}), want)
	_, err = export.WriteTable(t.Context(), io.Discard, export.Options{Format: export.CSV, Input: from(`{"id":"a"}`), Answers: []*export.Answers{a}})
	require.ErrorContains(t, err, want)
	_, err = export.WriteTable(t.Context(), io.Discard, export.Options{Format: export.CSV, Answers: []*export.Answers{a}})
	require.ErrorContains(t, err, "the input has no row 1")
	put(t, path, strings.Repeat("x", 1000))
	_, err = export.WriteTable(t.Context(), io.Discard, export.Options{Format: export.CSV, Input: from(`{"id":"a"}`), Answers: []*export.Answers{a}})
	require.ErrorContains(t, err, "read the answer to row 1 in "+path)
	_, err = export.OpenAnswers(path + ".none")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = export.OpenAnswers(filepath.Dir(path))
	require.ErrorContains(t, err, "read "+filepath.Dir(path)+": ")
}
