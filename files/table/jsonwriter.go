package table

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// NewJSONWriter returns a writer of a table as JSON Lines. Each record is an object with all
// columns in order, and null for a missing value. In arrays and objects, white space between tokens
// is removed. Close does not close w.
func NewJSONWriter(w io.Writer, columns []Column) (Writer, error) {
	l, err := newLayout(columns)
	if err != nil {
		return nil, err
	}
	j := &jsonWriter{layout: l, out: bufio.NewWriterSize(w, 64<<10)}
	for i, c := range columns {
		name, err := json.Marshal(c.Name)
		if err != nil {
			return nil, err
		}
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
}

func (w *jsonWriter) Write(r Record) error {
	values, err := w.layout.of(r)
	if err != nil {
		return err
	}
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
	_, err = w.out.WriteString("}\n")
	return err
}

func (w *jsonWriter) Close() error { return w.out.Flush() }
