package table

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// NewArrayWriter returns a writer of a table as one JSON array, with an object of NewJSONWriter on
// each line. Close does not close w.
func NewArrayWriter(w io.Writer, columns []Column) (Writer, error) {
	j, err := newJSONWriter(w, columns)
	if err != nil {
		return nil, err
	}
	j.start, j.between, j.end = "[\n", ",\n", "\n]\n"
	return j, nil
}

// NewJSONWriter returns a writer of a table as JSON Lines. Each record is an object with all
// columns in order, and null for a missing value. In arrays and objects, white space between tokens
// is removed. Close does not close w.
func NewJSONWriter(w io.Writer, columns []Column) (Writer, error) {
	j, err := newJSONWriter(w, columns)
	if err != nil {
		return nil, err
	}
	return j, nil
}

func newJSONWriter(w io.Writer, columns []Column) (*jsonWriter, error) {
	l, err := newLayout(columns)
	if err != nil {
		return nil, err
	}
	j := &jsonWriter{layout: l, out: bufio.NewWriterSize(w, bufferSize), between: "\n", end: "\n"}
	for i, c := range columns {
		name, _ := json.Marshal(c.Name) // a string can always be encoded
		start := ","
		if i == 0 {
			start = "{"
		}
		j.names = append(j.names, start+string(name)+":")
	}
	return j, nil
}

type jsonWriter struct {
	layout *layout
	out    *bufio.Writer
	names  []string // the text before the value of each column
	begun  bool     // a record was written

	start, between, end string // the text before, between and after the records
}

func (w *jsonWriter) Write(r Record) error {
	values, err := w.layout.of(r)
	if err != nil {
		return err
	}
	before := w.between
	if !w.begun {
		w.begun, before = true, w.start
	}
	w.out.WriteString(before) //nolint:errcheck // the next write returns the error
	for i, v := range values {
		text := []byte("null")
		if v != nil {
			if text, err = onOneLine(v); err != nil {
				return fmt.Errorf("record %d: column %q: %w", r.Number, w.layout.columns[i].Name, err)
			}
		}
		w.out.WriteString(w.names[i]) //nolint:errcheck // the next write returns the error
		if _, err := w.out.Write(text); err != nil {
			return err
		}
	}
	_, err = w.out.WriteString("}")
	return err
}

func (w *jsonWriter) Close() error {
	text := w.end
	if !w.begun && w.start != "" {
		text = "[]\n"
	} else if !w.begun {
		text = ""
	}
	w.out.WriteString(text) //nolint:errcheck // Flush returns the error
	return w.out.Flush()
}
