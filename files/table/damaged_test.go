package table_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/table"
)

// readDamaged reads a Parquet file of stdin. It returns the number of records, those with errors
// included, and the error that ended the reading.
func readDamaged(t *testing.T, text []byte) (records int, ended error) {
	t.Helper()
	in, err := table.Open([]string{"-"}, table.Options{Format: table.Parquet, Stdin: bytes.NewReader(text)})
	require.NoError(t, err)
	r, err := in.Records()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	for ; ; records++ {
		record, err := r.Next()
		var one *table.RecordError
		switch {
		case errors.Is(err, io.EOF):
			return records, nil
		case errors.As(err, &one):
			require.Equal(t, records+1, one.Number)
			record = one.Record()
		case err != nil:
			require.ErrorContains(t, err, fmt.Sprintf("read stdin: record %d: ", records+1))
			return records, err
		}
		require.Equal(t, records+1, record.Number)
		for _, f := range record.Fields {
			require.True(t, json.Valid(f.Value), "%s", f.Value)
		}
	}
}

// TestDamagedParquet: a file with a wrong byte, or one that is too short, is read in part or not at
// all. It causes no panic, and an error names the file.
func TestDamagedParquet(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"uncompressed", "snappy"} {
		whole, err := os.ReadFile(filepath.Join("testdata", name+".parquet"))
		require.NoError(t, err)
		n, err := readDamaged(t, whole)
		require.NoError(t, err)
		require.Equal(t, 40, n)
		failed := 0
		for i := 0; i < len(whole); i += 3 {
			damaged := bytes.Clone(whole)
			damaged[i] ^= byte(1 + i%255)
			n, err := readDamaged(t, damaged)
			require.LessOrEqual(t, n, 1000)
			if err != nil {
				failed++
				require.ErrorContains(t, err, "read stdin: ", i)
			}
			if i%7 == 0 {
				_, err = readDamaged(t, whole[:i])
				require.ErrorContains(t, err, "read stdin: ", i)
			}
		}
		require.Greater(t, failed, len(whole)/30)
	}
}

// TestColumnsThatParquetCannotHave: columns that cannot be read are errors that name them.
func TestColumnsThatParquetCannotHave(t *testing.T) {
	t.Parallel()
	deep := func(levels int) parquet.Node {
		n := parquet.Leaf(parquet.Int64Type)
		for range levels {
			n = parquet.Group{"g": n}
		}
		return n
	}
	for name, c := range map[string]struct {
		columns parquet.Group
		says    string
	}{
		"deep":          {parquet.Group{"a": deep(63)}, ""},
		"deeper":        {parquet.Group{"a": deep(64)}, `column "a": the column is nested more than 64 levels deep`},
		"an index only": {parquet.Group{"__index_level_0__": deep(0)}, "the file has no columns"},
		"an index too":  {parquet.Group{"__index_level_0__": deep(0), "a": deep(0)}, ""},
	} {
		var b bytes.Buffer
		w := parquet.NewGenericWriter[any](&b, parquet.NewSchema("s", c.columns))
		require.NoError(t, w.Close(), name)
		in, err := table.Open([]string{"-"}, table.Options{Stdin: &b})
		require.NoError(t, err)
		r, err := in.Records()
		if c.says != "" {
			require.EqualError(t, err, "read stdin: "+c.says, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, []string{"a"}, table.Names(r.Columns()))
		_, err = r.Next()
		require.ErrorIs(t, err, io.EOF)
		require.NoError(t, r.Close())
	}
}

// TestDamagedCSV: an error of CSV names the line, and where the record begins if quotes have joined
// several lines.
func TestDamagedCSV(t *testing.T) {
	t.Parallel()
	got, err := readInput(t, table.Options{Format: table.CSV, Stdin: strings.NewReader("a,b\n1,\"x\ny\"z\n2,3\n")}, "-")
	require.NoError(t, err)
	require.Equal(t, []string{`1! line 3, byte 2 of stdin: extraneous or missing " in quoted-field; all lines from line 2, where the record begins, are this record`, `2: {"a":"2","b":"3"}`}, got)
	got, err = readInput(t, table.Options{Format: table.CSV, Stdin: strings.NewReader("a,b\n\xff,\xfe\n2,3\n")}, "-")
	require.NoError(t, err)
	require.Equal(t, []string{`1! column "a" is not UTF-8`, `2: {"a":"2","b":"3"}`}, got, "the first fault is named")
	_, err = readInput(t, table.Options{Format: table.CSV, Stdin: strings.NewReader("a,\"b\n")}, "-")
	require.ErrorContains(t, err, "read stdin: header: ")
}

// TestConditionsThatCompareWrongly: = is not a comparison, and the error says which one is.
func TestConditionsThatCompareWrongly(t *testing.T) {
	t.Parallel()
	_, err := readInput(t, table.Options{Format: table.CSV, Stdin: strings.NewReader("x,y\n1,2\n"), Select: table.Selection{Where: "x = 1"}}, "-")
	require.EqualError(t, err, `condition "x = 1": unexpected token Operator("=") (1:3); == compares; the columns are "x", "y"`)
}

// TestLinesInADamagedEncoding: what is left of a line is a field, since the line itself is not
// known.
func TestLinesInADamagedEncoding(t *testing.T) {
	t.Parallel()
	in, err := table.Open([]string{"-"}, table.Options{Format: table.Lines, Encoding: "shift_jis", Stdin: strings.NewReader("a\xff\n{\"b\":\"\xff\"}\n")})
	require.NoError(t, err)
	r, err := in.Records()
	require.NoError(t, err)
	for _, want := range []string{fmt.Sprintf(`{%q:"a�"}`, table.LineColumn), `{"b":"�"}`} {
		_, err = r.Next()
		var one *table.RecordError
		require.ErrorAs(t, err, &one)
		require.Nil(t, one.Line)
		require.Equal(t, want, object(t, one.Record()))
	}
}
