package table_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/table"
)

// records is a table.Reader of records in memory.
type records struct {
	columns []table.Column
	rows    []table.Record
	next    int
}

func (r *records) Columns() []table.Column { return r.columns }
func (r *records) Close() error            { return nil }

func (r *records) Next() (table.Record, error) {
	if r.next == len(r.rows) {
		return table.Record{}, io.EOF
	}
	r.next++
	return r.rows[r.next-1], nil
}

// record returns the record of a JSON object, with the keys in the order of names.
func record(t *testing.T, number int, object string, names ...string) table.Record {
	t.Helper()
	var values map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(object), &values), object)
	r := table.Record{Number: number}
	for _, name := range names {
		if v, ok := values[name]; ok {
			r.Fields = append(r.Fields, table.Field{Name: name, Value: v})
		}
	}
	return r
}

// open returns a writer for the format that the extension of path selects.
func open(t *testing.T, path string, w io.Writer, columns []table.Column) table.Writer {
	t.Helper()
	var out table.Writer
	var err error
	switch name, _ := table.TrimCompression(path); filepath.Ext(name) {
	case ".csv":
		out, err = table.NewCSVWriter(w, ',', columns)
	case ".tsv":
		out, err = table.NewCSVWriter(w, '\t', columns)
	case ".parquet":
		out, err = table.NewParquetWriter(w, columns)
	default:
		out, err = table.NewJSONWriter(w, columns)
	}
	require.NoError(t, err)
	return out
}

func write(t *testing.T, path string, columns []table.Column, rows []table.Record) {
	t.Helper()
	f, err := table.CreateFile(path)
	require.NoError(t, err)
	out := open(t, path, f, columns)
	for _, r := range rows {
		require.NoError(t, out.Write(r))
	}
	require.NoError(t, out.Close())
	require.NoError(t, f.Commit())
}

// requireNode skips a test if Node or its libraries are not installed.
func requireNode(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("the exchange of files with other software is not tested: install Node and run npm ci in files/table/node")
	}
	if _, err := os.Stat(filepath.Join("node", "node_modules", "hyparquet-writer")); err != nil {
		t.Skip("the exchange of files with other software is not tested: run npm ci in files/table/node")
	}
}

// readWithNode returns the columns and rows of a file as Node's libraries read them.
func readWithNode(t *testing.T, path string) (columns string, rows []string) {
	t.Helper()
	requireNode(t)
	node := exec.CommandContext(t.Context(), "node", "read.mjs", path)
	node.Dir = "node"
	text, err := node.CombinedOutput()
	require.NoError(t, err, string(text))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[0], lines[1:]
}

var names = []string{"text", "count", "share", "flag", "nested"}

var kinds = []table.Column{
	{Name: "text", Kind: table.String},
	{Name: "count", Kind: table.Integer},
	{Name: "share", Kind: table.Number},
	{Name: "flag", Kind: table.Boolean},
	{Name: "nested", Kind: table.JSON},
}

// hard has records with values of each kind that are hard to write and read.
var hard = []string{
	`{"text":"plain","count":1,"share":0.5,"flag":true,"nested":{"b":[1,2],"a":"x"}}`,
	`{"text":"a, \"b\"\nand\r\nc\td","count":9223372036854775807,"share":1e300,"flag":false,"nested":[{"role":"user","content":"a,\n\"b\""}]}`,
	`{"text":"","count":-9223372036854775808,"share":-2.5e-7,"flag":false,"nested":"text"}`,
	`{"text":" é 😀 </script> \u2028 ","count":0,"share":3,"flag":true,"nested":1.5}`,
	`{"text":null,"count":null,"share":null,"flag":null,"nested":null}`,
	`{}`,
	`{"text":"=1+1\\."}`,
}

func hardRecords(t *testing.T) []table.Record {
	t.Helper()
	rows := make([]table.Record, len(hard))
	for i, object := range hard {
		rows[i] = record(t, i+1, object, names...)
	}
	return rows
}

func TestOtherSoftwareReadsTheSameValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, columns string }{
		{"t.parquet", `[["text","BYTE_ARRAY","STRING","OPTIONAL"],["count","INT64","INTEGER","OPTIONAL"],["share","DOUBLE",null,"OPTIONAL"],` +
			`["flag","BOOLEAN",null,"OPTIONAL"],["nested","BYTE_ARRAY","JSON","OPTIONAL"]]`},
		{"t.jsonl", `["text","count","share","flag","nested"]`},
		{"t.jsonl.gz", `["text","count","share","flag","nested"]`},
		{"t.csv", `["text","count","share","flag","nested"]`},
		{"t.csv.gz", `["text","count","share","flag","nested"]`},
		{"t.tsv", `["text","count","share","flag","nested"]`},
	} {
		t.Run(c.path, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), c.path)
			write(t, path, kinds, hardRecords(t))
			columns, got := readWithNode(t, path)
			require.Equal(t, c.columns, columns)
			require.Len(t, got, len(hard))
			for i, object := range hard {
				var in map[string]json.RawMessage
				require.NoError(t, json.Unmarshal([]byte(object), &in))
				parts := make([]string, len(kinds))
				for j, k := range kinds {
					parts[j] = fmt.Sprintf("%q:%s", k.Name, seen(t, c.path, k.Kind, in[k.Name]))
				}
				require.JSONEq(t, "{"+strings.Join(parts, ",")+"}", got[i], "row %d", i+1)
			}
		})
	}
}

// seen returns a value as Node's libraries must read it from a file of a format.
func seen(t *testing.T, path string, k table.Kind, v json.RawMessage) string {
	t.Helper()
	null := len(v) == 0 || string(v) == "null"
	if strings.HasPrefix(path, "t.parquet") && k == table.Integer && !null {
		return fmt.Sprintf(`{"int64":%q}`, v)
	}
	switch {
	case !strings.Contains(path, "sv") && null:
		return "null"
	case !strings.Contains(path, "sv"):
		return string(v)
	case null:
		return `""`
	case v[0] == '"':
		return string(v)
	}
	text, err := json.Marshal(string(v))
	require.NoError(t, err)
	return string(text)
}

func TestColumnsOfRecords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		values []string
		want   table.Kind
	}{
		{"text", []string{`"a"`, `null`}, table.String},
		{"nothing", []string{`null`, `null`}, table.String},
		{"integers", []string{`1`, `null`, `-9223372036854775808`}, table.Integer},
		{"numbers", []string{`1.5`, `1e-3`}, table.Number},
		{"integers, then numbers", []string{`1`, `1.5`}, table.Number},
		{"numbers, then integers", []string{`1.5`, `2`}, table.Number},
		{"exact as float64", []string{`1.5`, `9007199254740992`}, table.Number},
		{"not exact as float64", []string{`1.5`, `9007199254740993`}, table.JSON},
		{"not exact as float64, first", []string{`9007199254740993`, `1.5`, `2.5`}, table.JSON},
		{"too large for 64 bits", []string{`9223372036854775808`}, table.JSON},
		{"too large for float64", []string{`1e999`}, table.JSON},
		{"booleans", []string{`true`, `false`}, table.Boolean},
		{"objects", []string{`{"a":1}`, `[2]`}, table.JSON},
		{"text and numbers", []string{`"1"`, `1`, `"2"`}, table.JSON},
		{"booleans and numbers", []string{`true`, `1`}, table.JSON},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := &records{}
			for i, v := range c.values {
				in.rows = append(in.rows, record(t, i+1, `{"x":`+v+`}`, "x"))
			}
			got, err := table.Columns(in)
			require.NoError(t, err)
			require.Equal(t, []table.Column{{Name: "x", Kind: c.want}}, got)
		})
	}
	t.Run("order of names", func(t *testing.T) {
		t.Parallel()
		got, err := table.Columns(&records{rows: []table.Record{record(t, 1, `{"b":1}`, "b"), record(t, 2, `{"a":1,"b":"x"}`, "a", "b")}})
		require.NoError(t, err)
		require.Equal(t, []table.Column{{Name: "b", Kind: table.JSON}, {Name: "a", Kind: table.Integer}}, got)
	})
	t.Run("too many", func(t *testing.T) {
		t.Parallel()
		in := &records{}
		for i := range table.MaxColumns + 1 {
			name := fmt.Sprint("column ", i)
			in.rows = append(in.rows, record(t, i+1, fmt.Sprintf(`{%q:1}`, name), name))
		}
		_, err := table.Columns(in)
		require.EqualError(t, err, "the records have more than 10000 different columns, which is the maximum")
	})
}

func TestWritersRefuse(t *testing.T) {
	t.Parallel()
	one := []table.Column{{Name: "a", Kind: table.Integer}}
	for _, path := range []string{"x.csv", "x.jsonl", "x.parquet"} {
		err := open(t, path, io.Discard, one).Write(record(t, 7, `{"b":1}`, "b"))
		require.EqualError(t, err, `record 7 has a field "b", but the table has no such column`)
	}
	err := open(t, "x.parquet", io.Discard, one).Write(record(t, 7, `{"a":"x"}`, "a"))
	require.EqualError(t, err, `record 7: column "a": "x" is not a value of the column's kind, integer`)
	_, err = table.NewJSONWriter(io.Discard, append(one, one...))
	require.EqualError(t, err, `the table has two columns with the name "a"`)
	_, err = table.NewCSVWriter(io.Discard, ',', nil)
	require.EqualError(t, err, "the table has no columns: it needs at least one")
	_, err = table.NewParquetWriter(io.Discard, []table.Column{{Name: "a", Kind: "date"}})
	require.EqualError(t, err, `column "a" has the unknown kind "date"`)
}

// A column of numbers has all of JSON's numbers, also those that an int64 does not hold, and
// nothing else.
func TestParquetColumnsOfNumbers(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"1": "1", "-2.5": "-2.5", "1e3": "1000", "12345678901234567890": "12345678901234567000", "-12345678901234567890": "-12345678901234567000",
		`"1"`: "", "true": "", "{}": "", "[1]": "",
	} {
		var b bytes.Buffer
		w := open(t, "x.parquet", &b, []table.Column{{Name: "a", Kind: table.Number}})
		err := w.Write(record(t, 7, `{"a":`+value+`}`, "a"))
		if want == "" {
			require.EqualError(t, err, `record 7: column "a": `+value+" is not a value of the column's kind, number")
			continue
		}
		require.NoError(t, err, value)
		require.NoError(t, w.Close())
		path := filepath.Join(t.TempDir(), "x.parquet")
		require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
		in, err := table.Open([]string{path}, table.Options{})
		require.NoError(t, err)
		r, err := in.Records()
		require.NoError(t, err)
		got, err := r.Next()
		require.NoError(t, err)
		require.JSONEq(t, want, string(got.Fields[0].Value))
		require.NoError(t, errors.Join(r.Close(), in.Close()))
	}
}

// Readers skip empty lines, so an empty cell in a table of one column must not become one.
func TestCSVOfOneColumnHasNoEmptyLines(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w, err := table.NewCSVWriter(&b, ',', []table.Column{{Name: "a", Kind: table.String}})
	require.NoError(t, err)
	for i, v := range []string{`"x"`, `""`, `"y"`} {
		require.NoError(t, w.Write(record(t, i+1, `{"a":`+v+`}`, "a")))
	}
	require.NoError(t, w.Close())
	require.Equal(t, "a\nx\n\"\"\ny\n", b.String())
}
