package table_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/table"
)

// readAll returns the columns, the records, and the errors of damaged records by number.
func readAll(t *testing.T, paths ...string) (columns []table.Column, all []table.Record, failed map[int]string) {
	t.Helper()
	in, err := table.Open(paths, table.Options{})
	require.NoError(t, err)
	r, err := in.Records()
	require.NoError(t, err)
	failed = map[int]string{}
	for {
		record, err := r.Next()
		var one *table.RecordError
		switch {
		case errors.Is(err, io.EOF):
			require.NoError(t, r.Close())
			return r.Columns(), all, failed
		case errors.As(err, &one):
			failed[one.Number] = one.Error()
			continue
		}
		require.NoError(t, err)
		fields := make([]table.Field, len(record.Fields))
		for i, f := range record.Fields {
			fields[i] = table.Field{Name: f.Name, Value: append(json.RawMessage{}, f.Value...)}
		}
		all = append(all, table.Record{Number: record.Number, Fields: fields})
	}
}

func object(t *testing.T, r table.Record) string {
	t.Helper()
	text := "{"
	for i, f := range r.Fields {
		if i > 0 {
			text += ","
		}
		name, err := json.Marshal(f.Name)
		require.NoError(t, err)
		text += string(name) + ":" + string(f.Value)
	}
	return text + "}"
}

// TestReadsWhatDuckDBWrote compares columns of all types with what DuckDB reads in the same file.
// testdata/kinds.mjs has made both files.
func TestReadsWhatDuckDBWrote(t *testing.T) {
	t.Parallel()
	columns, got, failed := readAll(t, "testdata/kinds.parquet")
	require.Empty(t, failed)
	_, want, _ := readAll(t, "testdata/kinds.jsonl")
	require.Len(t, got, 40)
	require.Len(t, want, 40)
	kinds := map[string]table.Kind{}
	for _, c := range columns {
		kinds[c.Name] = c.Kind
	}
	require.Equal(t, map[string]table.Kind{
		"small": table.Integer, "count": table.Integer, "byte": table.Integer, "huge": table.Integer, "single": table.Number, "share": table.Number,
		"flag": table.Boolean, "repeated": table.String, "missing": table.String, "price": table.String, "wide": table.String, "day": table.String,
		"clock": table.String, "at_us": table.String, "at_ms": table.String, "at_ns": table.String, "at_zone": table.String, "uuid": table.String,
		"mood": table.String, "messages": table.JSON, "numbers": table.JSON, "lists": table.JSON, "struct": table.JSON, "map": table.JSON, "json": table.JSON,
	}, kinds, "the index of pandas is omitted")
	for i, w := range want {
		require.Equal(t, i+1, got[i].Number)
		require.Len(t, got[i].Fields, len(w.Fields))
		for j, f := range w.Fields {
			g := got[i].Fields[j]
			require.Equal(t, f.Name, g.Name)
			if f.Name == "single" { // DuckDB writes the value as float64
				var a, b float32
				require.NoError(t, json.Unmarshal(f.Value, &a))
				require.NoError(t, json.Unmarshal(g.Value, &b))
				require.Equal(t, a, b)
				continue
			}
			require.JSONEq(t, string(f.Value), string(g.Value), "row %d, column %s", i+1, f.Name)
			if kinds[f.Name] == table.Integer {
				require.Equal(t, string(f.Value), string(g.Value), "all 64 bits")
			}
		}
	}
}

// TestReadsWhatPyarrowWrote: float16 and maps, which DuckDB does not write in these forms.
// testdata/pyarrow_types.py has made the files.
func TestReadsWhatPyarrowWrote(t *testing.T) {
	t.Parallel()
	columns, got, failed := readAll(t, "testdata/pyarrow.parquet")
	require.Empty(t, failed)
	_, want, _ := readAll(t, "testdata/pyarrow.jsonl")
	require.Len(t, got, 7)
	require.Equal(t, []string{"before", "half", "nullable", "halves", "by_number", "by_half", "after"}, table.Names(columns))
	require.Equal(t, table.Number, columns[1].Kind)
	for i, w := range want {
		require.JSONEq(t, object(t, w), object(t, got[i]))
	}

	columns, got, failed = readAll(t, "testdata/pyarrow-empty.parquet")
	require.Len(t, columns, 7)
	require.Empty(t, got)
	require.Empty(t, failed)

	in, err := table.Open([]string{"testdata/pyarrow-twice.parquet"}, table.Options{})
	require.NoError(t, err)
	_, err = in.Records()
	require.EqualError(t, err, `read testdata/pyarrow-twice.parquet: the file has the column "s" twice: rename one of them`)
}

// TestTextThatIsNotUTF8: a record with such a text is an error, and has what can be read of it.
func TestTextThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	type row struct {
		ID   int64
		Text string
		List []string
		End  string
	}
	path := filepath.Join(t.TempDir(), "in.parquet")
	require.NoError(t, parquet.WriteFile(path, []row{{1, "caf\xe9!", []string{"a"}, "z"}, {2, "b", []string{"c\xff"}, "y"}, {3, "c", nil, "x"}}))
	in, err := table.Open([]string{path}, table.Options{})
	require.NoError(t, err)
	r, err := in.Records()
	require.NoError(t, err)
	defer r.Close()
	for _, c := range []struct{ fields, fails string }{
		{`{"ID":1,"Text":"caf\ufffd!","List":["a"],"End":"z"}`, `column "Text": the text is not UTF-8`},
		{`{"ID":2,"Text":"b","End":"y"}`, `column "List": the text is not UTF-8`},
		{`{"ID":3,"Text":"c","List":[],"End":"x"}`, ""},
	} {
		record, err := r.Next()
		if c.fails != "" {
			var damaged *table.RecordError
			require.ErrorAs(t, err, &damaged)
			require.ErrorContains(t, err, c.fails)
			record = damaged.Record()
		} else {
			require.NoError(t, err)
		}
		require.JSONEq(t, c.fields, object(t, record))
	}
}

// TestLargeNumbersOfParquet: numbers that int64 does not hold are written as they were read.
func TestLargeNumbersOfParquet(t *testing.T) {
	t.Parallel()
	type row struct {
		U uint64
		S uint32
		F float64
	}
	folder := t.TempDir()
	in, out := filepath.Join(folder, "in.parquet"), filepath.Join(folder, "out.parquet")
	rows := []row{{math.MaxUint64, math.MaxUint32, 1e19}, {1 << 63, 1, -1e20}, {7, 0, 1 << 63}, {0, 2, 1.5}}
	require.NoError(t, parquet.WriteFile(in, rows))
	columns, all, failed := readAll(t, in)
	require.Empty(t, failed)
	write(t, out, columns, all)
	got, err := parquet.ReadFile[row](out)
	require.NoError(t, err)
	require.Equal(t, rows, got)
}

// TestReadsEveryCodec reads a table that DuckDB compressed in different ways.
func TestReadsEveryCodec(t *testing.T) {
	t.Parallel()
	_, want, _ := readAll(t, "testdata/kinds.jsonl")
	for _, codec := range []string{"uncompressed", "snappy", "gzip", "lz4_raw", "brotli"} {
		_, got, failed := readAll(t, filepath.Join("testdata", codec+".parquet"))
		require.Empty(t, failed)
		require.Len(t, got, 40, codec)
		for i := range got {
			fields := map[string]json.RawMessage{}
			require.NoError(t, json.Unmarshal([]byte(object(t, want[i])), &fields))
			for _, f := range got[i].Fields {
				require.JSONEq(t, string(fields[f.Name]), string(f.Value), "%s: row %d, column %s", codec, i+1, f.Name)
			}
		}
	}
}

// FuzzParquet: no file content causes a panic.
func FuzzParquet(f *testing.F) {
	for _, name := range []string{"kinds", "uncompressed", "snappy"} {
		text, err := os.ReadFile(filepath.Join("testdata", name+".parquet"))
		require.NoError(f, err)
		f.Add(text)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(dir, "fuzz.parquet")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		in, err := table.Open([]string{path}, table.Options{})
		require.NoError(t, err)
		r, err := in.Records()
		if err != nil {
			return
		}
		defer r.Close()
		for {
			record, err := r.Next()
			var one *table.RecordError
			if errors.As(err, &one) {
				continue
			}
			if err != nil {
				return
			}
			for _, f := range record.Fields {
				require.True(t, json.Valid(f.Value), "%s", f.Value)
			}
		}
	})
}

// TestMemoryOfADamagedFooter: the length of a footer, which the file itself gives, is not allocated
// if the file is shorter.
func TestMemoryOfADamagedFooter(t *testing.T) { // not parallel, since it measures the heap
	for _, magic := range []string{"PAR1", "PARE"} {
		path := filepath.Join(t.TempDir(), "damaged.parquet")
		require.NoError(t, os.WriteFile(path, []byte("PAR1\x15\x02\x19\x9c"+magic), 0o600))
		in, err := table.Open([]string{path}, table.Options{})
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = in.Records()
		runtime.ReadMemStats(&after)
		require.EqualError(t, err, "read "+path+": the Parquet file is damaged: its footer is longer than the file")
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
	}
}

// TestRowGroups: a row group ends at 50,000 rows or 32 MiB of values, so that the writer's memory
// is limited.
func TestRowGroups(t *testing.T) {
	t.Parallel()
	long := json.RawMessage(`"` + strings.Repeat("x", 16<<20) + `"`)
	for name, c := range map[string]struct {
		value json.RawMessage
		rows  int
		want  []int64
	}{
		"short values":     {json.RawMessage(`"x"`), 100_001, []int64{50_000, 50_000, 1}},
		"a full group":     {json.RawMessage(`"x"`), 50_000, []int64{50_000}},
		"values of 16 MiB": {long, 3, []int64{2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			w, err := table.NewParquetWriter(&b, []table.Column{{Name: "text", Kind: table.String}})
			require.NoError(t, err)
			for n := range c.rows {
				require.NoError(t, w.Write(table.Record{Number: n + 1, Fields: []table.Field{{Name: "text", Value: c.value}}}))
			}
			require.NoError(t, w.Close())
			f, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
			require.NoError(t, err)
			var got []int64
			for _, g := range f.RowGroups() {
				got = append(got, g.NumRows())
			}
			require.Equal(t, c.want, got)
		})
	}
}

// annotated is a group with the annotation of another node.
type annotated struct {
	parquet.Group
	as parquet.Node
}

func (a annotated) Type() parquet.Type { return a.as.Type() }

var (
	number = parquet.Int(64)
	asList = parquet.List(number)
	asMap  = parquet.Map(number, number)
)

// TestOldLists: the element of a list is the repeated group itself, and not its only child, if the
// group has a name that old writers gave it.
func TestOldLists(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"list": `[1,2]`, "bag": `[1,2]`, "array": `[{"x":1},{"x":2}]`, "l_tuple": `[{"x":1},{"x":2}]`, "tuple": `[1,2]`,
	} {
		list := annotated{parquet.Group{name: parquet.Repeated(parquet.Group{"x": number})}, asList}
		require.Equal(t, want, readBack(t, list, [][]int64{{1, 2}}), name)
	}
}

// TestWrongAnnotations: a group with the annotation of a list or a map that does not have the
// structure of one is an object.
func TestWrongAnnotations(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		node   parquet.Node
		values [][]int64
	}{
		`{"a":[{"k":1,"v":3,"w":5},{"k":2,"v":4,"w":6}]}`: {
			annotated{parquet.Group{"a": parquet.Repeated(parquet.Group{"k": number, "v": number, "w": number})}, asMap}, [][]int64{{1, 2}, {3, 4}, {5, 6}},
		},
		`{"a":[1,2]}`:       {annotated{parquet.Group{"a": parquet.Repeated(number)}, asMap}, [][]int64{{1, 2}}},
		`{"a":1}`:           {annotated{parquet.Group{"a": number}, asList}, [][]int64{{1}}},
		`{"a":[1,2],"b":3}`: {annotated{parquet.Group{"a": parquet.Repeated(number), "b": number}, asList}, [][]int64{{1, 2}, {3}}},
	} {
		require.Equal(t, want, readBack(t, c.node, c.values))
	}
}

// readBack writes a row of one column, and returns the column's value as it is read. A leaf with
// several values is in a list.
func readBack(t *testing.T, node parquet.Node, leaves [][]int64) string {
	t.Helper()
	var row parquet.Row
	for column, values := range leaves {
		level := 0
		if len(values) > 1 {
			level = 1
		}
		for i, v := range values {
			row = append(row, parquet.ValueOf(v).Level(min(i, 1), level, column))
		}
	}
	var b bytes.Buffer
	w := parquet.NewWriter(&b, parquet.NewSchema("t", parquet.Group{"c": node}))
	_, err := w.WriteRows([]parquet.Row{row})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	path := filepath.Join(t.TempDir(), "a.parquet")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	_, all, failed := readAll(t, path)
	require.Empty(t, failed)
	require.Len(t, all, 1)
	require.Len(t, all[0].Fields, 1)
	return string(all[0].Fields[0].Value)
}

// TestReadsAMillionRowsInLittleMemory: the heap holds a page of each column, never the whole table.
func TestReadsAMillionRowsInLittleMemory(t *testing.T) { // not parallel, since it measures the heap
	rows := 1_000_000
	if testing.Short() {
		rows = 100_000
	}
	path := filepath.Join(t.TempDir(), "large.parquet")
	f, err := table.CreateFile(path)
	require.NoError(t, err)
	out, err := table.NewParquetWriter(f, []table.Column{{Name: "n", Kind: table.Integer}, {Name: "text", Kind: table.String}})
	require.NoError(t, err)
	for n := range rows {
		text := fmt.Sprintf(`"row %d of a table that is larger than the memory that its reader may take: %x"`, n, sha256.Sum256(fmt.Append(nil, n)))
		require.NoError(t, out.Write(table.Record{Number: n + 1, Fields: []table.Field{
			{Name: "n", Value: json.RawMessage(strconv.Itoa(n))}, {Name: "text", Value: json.RawMessage(text)},
		}}))
	}
	require.NoError(t, out.Close())
	require.NoError(t, f.Commit())

	in, err := table.Open([]string{path}, table.Options{})
	require.NoError(t, err)
	r, err := in.Records()
	require.NoError(t, err)
	defer r.Close()
	var peak uint64
	for n := range rows {
		record, err := r.Next()
		require.NoError(t, err)
		if n%50_000 == 25_000 {
			var stats runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&stats)
			peak = max(peak, stats.HeapAlloc)
		}
		if string(record.Fields[0].Value) != strconv.Itoa(n) {
			require.Equal(t, n, string(record.Fields[0].Value))
		}
	}
	_, err = r.Next()
	require.ErrorIs(t, err, io.EOF)
	info, err := os.Stat(path)
	require.NoError(t, err)
	t.Logf("%d MiB of heap for a file of %d MiB", peak>>20, info.Size()>>20)
	require.Less(t, peak, uint64(32<<20))
}
