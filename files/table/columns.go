package table

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// MaxColumns is the maximum number of columns of a table. Without a limit, JSON records whose names
// are values, such as ids, would each add a column.
const MaxColumns = 10_000

// Columns returns the columns of r. If each record has its own columns, Columns reads all records.
// It then returns all their columns in the order of their first occurrence, with the kind that fits
// all values of the column. Records with errors count with the fields that could be read. More than
// MaxColumns columns are an error.
func Columns(r Reader) ([]Column, error) {
	if columns := r.Columns(); columns != nil {
		return columns, nil
	}
	var s Scan
	for {
		record, err := r.Next()
		var one *RecordError
		switch {
		case errors.Is(err, io.EOF):
			return s.Columns(), nil
		case errors.As(err, &one):
			record = one.Record()
		case err != nil:
			return nil, err
		}
		if err := s.Add(record.Fields); err != nil {
			return nil, err
		}
	}
}

// ColumnsOf returns the columns of the reader that open returns, as Columns does, and closes it.
func ColumnsOf(open func() (Reader, error)) ([]Column, error) {
	r, err := open()
	if err != nil {
		return nil, err
	}
	columns, err := Columns(r)
	return columns, errors.Join(err, r.Close())
}

// Scan finds the columns of records that each have their own fields.
type Scan struct {
	names []string
	seen  map[string]*scanned
}

type scanned struct {
	kind Kind // empty if all values were null
	wide bool // the column has an integer that float64 cannot represent exactly
}

// NewScan returns a Scan whose first columns are known before any record. A column's kind changes
// if a value does not fit it. An empty Kind is decided by the values.
func NewScan(known []Column) *Scan {
	s := &Scan{seen: map[string]*scanned{}}
	for _, c := range known {
		s.names, s.seen[c.Name] = append(s.names, c.Name), &scanned{kind: c.Kind}
	}
	return s
}

// Add adds the fields of a record. More than MaxColumns columns are an error.
func (s *Scan) Add(fields []Field) error {
	if s.seen == nil {
		s.seen = map[string]*scanned{}
	}
	for _, f := range fields {
		c := s.seen[f.Name]
		if c == nil {
			if len(s.names) == MaxColumns {
				return fmt.Errorf("the records have more than %d different columns, which is the maximum", MaxColumns)
			}
			c = &scanned{}
			s.names, s.seen[f.Name] = append(s.names, f.Name), c
		}
		c.add(f.Value)
	}
	return nil
}

// Columns returns the columns in the order of their first occurrence, with the kind that fits all
// values of the column.
func (s *Scan) Columns() []Column {
	columns := make([]Column, len(s.names))
	for i, name := range s.names {
		columns[i] = Column{Name: name, Kind: cmp.Or(s.seen[name].kind, String)}
	}
	return columns
}

func (c *scanned) add(value json.RawMessage) {
	kind, wide := kindOf(value)
	c.wide = c.wide || wide
	switch {
	case kind == "" || kind == c.kind && (kind != Number || !c.wide):
	case c.kind == "":
		c.kind = kind
	case isNumeric(kind) && isNumeric(c.kind) && !c.wide:
		c.kind = Number
	default:
		c.kind = JSON
	}
}

func isNumeric(k Kind) bool { return k == Integer || k == Number }

func isNull(value json.RawMessage) bool {
	return len(value) == 0 || string(bytes.TrimSpace(value)) == "null"
}

// kindOf returns the kind of a value; empty for null. wide reports whether the value is an integer
// that float64 cannot represent exactly. A number that neither Integer nor Number represents has
// the kind JSON.
func kindOf(value json.RawMessage) (kind Kind, wide bool) {
	text := string(bytes.TrimSpace(value))
	switch {
	case text == "" || text == "null":
		return "", false
	case text[0] == '"':
		return String, false
	case text == "true" || text == "false":
		return Boolean, false
	case text[0] == '{' || text[0] == '[':
		return JSON, false
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return Integer, n > 1<<53 || n < -1<<53
	}
	if f, err := strconv.ParseFloat(text, 64); err != nil || math.IsInf(f, 0) || !strings.ContainsAny(text, ".eE") {
		return JSON, false
	}
	return Number, false
}

type layout struct {
	columns []Column
	index   map[string]int
	values  []json.RawMessage // reused
}

func newLayout(columns []Column) (*layout, error) {
	if len(columns) == 0 {
		return nil, errors.New("the table has no columns: it needs at least one")
	}
	l := &layout{columns: columns, index: make(map[string]int, len(columns)), values: make([]json.RawMessage, len(columns))}
	for i, c := range columns {
		if _, twice := l.index[c.Name]; twice {
			return nil, fmt.Errorf("the table has two columns with the name %q", c.Name)
		}
		l.index[c.Name] = i
	}
	return l, nil
}

// of returns the values of a record in the order of the columns, with nil for null. They are valid
// until the next call.
func (l *layout) of(r Record) ([]json.RawMessage, error) {
	clear(l.values)
	for i, f := range r.Fields {
		at := i
		if i >= len(l.columns) || l.columns[i].Name != f.Name {
			var ok bool
			if at, ok = l.index[f.Name]; !ok {
				return nil, fmt.Errorf("record %d has a field %q, but the table has no such column", r.Number, f.Name)
			}
		}
		if !isNull(f.Value) {
			l.values[at] = bytes.TrimSpace(f.Value)
		}
	}
	return l.values, nil
}

// textOf returns a value as text: a string as its content, any other value as JSON on one line.
func textOf(value json.RawMessage) (string, error) {
	if len(value) > 0 && value[0] == '"' {
		var s string
		err := json.Unmarshal(value, &s)
		return s, err
	}
	compact, err := onOneLine(value)
	return string(compact), err
}

func onOneLine(value json.RawMessage) ([]byte, error) {
	var b bytes.Buffer
	err := json.Compact(&b, value)
	return b.Bytes(), err
}
