package table_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/table"
)

// put writes a file for a test and returns its path.
func put(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// numbered returns the records of r as "number: JSON", and their errors as "number! message".
func numbered(t *testing.T, r table.Reader) (list []string, err error) {
	t.Helper()
	for {
		record, err := r.Next()
		var one *table.RecordError
		switch {
		case errors.Is(err, io.EOF):
			return list, r.Close()
		case errors.As(err, &one):
			list = append(list, fmt.Sprintf("%d! %s", one.Number, one.Error()))
		case err != nil:
			return list, errors.Join(err, r.Close())
		default:
			list = append(list, fmt.Sprintf("%d: %s", record.Number, object(t, record)))
		}
	}
}

func readInput(t *testing.T, o table.Options, paths ...string) ([]string, error) {
	t.Helper()
	in, err := table.Open(paths, o)
	if err != nil {
		return nil, err
	}
	defer func() { require.NoError(t, in.Close()) }()
	r, err := in.Records()
	if err != nil {
		return nil, err
	}
	return numbered(t, r)
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"mark.csv", "\ufeffa,b\r\n1,\"x\r\ny, \"\"z\"\"\"\r\n\r\n2,\n", []string{`1: {"a":"1","b":"x\r\ny, \"z\""}`, `2: {"a":"2","b":""}`}},
		{"ragged.csv", "a,b\n1\n1,2\n1,2,3\n", []string{`1! the header has 2 columns, and this record has 1 (line 2 of ragged.csv)`, `2: {"a":"1","b":"2"}`,
			`3! the header has 2 columns, and this record has 3 (line 4 of ragged.csv)`}},
		{"quote.csv", "a,b\n1,x\"y\n\"1\"z,2\n1,2\n", []string{`1! line 2, byte 4 of quote.csv: bare " in non-quoted-field`,
			`2! line 3, byte 3 of quote.csv: extraneous or missing " in quoted-field`, `3: {"a":"1","b":"2"}`}},
		{"latin.csv", "a,b\n1,\xe9\n1,2\n", []string{`1! column "b" is not UTF-8`, `2: {"a":"1","b":"2"}`}},
		{"tabs.tsv", "a\tb\n1, 2\t\"x\ty\"\n", []string{`1: {"a":"1, 2","b":"x\ty"}`}},
		{"header.csv", "a,b\n", nil},
		{"lines.jsonl", "{\"a\": 1}\n\n [1]\n{\"a\":\n{ \"b\" : {\"c\":[\"}\\\"\"]} ,\"d\":-1.50}\n", []string{`1: {"a":1}`, `3! the record is not a JSON object`,
			`4! the record is not valid JSON at byte 6: the text ends where a value is expected`, `5: {"b":{"c":["}\""]},"d":-1.50}`}},
		{"array.json", " [ {\"a\": 1},\n {\"a\": [2]}, 3, {} ]\n", []string{`1: {"a":1}`, `2: {"a":[2]}`, `3! the record is not a JSON object`, `4: {}`}},
		{"array.jsonl", "[{\"a\":1}]", []string{`1: {"a":1}`}},
		{"empty.json", "[]", nil},
		{"pretty.json", "{\n \"a\": 1\n}\n{\n \"a\": 2\n}", []string{`1: {"a":1}`, `2: {"a":2}`}},
		{"lines.json", "{\"a\":1}\n\n{\"a\":2}\n", []string{`1: {"a":1}`, `3: {"a":2}`}},
		{"text.txt", "\ufeffone\n\n [two\r\n", []string{`1: {"text":"one"}`, `3: {"text":" [two"}`}},
		{"bytes.txt", "one\n\xff\n", []string{`1: {"text":"one"}`, `2! the record is not UTF-8`}},
		{"guess", "\n\n{\"a\":1}", []string{`3: {"a":1}`}},
		{"nothing", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := put(t, dir, c.name, c.text)
			want := make([]string, len(c.want))
			for i, w := range c.want {
				want[i] = strings.ReplaceAll(w, c.name, path)
			}
			got, err := readInput(t, table.Options{}, path)
			require.NoError(t, err)
			require.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"))

			// The same content, compressed in two parts and without an extension in the name.
			format, err := table.ParseFormat(strings.TrimPrefix(filepath.Ext(c.name), "."))
			if err != nil || format == table.Array || format == table.Lines {
				format = table.Auto
			}
			for kind, pack := range map[string]func(*bytes.Buffer, string){"gzip": gzipPart, "zstd": zstdPart} {
				var b bytes.Buffer
				pack(&b, c.text[:len(c.text)/2])
				pack(&b, c.text[len(c.text)/2:])
				got, err := readInput(t, table.Options{Format: format}, put(t, dir, kind, b.String()))
				require.NoError(t, err)
				require.Equal(t, strings.ReplaceAll(strings.Join(want, "\n"), path, filepath.Join(dir, kind)), strings.Join(got, "\n"), kind)

				// With the extension of the compression after that of the format.
				named := c.name + map[string]string{"gzip": ".gz", "zstd": ".zst"}[kind]
				got, err = readInput(t, table.Options{}, put(t, dir, named, b.String()))
				require.NoError(t, err)
				require.Equal(t, strings.ReplaceAll(strings.Join(want, "\n"), path, filepath.Join(dir, named)), strings.Join(got, "\n"), named)
			}
		})
	}
}

func gzipPart(b *bytes.Buffer, text string) {
	w := gzip.NewWriter(b)
	_, _ = w.Write([]byte(text)) // writes to memory
	_ = w.Close()
}

func zstdPart(b *bytes.Buffer, text string) {
	w, _ := zstd.NewWriter(b)
	_, _ = w.Write([]byte(text)) // writes to memory
	_ = w.Close()
}

func TestRefusedFiles(t *testing.T) {
	t.Parallel()
	var cut, twice bytes.Buffer
	gzipPart(&cut, strings.Repeat("a,b\n1,2\n", 1000))
	gzipPart(&twice, cut.String())
	for _, c := range []struct{ name, text, want string }{
		{"empty.csv", "", "the file is empty: its first line must name the columns"},
		{"twice.csv", "a,b,a\n", `the header has the column "a" twice: rename one of them`},
		{"unnamed.csv", "a,,b\n", "column 2 of the header has no name: name it"},
		{"mac.csv", "id,text\ra,Hi\rb,Ho\r", `the header has a carriage return without a line feed: if all lines end so, convert them, for example with tr '\r' '\n'`},
		{"latin.csv", "caf\xe9\n", "the header is not UTF-8"},
		{"open.csv", "a,b\n1,\"" + strings.Repeat("x", 17<<20), "record 1: the record is longer than 16 MiB: a quote or bracket may be missing before this point"},
		{"open.json", "[{\"a\":\"" + strings.Repeat("x", 17<<20), "record 1: the record is longer than 16 MiB"},
		{"broken.json", "[{\"a\":1},\n{\"a\"1}]", "record 2: the text is not JSON at byte"},
		{"cut.json", "[{\"a\":1}", "record 2: the file is incomplete: it ends too early"},
		{"cut.csv.gz", cut.String()[:cut.Len()-20], "the file is incomplete: it ends too early"},
		{"early.csv.gz", cut.String()[:20], "early.csv.gz: the file is incomplete: it ends too early"},
		{"start.csv.gz", cut.String()[:5], "start.csv.gz: the file is incomplete: it ends too early"},
		{"early.txt.gz", cut.String()[:20], "the file is incomplete: it ends too early"},
		{"twice.csv.gz", twice.String(), "the file is compressed twice"},
		{"utf16.csv", "\xff\xfea\x00", "the file is UTF-16: convert it"},
		{"sheet.csv", "PK\x03\x04", "the file is a zip archive or a spreadsheet"},
		{"bad.parquet", "PAR1 and more", "bad.parquet: "},
		{"short.parquet", "PAR1", "short.parquet: "},
		{"cut.parquet", "PAR1" + strings.Repeat("x", 100), "the Parquet file is damaged or incomplete: its end is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := readInput(t, table.Options{}, put(t, t.TempDir(), c.name, c.text))
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, c.name)
			require.Less(t, len(err.Error()), 400)
		})
	}
}

func TestSeveralFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, name := range []string{"b.csv", "a.csv", "c.tsv"} {
		put(t, dir, name, fmt.Sprintf("x\n%d\n%d\n", 10*i, 10*i+1))
	}
	put(t, dir, "other.csv", "y\n1\n")
	put(t, dir, "strange[1].csv", "x\n7\n")
	put(t, dir, "x.jsonl", "{\"x\":1}\n")
	at := func(name string) string { return filepath.Join(dir, name) }
	got, err := readInput(t, table.Options{}, at("?.csv"), at("c.tsv"), at("strange[1].csv"))
	require.NoError(t, err)
	require.Equal(t, []string{`1: {"x":"10"}`, `2: {"x":"11"}`, `3: {"x":"0"}`, `4: {"x":"1"}`, `5: {"x":"20"}`, `6: {"x":"21"}`, `7: {"x":"7"}`}, got)

	for _, c := range []struct {
		paths []string
		want  string
	}{
		{[]string{at("a.csv"), at("other.csv")}, `other.csv has other columns ("y") than ` + at("a.csv") + ` ("x"): give them in separate commands`},
		{[]string{at("a.csv"), at("x.jsonl")}, at("a.csv") + " and " + at("x.jsonl") + " cannot be read together, since in only one of them all records have the same columns, as in CSV: give them"},
		{[]string{at("x.jsonl"), at("a.csv")}, at("x.jsonl") + " and " + at("a.csv") + " cannot be read together"},
		{[]string{at("none*.csv")}, "no file matches the pattern"},
		{[]string{at("missing.csv")}, "open " + at("missing.csv") + ": no such file or directory"},
		{[]string{dir}, "it is a folder: give its files, such as '" + dir + "/*.csv'"},
		{[]string{"-", at("a.csv")}, "stdin (-) cannot be read together with files"},
	} {
		_, err := readInput(t, table.Options{}, c.paths...)
		require.ErrorContains(t, err, c.want)
	}
}

// TestStdin: stdin can be read once, or repeatedly if it is a file or was copied.
func TestStdin(t *testing.T) {
	t.Parallel()
	const text = "x\n1\n2\n"
	want := []string{`1: {"x":"1"}`, `2: {"x":"2"}`}
	in, err := table.Open([]string{"-"}, table.Options{Format: table.CSV, Stdin: strings.NewReader(text)})
	require.NoError(t, err)
	require.False(t, in.Seekable())
	r, err := in.Records()
	require.NoError(t, err)
	got, err := numbered(t, r)
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = in.Records()
	require.EqualError(t, err, "stdin cannot be read a second time: write it to a file first")

	f, err := os.Open(put(t, t.TempDir(), "a.csv", "left out\n"+text))
	require.NoError(t, err)
	defer f.Close()
	_, err = f.Seek(9, io.SeekStart)
	require.NoError(t, err)
	for name, stdin := range map[string]io.Reader{"file": f, "copy": strings.NewReader(text)} {
		in, err := table.Open([]string{"-"}, table.Options{Format: table.CSV, Stdin: stdin})
		require.NoError(t, err)
		require.NoError(t, in.Copy())
		for range 2 {
			r, err := in.Records()
			require.NoError(t, err)
			got, err := numbered(t, r)
			require.NoError(t, err)
			require.Equal(t, want, got, name)
		}
		require.NoError(t, in.Close())
	}
}
