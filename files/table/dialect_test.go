package table_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/files/table"
)

func TestDelimiters(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]rune{
		"tab": '\t', "TAB": '\t', `\t`: '\t', "\t": '\t', "comma": ',', "semicolon": ';', ";": ';', "|": '|', " ": ' ', "~": '~',
		"": 0, ";;": 0, `"`: 0, "\n": 0, "\r": 0, "\x00": 0, "é": 0, "\x80": 0, "\uFFFD": 0, "bar": 0,
	} {
		got, err := table.ParseComma(s)
		require.Equal(t, want, got, "%q", s)
		if want == 0 {
			require.EqualError(t, err, fmt.Sprintf("%q is not one character of ASCII: give one, such as ';', or tab", s))
		} else {
			require.NoError(t, err)
		}
	}
	for names, want := range map[string]string{
		"a;b": "semicolons, give --delimiter ';'", "a\tb": "tabs, give --delimiter tab", "a|b": "bars, give --delimiter '|'", "a;b|c": "semicolons, give --delimiter ';'",
		"a": "", "a,b;c": "", "": "",
	} {
		got := table.DelimiterHint(strings.Split(names, ","))
		if want != "" {
			want = "; if the columns are separated by " + want
		}
		require.Equal(t, want, got, names)
	}
}

func TestListOfFormats(t *testing.T) {
	t.Parallel()
	var names []string
	for name, help := range table.Formats() {
		require.NotEmpty(t, help)
		if names = append(names, string(name)); name == table.Lines {
			break
		}
	}
	require.Equal(t, []string{"csv", "tsv", "parquet", "json", "jsonl"}, names)
	require.Equal(t, "auto, csv, tsv, parquet, json, jsonl or text", table.FormatNames())
}

// TestBinaryFiles: a text may have a few zeros; a file with many, or with other bytes that are not
// UTF-8, is not a text.
func TestBinaryFiles(t *testing.T) {
	t.Parallel()
	long := "\x00" + strings.Repeat("é", 40_000) // the last character of what is looked at is cut off
	for text, binary := range map[string]bool{
		"ten letters": false, "\xff": false, strings.Repeat("a", 10) + "\x00": false, strings.Repeat("a", 9) + "\x00": true, strings.Repeat("a", 20) + "\x00\x00": false,
		strings.Repeat("a", 18) + "\x00\x00": true, strings.Repeat("a", 99) + "\x00\xff" + strings.Repeat("a", 99): true, strings.Repeat("a", 99) + "\x00\xc3": false, "": false,
		strings.Repeat("a", 99) + "\x00\xf0\x9f\x98": false, strings.Repeat("a", 99) + "\x00\x98\x98\x98\x98": true, // up to 3 bytes of a character may be cut off
		"\x00": true, long: false, long[:len(long)-1]: false,
	} {
		path := put(t, t.TempDir(), "a.txt", text)
		_, err := readInput(t, table.Options{Format: table.Text}, path)
		if binary {
			require.EqualError(t, err, "read "+path+": the file is binary, since it has bytes that are zero: give a file of text (for UTF-16, give --encoding utf-16le or utf-16be)", "%.30q", text)
			continue
		}
		if err != nil {
			require.NotContains(t, err.Error(), "the file is binary", "%.30q", text)
		}
	}
	path := put(t, t.TempDir(), "a.txt", "a\x00b\x00\n\x00")
	got, err := readInput(t, table.Options{Format: table.Text, Encoding: "utf-16le"}, path)
	require.NoError(t, err)
	require.Equal(t, []string{`1: {"text":"ab"}`}, got)
	for encoding, text := range map[string]string{"utf-16le": "a\x00\x00\x00\x00\x00\n\x00", "windows-1252": "a\x00\x00\n"} {
		path := put(t, t.TempDir(), "a.txt", text)
		got, err := readInput(t, table.Options{Format: table.Text, Encoding: encoding}, path)
		require.NoError(t, err, encoding)
		require.Equal(t, []string{`1: {"text":"a\u0000\u0000"}`}, got, "whoever gives an encoding knows that the file is text")
	}
}

// TestKnownColumns: columns that are known before any record come first. Values change their kinds
// only if they do not fit.
func TestKnownColumns(t *testing.T) {
	t.Parallel()
	s := table.NewScan([]table.Column{{Name: "n", Kind: table.Integer}, {Name: "free"}, {Name: "text", Kind: table.String}, {Name: "x", Kind: table.Integer}, {Name: "wide", Kind: table.Integer}})
	for _, object := range []string{`{"late":true,"text":"a","n":5}`, `{"free":1.5,"x":2.5}`, `{"n":null,"text":5,"wide":9007199254740993}`, `{"wide":0.5}`} {
		require.NoError(t, s.Add(record(t, 1, object, "late", "text", "n", "free", "x", "wide").Fields))
	}
	require.Equal(t, []table.Column{
		{Name: "n", Kind: table.Integer}, {Name: "free", Kind: table.Number}, {Name: "text", Kind: table.JSON}, {Name: "x", Kind: table.Number}, {Name: "wide", Kind: table.JSON},
		{Name: "late", Kind: table.Boolean},
	}, s.Columns())
	require.Equal(t, []table.Column{{Name: "a", Kind: table.String}}, table.NewScan([]table.Column{{Name: "a"}}).Columns())
	var empty table.Scan
	require.NoError(t, empty.Add(record(t, 1, `{"a":1}`, "a").Fields))
	require.Equal(t, []table.Column{{Name: "a", Kind: table.Integer}}, empty.Columns())
}

// TestWrittenTexts: what each writer makes of the same records, to the last byte.
func TestWrittenTexts(t *testing.T) {
	t.Parallel()
	columns := []table.Column{{Name: "a", Kind: table.String}, {Name: `"b"`, Kind: table.JSON}}
	all := []table.Record{
		record(t, 1, `{"a":"x,\n","\"b\"":[1, {"c": 2}]}`, "a", `"b"`), record(t, 2, `{}`), record(t, 3, `{"\"b\"": "\ttab" , "a": null}`, `"b"`, "a"), record(t, 4, `{"a":""}`, "a"),
	}
	for name, c := range map[string]struct {
		open func(w io.Writer, columns []table.Column) (table.Writer, error)
		want [3]string // of no records, one, and all
	}{
		"csv": {func(w io.Writer, columns []table.Column) (table.Writer, error) {
			return table.NewCSVWriter(w, ',', columns)
		}, [3]string{
			"a,\"\"\"b\"\"\"\n", "a,\"\"\"b\"\"\"\n\"x,\n\",\"[1,{\"\"c\"\":2}]\"\n", "a,\"\"\"b\"\"\"\n\"x,\n\",\"[1,{\"\"c\"\":2}]\"\n,\n,\"\ttab\"\n,\n"}},
		"tsv": {func(w io.Writer, columns []table.Column) (table.Writer, error) {
			return table.NewCSVWriter(w, '\t', columns)
		}, [3]string{
			"a\t\"\"\"b\"\"\"\n", "a\t\"\"\"b\"\"\"\n\"x,\n\"\t\"[1,{\"\"c\"\":2}]\"\n", "a\t\"\"\"b\"\"\"\n\"x,\n\"\t\"[1,{\"\"c\"\":2}]\"\n\t\n\t\"\ttab\"\n\t\n"}},
		"lines": {table.NewJSONWriter, [3]string{
			"", `{"a":"x,\n","\"b\"":[1,{"c":2}]}` + "\n",
			`{"a":"x,\n","\"b\"":[1,{"c":2}]}` + "\n" + `{"a":null,"\"b\"":null}` + "\n" + `{"a":null,"\"b\"":"\ttab"}` + "\n" + `{"a":"","\"b\"":null}` + "\n"}},
		"array": {table.NewArrayWriter, [3]string{
			"[]\n", "[\n" + `{"a":"x,\n","\"b\"":[1,{"c":2}]}` + "\n]\n",
			"[\n" + `{"a":"x,\n","\"b\"":[1,{"c":2}]}` + ",\n" + `{"a":null,"\"b\"":null}` + ",\n" + `{"a":null,"\"b\"":"\ttab"}` + ",\n" + `{"a":"","\"b\"":null}` + "\n]\n"}},
	} {
		for i, n := range []int{0, 1, len(all)} {
			var b bytes.Buffer
			w, err := c.open(&b, columns)
			require.NoError(t, err)
			for _, r := range all[:n] {
				require.NoError(t, w.Write(r))
			}
			require.NoError(t, w.Close())
			require.Equal(t, c.want[i], b.String(), name)
		}
	}
	_, err := table.NewArrayWriter(io.Discard, nil)
	require.ErrorContains(t, err, "the table has no columns")
	large := []table.Field{{Name: "a", Value: []byte(`"` + strings.Repeat("x", 70<<10) + `"`)}}
	w, err := table.NewArrayWriter(full{}, columns)
	require.NoError(t, err)
	require.ErrorIs(t, w.Write(table.Record{Fields: large}), unix.ENOSPC)
}

// TestArraysWithDamagedTexts: of an object that is not UTF-8, or that is no object, the rest can be
// read.
func TestArraysWithDamagedTexts(t *testing.T) {
	t.Parallel()
	path := put(t, t.TempDir(), "a.json", `[{"id":1,"text":"M`+"\xfc"+`ller"},5,{"id":3}]`)
	in, err := table.Open([]string{path}, table.Options{})
	require.NoError(t, err)
	r, err := in.Records()
	require.NoError(t, err)
	_, err = r.Next()
	var damaged *table.RecordError
	require.ErrorAs(t, err, &damaged)
	require.Equal(t, 1, damaged.Number)
	require.ErrorContains(t, err, "the record is not UTF-8")
	require.JSONEq(t, `{"id":1,"text":"M`+"\uFFFD"+`ller"}`, object(t, damaged.Record()))
	_, err = r.Next()
	require.ErrorAs(t, err, &damaged)
	require.Equal(t, 2, damaged.Number)
	require.Equal(t, `{"line":5}`, object(t, damaged.Record()))
	last, err := r.Next()
	require.NoError(t, err)
	require.Equal(t, []string{"3", `{"id":3}`}, []string{fmt.Sprint(last.Number), object(t, last)})
	_, err = r.Next()
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, r.Close())
}

// TestFilesOfFailedRows: OpenFailed reads the column of reasons, which other readers leave out.
func TestFilesOfFailedRows(t *testing.T) {
	t.Parallel()
	path := put(t, t.TempDir(), "a.csv", "id,ingot_error\n1,timeout\n")
	r, err := table.OpenFailed(path)
	require.NoError(t, err)
	require.Equal(t, []string{"id", "ingot_error"}, table.Names(r.Columns()))
	one, err := r.Next()
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"1","ingot_error":"timeout"}`, object(t, one))
	require.NoError(t, r.Close())
	_, err = table.OpenFailed(filepath.Join(t.TempDir(), "none.csv"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
