package table_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/files/table"
)

func TestNamesOfInputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b, c := put(t, dir, "a.csv", "x\n"), put(t, dir, "b.csv", "x\n"), put(t, dir, "c.csv", "x\n")
	for _, one := range []struct {
		paths []string
		name  string
	}{
		{[]string{a}, a}, {[]string{a, b}, a + " and 1 more"}, {[]string{filepath.Join(dir, "*.csv")}, a + " and 2 more"}, {[]string{"-"}, "stdin"},
	} {
		in, err := table.Open(one.paths, table.Options{Stdin: strings.NewReader("")})
		require.NoError(t, err)
		require.Equal(t, one.name, in.Name())
	}
	in, err := table.Open([]string{filepath.Join(dir, "[bc].csv"), a}, table.Options{})
	require.NoError(t, err)
	require.Equal(t, []string{b, c, a}, in.Paths())
	_, err = table.Open([]string{filepath.Join(dir, "[a.csv")}, table.Options{})
	require.EqualError(t, err, "open "+filepath.Join(dir, "[a.csv")+": syntax error in pattern")
}

// TestSameFileOfStdin: a file with the name - is not stdin.
func TestSameFileOfStdin(t *testing.T) { // not parallel, since it changes the folder
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("-", nil, 0o600))
	require.False(t, table.SameFile("-", "./-"))
	require.False(t, table.SameFile("./-", "-"))
	require.True(t, table.SameFile("./-", "././-"))
}

func TestDevices(t *testing.T) {
	t.Parallel()
	_, err := table.Open([]string{"/dev/zero"}, table.Options{})
	require.EqualError(t, err, "open /dev/zero: it is a device: give a file or a pipe")
	in, err := table.Open([]string{os.DevNull}, table.Options{})
	require.NoError(t, err)
	require.False(t, in.Seekable())
	_, err = in.Records()
	require.NoError(t, err)
}

// TestPipes: a named pipe is read once; Copy makes it readable again.
func TestPipes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.csv")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	write := func() chan error {
		done := make(chan error, 1)
		go func() { done <- os.WriteFile(path, []byte("x\n1\n2\n"), 0) }()
		return done
	}
	want := []string{`1: {"x":"1"}`, `2: {"x":"2"}`}
	in, err := table.Open([]string{path}, table.Options{})
	require.NoError(t, err)
	require.False(t, in.Seekable())
	written := write()
	r, err := in.Records()
	require.NoError(t, err)
	got, err := numbered(t, r)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, <-written)
	_, err = in.Records()
	require.EqualError(t, err, path+" cannot be read a second time: write it to a file first")

	for _, s := range []table.Selection{{}, {Sample: 2}} {
		in, err = table.Open([]string{path}, table.Options{Select: s})
		require.NoError(t, err)
		written = write()
		require.NoError(t, in.Copy())
		require.NoError(t, <-written)
		require.True(t, in.Seekable())
		for range 2 {
			require.NoError(t, in.Copy(), "it is copied once")
			r, err := in.Records()
			require.NoError(t, err)
			got, err := numbered(t, r)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		require.NoError(t, in.Close())
		require.NoError(t, in.Close(), "it is closed once")
		require.False(t, in.Seekable())
	}
	require.NoError(t, os.Remove(path))
	require.ErrorIs(t, in.Copy(), os.ErrNotExist)
}

// TestStdinThatFails: an error of stdin is an error of the input, wherever it occurs.
func TestStdinThatFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, text := range []string{"", "x", "x\n1\n", "x\n" + strings.Repeat("1\n", 100_000)} {
		for _, s := range []table.Selection{{}, {Sample: 1}} {
			for _, format := range []table.Format{table.Auto, table.CSV} {
				_, err := readInput(t, table.Options{Format: format, Select: s, Stdin: io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken))}, "-")
				require.ErrorIs(t, err, broken, "%.10q", text)
				require.ErrorContains(t, err, "stdin", "%.10q", text)
			}
		}
	}
	in, err := table.Open([]string{"-"}, table.Options{Stdin: iotest.ErrReader(broken)})
	require.NoError(t, err)
	require.ErrorIs(t, in.Copy(), broken)
	require.False(t, in.Seekable())
}

// TestLinesThatFail: a line that is cut by an error of its file is not a record.
func TestLinesThatFail(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for format, line := range map[table.Format]string{table.Lines: `{"a":1}`, table.Text: "a line of text"} {
		for n := range len(line) + 1 {
			stdin := io.MultiReader(strings.NewReader(line+"\n"+line[:n]), iotest.ErrReader(broken))
			got, err := readInput(t, table.Options{Format: format, Stdin: stdin}, "-")
			require.ErrorIs(t, err, broken)
			require.ErrorContains(t, err, "read stdin: record 2: ")
			require.Len(t, got, 1, "%q", line[:n])
		}
	}
}

// TestContent: the content of one file as it is, but decompressed.
func TestContent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := put(t, dir, "a.csv", "x\n1\n")
	for name, c := range map[string]struct {
		o     table.Options
		paths []string
		ok    bool
	}{
		"one file":          {table.Options{}, []string{a}, true},
		"two files":         {table.Options{}, []string{a, a}, false},
		"a selection":       {table.Options{Select: table.Selection{Skip: 1}}, []string{a}, false},
		"another encoding":  {table.Options{Encoding: "latin1"}, []string{a}, false},
		"stdin":             {table.Options{Stdin: strings.NewReader("x\n1\n")}, []string{"-"}, true},
		"a compressed file": {table.Options{}, []string{put(t, dir, "b", gzipOf("x\n1\n"))}, true},
	} {
		in, err := table.Open(c.paths, c.o)
		require.NoError(t, err)
		content, err := in.Content()
		if !c.ok {
			require.ErrorIs(t, err, errors.ErrUnsupported, name)
			continue
		}
		require.NoError(t, err, name)
		text, err := io.ReadAll(content)
		require.NoError(t, err)
		require.Equal(t, "x\n1\n", string(text), name)
		require.NoError(t, content.Close())
	}
	in, err := table.Open([]string{a}, table.Options{})
	require.NoError(t, err)
	require.NoError(t, os.Remove(a))
	_, err = in.Content()
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = in.Records()
	require.ErrorIs(t, err, os.ErrNotExist)
}

func gzipOf(text string) string {
	var b strings.Builder
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text) // writes to memory
	_ = w.Close()
	return b.String()
}

// TestReasons: the reason of a failed row is left out; a record that could not be used stays an
// error, whose reason is not repeated.
func TestReasons(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const before = "the record could not be used before: correct it and remove its ingot_error ("
	got, err := readInput(t, table.Options{}, put(t, dir, "a.jsonl", `{"a":1,"ingot_error":"timeout: x","b":2}
{"ingot_error":"invalid_record: bad","a":2}
{"a":3,"ingot_error":"invalid_record: `+before+`invalid_record: bad)"}
{"a":4,"ingot_error":5}
{"a":5}
`))
	require.NoError(t, err)
	require.Equal(t, []string{`1: {"a":1,"b":2}`, "2! " + before + "invalid_record: bad)", "3! " + before + "invalid_record: bad)", `4: {"a":4}`, `5: {"a":5}`}, got)

	a, b := put(t, dir, "a.csv", "x,ingot_error\n1,timeout\n"), put(t, dir, "b.csv", "x\n2\n")
	for _, paths := range [][]string{{a, b}, {b, a}} {
		got, err = readInput(t, table.Options{}, paths...)
		require.NoError(t, err, "a file of failed rows has the columns of the others")
		require.Len(t, got, 2)
	}
	in, err := table.Open([]string{a}, table.Options{})
	require.NoError(t, err)
	columns, err := table.ColumnsOf(in.Records)
	require.NoError(t, err)
	require.Equal(t, []string{"x"}, table.Names(columns))
}

// TestColumnsOfDamagedFiles: records that cannot be read count with what could be read of them;
// other errors are returned.
func TestColumnsOfDamagedFiles(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	list := func(steps ...any) func() (table.Reader, error) {
		return func() (table.Reader, error) { return &scripted{steps: steps}, nil }
	}
	fields := []table.Field{{Name: "b", Value: []byte("1")}}
	columns, err := table.ColumnsOf(list(table.Record{Fields: []table.Field{{Name: "a", Value: []byte(`"x"`)}}}, &table.RecordError{Err: broken, Fields: fields}))
	require.NoError(t, err)
	require.Equal(t, []table.Column{{Name: "a", Kind: table.String}, {Name: "b", Kind: table.Integer}}, columns)
	_, err = table.ColumnsOf(list(broken))
	require.ErrorIs(t, err, broken)
	_, err = table.ColumnsOf(func() (table.Reader, error) { return nil, broken })
	require.ErrorIs(t, err, broken)
	_, err = table.ColumnsOf(func() (table.Reader, error) { return &scripted{closing: broken}, nil })
	require.ErrorIs(t, err, broken)
	known := []table.Column{{Name: "a", Kind: table.String}}
	columns, err = table.ColumnsOf(func() (table.Reader, error) { return &scripted{columns: known, steps: []any{broken}}, nil })
	require.NoError(t, err, "columns that are known without the records need none of them")
	require.Equal(t, known, columns)
	var many []any
	for i := range table.MaxColumns {
		many = append(many, table.Record{Fields: []table.Field{{Name: fmt.Sprint(i)}}})
	}
	columns, err = table.ColumnsOf(list(many...))
	require.NoError(t, err)
	require.Len(t, columns, table.MaxColumns)
	_, err = table.ColumnsOf(list(append(many, table.Record{Fields: fields})...))
	require.ErrorContains(t, err, "more than 10000 different columns")
}

// scripted is a reader that returns records and errors in turn.
type scripted struct {
	columns []table.Column
	steps   []any
	closing error
}

func (s *scripted) Columns() []table.Column { return s.columns }
func (s *scripted) Close() error            { return s.closing }

func (s *scripted) Next() (table.Record, error) {
	if len(s.steps) == 0 {
		return table.Record{}, io.EOF
	}
	step := s.steps[0]
	s.steps = s.steps[1:]
	if err, ok := step.(error); ok {
		return table.Record{}, err
	}
	return step.(table.Record), nil
}

// TestKinds: a column has the kind that represents all its values exactly.
func TestKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []string
		want   table.Kind
	}{
		{nil, table.String}, {[]string{"null", " null ", ""}, table.String}, {[]string{`"a"`, "null"}, table.String}, {[]string{"1", "2"}, table.Integer},
		{[]string{"1", "2.5"}, table.Number}, {[]string{"2.5", "1"}, table.Number}, {[]string{"true", "false"}, table.Boolean}, {[]string{"true", "1"}, table.JSON},
		{[]string{"[1]", "[2]"}, table.JSON}, {[]string{"{}", `"a"`}, table.JSON}, {[]string{"9007199254740993", "1"}, table.Integer},
		{[]string{"9007199254740993", "1.5"}, table.JSON}, {[]string{"1.5", "9007199254740993"}, table.JSON}, {[]string{"9007199254740992", "1.5"}, table.Number},
		{[]string{"-9007199254740992", "1.5"}, table.Number}, {[]string{"-9007199254740993", "1.5"}, table.JSON}, {[]string{"1.5", "9007199254740993", "2.5"}, table.JSON},
		{[]string{"18446744073709551616"}, table.JSON}, {[]string{"1e400"}, table.JSON}, {[]string{"1e4"}, table.Number}, {[]string{"-9223372036854775808"}, table.Integer},
	} {
		var steps []any
		for i, v := range c.values {
			steps = append(steps, table.Record{Number: i + 1, Fields: []table.Field{{Name: "a", Value: []byte(v)}}})
		}
		if c.values == nil {
			steps = append(steps, table.Record{Fields: []table.Field{{Name: "a"}}})
		}
		columns, err := table.Columns(&scripted{steps: steps})
		require.NoError(t, err)
		require.Equal(t, []table.Column{{Name: "a", Kind: c.want}}, columns, "%q", c.values)
	}
}

// full is a writer that fails.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, unix.ENOSPC }

// TestWritersOfAFullDisk: no writer loses the error of its output.
func TestWritersOfAFullDisk(t *testing.T) {
	t.Parallel()
	columns := []table.Column{{Name: "a", Kind: table.String}}
	wide := []table.Column{{Name: strings.Repeat("a", 1<<20), Kind: table.String}}
	for _, path := range []string{"a.csv", "a.tsv", "a.jsonl", "a.parquet"} {
		var err error
		out := open(t, path, full{}, columns)
		for range 200_000 {
			if err = out.Write(table.Record{Fields: []table.Field{{Name: "a", Value: []byte(`"some text"`)}}}); err != nil {
				break
			}
		}
		require.ErrorIs(t, errors.Join(err, out.Close()), unix.ENOSPC, path)
		if path != "a.parquet" {
			require.ErrorIs(t, err, unix.ENOSPC, path)
		}
		out = open(t, path, full{}, columns)
		err = out.Write(table.Record{})
		require.ErrorIs(t, errors.Join(err, out.Close()), unix.ENOSPC, path)
	}
	_, err := table.NewCSVWriter(full{}, ',', wide)
	require.ErrorIs(t, err, unix.ENOSPC)
	_, err = table.NewCSVWriter(full{}, ',', []table.Column{{}})
	require.ErrorIs(t, err, unix.ENOSPC)
	for _, columns := range [][]table.Column{nil, {{Name: "a"}, {Name: "a"}}} {
		_, err := table.NewCSVWriter(io.Discard, ',', columns)
		require.ErrorContains(t, err, "the table has ")
		_, err = table.NewJSONWriter(io.Discard, columns)
		require.ErrorContains(t, err, "the table has ")
		_, err = table.NewParquetWriter(io.Discard, columns)
		require.ErrorContains(t, err, "the table has ")
	}
	for _, path := range []string{"a.csv", "a.jsonl", "a.parquet"} {
		err := open(t, path, io.Discard, columns).Write(table.Record{Number: 7, Fields: []table.Field{{Name: "b"}}})
		require.EqualError(t, err, `record 7 has a field "b", but the table has no such column`)
		err = open(t, path, io.Discard, []table.Column{{Name: "a", Kind: table.JSON}}).Write(table.Record{Number: 7, Fields: []table.Field{{Name: "a", Value: []byte("{")}}})
		require.ErrorContains(t, err, `record 7: column "a": `, path)
	}
}

// TestSums: the checksum of a record covers its line, else the names and values of its fields.
func TestSums(t *testing.T) {
	t.Parallel()
	fields := []table.Field{{Name: "a", Value: []byte("1")}}
	line := table.Record{Line: []byte("x"), Fields: fields}
	require.Equal(t, "2d711642", line.Sum(), "the start of the SHA-256 of x")
	require.Equal(t, line.Sum(), table.Record{Line: []byte("x")}.Sum())
	seen := map[string]bool{"2d711642": true}
	for _, r := range []table.Record{
		{Fields: fields}, {Fields: []table.Field{{Name: "a", Value: []byte("2")}}}, {Fields: []table.Field{{Name: "b", Value: []byte("1")}}},
		{Fields: []table.Field{{Name: "a1", Value: nil}}}, {}, {Fields: append(fields, fields...)},
	} {
		require.Len(t, r.Sum(), 8)
		require.False(t, seen[r.Sum()], "%v", r)
		seen[r.Sum()] = true
	}
}

// TestArraysThatFail: a list in JSON that cannot be read to its end is an error at each place.
func TestArraysThatFail(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	const text = ` [ {"a": 1} , {"a":2} ] `
	for n := range len(text) {
		got, err := readInput(t, table.Options{Format: table.Array, Stdin: io.MultiReader(strings.NewReader(text[:n]), iotest.ErrReader(broken))}, "-")
		require.ErrorIs(t, err, broken, "%q %v", text[:n], got)
		if cut := text[:n]; strings.Contains(cut, "[") && !strings.Contains(cut, "]") {
			_, err = readInput(t, table.Options{Format: table.Array, Stdin: strings.NewReader(cut)}, "-")
			require.ErrorContains(t, err, "the file is incomplete: it ends too early", "%q", cut)
		}
	}
}
