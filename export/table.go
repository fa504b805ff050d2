package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ingot-run/ingot/table"
)

// Options are the settings of a table of answers.
type Options struct {
	Answers []*Answers // each row has the answers of each, in this order
	// Input begins to read the rows that were answered, from their start. It is called twice if each record has columns of its own. If
	// it is nil, the table has the rows' custom_id.
	Input    func() (table.Reader, error)
	Selected bool   // Input leaves rows out, and the table leaves out their answers
	Prefix   string // of the generated columns
	Filter   Filter
	Format   Format
	Failed   *FailedRows // gets the rows that failed instead of the table; may be nil
}

// Counts are what came of a table.
type Counts struct {
	Records    int // of the table
	Unanswered int // rows without an answer, which the table lacks
	Dropped    map[Reason]int
	Failed     int // failed rows that were written to Options.Failed
	Unreadable int // failed rows that were not, because they cannot be read
}

// WriteTable writes a table of answers to w, in the order of the rows. It reads the rows and their answers as it writes. The error is
// ErrOtherFile if there are answers of rows that the input does not have.
func WriteTable(ctx context.Context, w io.Writer, o Options) (Counts, error) {
	t := &tableMaker{options: o, counts: Counts{Dropped: map[Reason]int{}}}
	columns, err := t.columns()
	if err != nil {
		return t.counts, err
	}
	if t.unique, err = newUnique(o.Filter.Unique, columns); err != nil {
		return t.counts, err
	}
	if t.out, err = o.Format.newWriter(w, columns); err != nil {
		return t.counts, err
	}
	in, err := t.open()
	if err != nil {
		return t.counts, err
	}
	err = t.run(ctx, in)
	err = errors.Join(err, in.Close())
	if err == nil {
		err = t.out.Close()
	}
	if err == nil && o.Failed != nil {
		err = o.Failed.close()
	}
	return t.counts, err
}

type tableMaker struct {
	options   Options
	generated []table.Column // without the prefix
	unique    *unique
	out       table.Writer
	counts    Counts
	fields    []table.Field // reused
}

// open begins to read the rows.
func (t *tableMaker) open() (table.Reader, error) {
	for _, a := range t.options.Answers {
		a.next, a.selected = 0, t.options.Selected
	}
	if t.options.Input == nil {
		return &namedRows{answers: t.options.Answers}, nil
	}
	return t.options.Input()
}

// columns returns the columns of the table.
func (t *tableMaker) columns() ([]table.Column, error) {
	in, err := t.open()
	if err != nil {
		return nil, err
	}
	input, err := table.Columns(in)
	if err := errors.Join(err, in.Close()); err != nil {
		return nil, err
	}
	if err := CheckColumns(input, t.options.Prefix); err != nil {
		return nil, err
	}
	if t.options.Failed != nil {
		t.options.Failed.columns = input
	}
	t.generated = generated(t.options.Answers)
	columns := append([]table.Column{}, input...)
	for _, c := range t.generated {
		columns = append(columns, table.Column{Name: t.options.Prefix + c.Name, Kind: c.Kind})
	}
	return columns, nil
}

func (t *tableMaker) run(ctx context.Context, in table.Reader) error {
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		record, err := in.Next()
		var damaged *table.RecordError
		switch {
		case errors.Is(err, io.EOF):
			return t.end()
		case errors.As(err, &damaged):
			record = table.Record{Number: damaged.Number, Line: damaged.Line}
		case err != nil:
			return err
		}
		if err := t.row(record, damaged != nil); err != nil {
			return err
		}
	}
}

func (t *tableMaker) end() error {
	for _, a := range t.options.Answers {
		if err := a.end(); err != nil {
			return err
		}
	}
	return nil
}

// row writes the answers of a row.
func (t *tableMaker) row(record table.Record, damaged bool) error {
	answered, failed := false, false
	for _, a := range t.options.Answers {
		e, found, err := a.of(record.Number)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		answered = true
		raw, err := a.text(e)
		if err != nil {
			return err
		}
		l, err := parseLine(raw)
		if err != nil {
			return fmt.Errorf("%s: the answer of row %d: %w", a.path, record.Number, err)
		}
		if id := nameOf(record); id != "" && id != l.CustomID && !strings.HasPrefix(l.CustomID, madeUpID) {
			return fmt.Errorf("%s was %w: row %d is %.100q there, and %.100q in the input", a.path, ErrOtherFile, record.Number, l.CustomID, id)
		}
		if l.Error != nil && t.options.Failed != nil {
			failed = true
			t.counts.Dropped[Failed]++
			continue
		}
		for _, s := range samplesOf(l, a.Model) {
			if err := t.sample(record, &s); err != nil {
				return fmt.Errorf("row %d: %w", record.Number, err)
			}
		}
	}
	switch {
	case !answered:
		t.counts.Unanswered++
	case failed:
		return t.failed(record, damaged)
	}
	return nil
}

// madeUpID is the beginning of the custom_id of an answer to a row that has none.
const madeUpID = "line-"

// nameOf returns the custom_id of a row, or its id if it is a text. It is empty if the row has none.
func nameOf(record table.Record) string {
	for _, name := range []string{customID, "id"} {
		for _, f := range record.Fields {
			var id string
			if f.Name == name && json.Unmarshal(f.Value, &id) == nil && id != "" {
				return id
			}
		}
	}
	return ""
}

// failed writes a row of which there is no answer to the file of failed rows.
func (t *tableMaker) failed(record table.Record, damaged bool) error {
	written, err := t.options.Failed.write(record, damaged)
	if written {
		t.counts.Failed++
	} else {
		t.counts.Unreadable++
	}
	return err
}

// sample writes an answer unless the filter drops it.
func (t *tableMaker) sample(record table.Record, s *sample) error {
	reason, err := t.options.Filter.drops(s)
	if err != nil {
		return err
	}
	if reason == "" {
		t.fields = append(t.fields[:0], record.Fields...)
		for _, c := range t.generated {
			t.fields = append(t.fields, table.Field{Name: t.options.Prefix + c.Name, Value: s.value(c.Name)})
		}
		if t.unique.isDuplicate(t.fields) {
			reason = Duplicate
		}
	}
	if reason != "" {
		t.counts.Dropped[reason]++
		return nil
	}
	t.counts.Records++
	return t.out.Write(table.Record{Number: record.Number, Fields: t.fields})
}

// namedRows are the rows of answers whose input is not known.
type namedRows struct {
	answers []*Answers
	next    []int // entry of each
}

var namedColumns = []table.Column{{Name: customID, Kind: table.String}}

// Columns implements table.Reader.
func (r *namedRows) Columns() []table.Column { return namedColumns }

// Next implements table.Reader.
func (r *namedRows) Next() (table.Record, error) {
	if r.next == nil {
		r.next = make([]int, len(r.answers))
	}
	first := -1
	for i, a := range r.answers {
		if r.next[i] < len(a.entries) && (first < 0 || a.entries[r.next[i]].row < r.answers[first].entries[r.next[first]].row) {
			first = i
		}
	}
	if first < 0 {
		return table.Record{}, io.EOF
	}
	e := r.answers[first].entries[r.next[first]]
	for i, a := range r.answers {
		if r.next[i] < len(a.entries) && a.entries[r.next[i]].row == e.row {
			r.next[i]++
		}
	}
	raw, err := r.answers[first].text(e)
	if err != nil {
		return table.Record{}, err
	}
	l, err := parseLine(raw)
	return table.Record{Number: int(e.row), Fields: []table.Field{{Name: customID, Value: textValue(l.CustomID)}}}, err
}

// Close implements table.Reader.
func (r *namedRows) Close() error { return nil }

// FailedRows is a file of rows that failed, in the shape of the input: a run of it answers them.
type FailedRows struct {
	w       io.Writer
	format  Format
	columns []table.Column
	out     table.Writer // nil before the first row that is not written as its line
}

// NewFailedRows returns a FailedRows that writes to w. With Batch and Simple, a row that is a line of its file is written unchanged. Other
// formats write its columns.
func NewFailedRows(w io.Writer, f Format) *FailedRows {
	if f == Batch {
		f = Simple
	}
	return &FailedRows{w: w, format: f}
}

// write writes a row. It reports whether this was possible.
func (f *FailedRows) write(record table.Record, damaged bool) (bool, error) {
	if f.format == Simple && record.Line != nil {
		_, err := f.w.Write(append(bytes.Clone(record.Line), '\n'))
		return true, err
	}
	if damaged {
		return false, nil
	}
	if err := f.open(); err != nil {
		return false, err
	}
	return true, f.out.Write(record)
}

func (f *FailedRows) open() (err error) {
	if f.out == nil {
		f.out, err = f.format.newWriter(f.w, f.columns)
	}
	return err
}

// close completes the file. A table without rows has its columns.
func (f *FailedRows) close() error {
	if f.format != Simple {
		if err := f.open(); err != nil {
			return err
		}
	}
	if f.out == nil {
		return nil
	}
	return f.out.Close()
}
