package table

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"
)

// The writer holds a row group in memory. The group ends at groupRows rows or groupBytes bytes,
// whichever comes first.
const (
	groupRows  = 50_000
	groupBytes = 32 << 20 // bytes of values before compression
)

// Version is the version of the program, which Parquet files name as their writer. The program sets
// it when it starts.
var Version = "unknown"

// NewParquetWriter returns a writer of a table as Parquet, compressed with Snappy, which all
// readers support. All columns are optional. A JSON column has Parquet's type JSON. The writer
// holds a row group in memory. Close does not close w.
func NewParquetWriter(w io.Writer, columns []Column) (Writer, error) {
	l, err := newLayout(columns)
	if err != nil {
		return nil, err
	}
	nodes := parquet.Group{}
	for _, c := range columns {
		node, err := parquetNode(c)
		if err != nil {
			return nil, err
		}
		nodes[c.Name] = node
	}
	schema := parquet.NewSchema("table", orderedGroup{nodes, l.index})
	return &parquetWriter{
		layout: l, row: make(parquet.Row, len(columns)),
		out: parquet.NewGenericWriter[any](w, schema, parquet.CreatedBy("ingot", Version, ""), parquet.Compression(&parquet.Snappy)),
	}, nil
}

// orderedGroup is a group whose fields have the order of the table's columns. A parquet.Group sorts
// its fields by name.
type orderedGroup struct {
	parquet.Group
	index map[string]int
}

func (g orderedGroup) Fields() []parquet.Field {
	fields := g.Group.Fields()
	slices.SortFunc(fields, func(a, b parquet.Field) int { return g.index[a.Name()] - g.index[b.Name()] })
	return fields
}

func parquetNode(c Column) (parquet.Node, error) {
	switch c.Kind {
	case String:
		return parquet.Optional(parquet.String()), nil
	case Integer:
		if c.Unsigned {
			return parquet.Optional(parquet.Uint(64)), nil
		}
		return parquet.Optional(parquet.Int(64)), nil
	case Number:
		return parquet.Optional(parquet.Leaf(parquet.DoubleType)), nil
	case Boolean:
		return parquet.Optional(parquet.Leaf(parquet.BooleanType)), nil
	case JSON:
		return parquet.Optional(parquet.JSON()), nil
	}
	return nil, fmt.Errorf("column %q has the unknown kind %q", c.Name, c.Kind)
}

type parquetWriter struct {
	layout *layout
	out    *parquet.GenericWriter[any]
	row    parquet.Row // the row that is written; reused
	rows   int         // number of rows in the current row group
	bytes  int
}

func (w *parquetWriter) Write(r Record) error {
	values, err := w.layout.of(r)
	if err != nil {
		return err
	}
	for i, v := range values {
		value, defined := parquet.NullValue(), 0
		if v != nil {
			defined = 1
			if value, err = parquetValue(v, w.layout.columns[i]); err != nil {
				return fmt.Errorf("record %d: column %q: %w", r.Number, w.layout.columns[i].Name, err)
			}
		}
		w.row[i] = value.Level(0, defined, i)
		w.bytes += len(v)
	}
	if _, err := w.out.WriteRows([]parquet.Row{w.row}); err != nil {
		return err
	}
	if w.rows++; w.rows < groupRows && w.bytes < groupBytes {
		return nil
	}
	w.rows, w.bytes = 0, 0
	return w.out.Flush()
}

func parquetValue(v json.RawMessage, c Column) (parquet.Value, error) {
	got, _ := kindOf(v)
	k := c.Kind
	switch {
	case k == JSON:
		text, err := onOneLine(v)
		return parquet.ByteArrayValue(text), err
	case c.Unsigned:
		n, err := strconv.ParseUint(string(v), 10, 64)
		return parquet.Int64Value(int64(n)), err //nolint:gosec // Parquet keeps the bits of an unsigned integer
	case k == Number && (got == Integer || got == JSON && v[0] <= '9'): // a number that int64 may not hold
	case k != got:
		return parquet.Value{}, fmt.Errorf("%.40s is not a value of the column's kind, %s", v, k)
	}
	switch k {
	case Integer:
		n, err := strconv.ParseInt(string(v), 10, 64)
		return parquet.Int64Value(n), err
	case Number:
		f, err := strconv.ParseFloat(string(v), 64)
		return parquet.DoubleValue(f), err
	case Boolean:
		return parquet.BooleanValue(v[0] == 't'), nil
	}
	text, err := textOf(v)
	return parquet.ByteArrayValue([]byte(text)), err
}

func (w *parquetWriter) Close() error { return w.out.Close() }
