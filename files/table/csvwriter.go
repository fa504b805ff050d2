package table

import (
	"encoding/csv"
	"fmt"
	"io"
)

// NewCSVWriter returns a writer of a table as CSV with a header, or as TSV if comma is a tab. A
// null is written as an empty cell, and arrays and objects as JSON. Close does not close w.
func NewCSVWriter(w io.Writer, comma rune, columns []Column) (Writer, error) {
	l, err := newLayout(columns)
	if err != nil {
		return nil, err
	}
	c := &csvWriter{layout: l, out: w, csv: csv.NewWriter(w), cells: make([]string, len(columns))}
	c.csv.Comma = comma
	for i, column := range columns {
		c.cells[i] = column.Name
	}
	if err := c.writeCells(); err != nil {
		return nil, err
	}
	return c, nil
}

type csvWriter struct {
	layout *layout
	out    io.Writer
	csv    *csv.Writer
	cells  []string // cells of a line; reused
}

func (w *csvWriter) Write(r Record) error {
	values, err := w.layout.of(r)
	if err != nil {
		return err
	}
	for i, v := range values {
		w.cells[i] = ""
		if v == nil {
			continue
		}
		if w.cells[i], err = textOf(v); err != nil {
			return fmt.Errorf("record %d: column %q: %w", r.Number, w.layout.columns[i].Name, err)
		}
	}
	return w.writeCells()
}

// writeCells writes a line. It writes a single empty cell as "", since encoding/csv would write an
// empty line, which readers skip.
func (w *csvWriter) writeCells() error {
	if len(w.cells) > 1 || w.cells[0] != "" {
		return w.csv.Write(w.cells)
	}
	w.csv.Flush()
	if err := w.csv.Error(); err != nil {
		return err
	}
	_, err := io.WriteString(w.out, "\"\"\n")
	return err
}

func (w *csvWriter) Close() error {
	w.csv.Flush()
	return w.csv.Error()
}
