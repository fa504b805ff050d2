package export

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
)

// Options are the settings of a table of answers.
type Options struct {
	Answers []*Answers // files of answers; a row has its answers from each file, in this order
	// Input returns a reader of the rows that were answered, from their start. It is called twice:
	// first for the columns, then for the rows. If Input is nil, the table has the rows' custom_id
	// instead of the input's columns.
	Input    func() (table.Reader, error)
	Selected bool     // Input leaves out rows; the table leaves out the answers to these rows
	Fields   Fields   // columns that are made from the texts of answers
	Prefix   string   // prefix of the names of generated columns
	Columns  []string // names of the table's columns in their order; empty for all
	Texts    bool     // columns of an input without types, such as CSV, are texts in a table with types
	Filter   Filter
	Format   Format
	Failed   *FailedRows // receives the failed rows instead of the table; nil writes them to the table
}

// Counts has the numbers of records and rows that WriteTable wrote or left out.
type Counts struct {
	Records    int            // records in the table
	Unanswered int            // rows without an answer, which the table leaves out
	Dropped    map[Reason]int // answers that are not in the table, by the reason
	Failed     int            // failed rows that were written to Options.Failed
	Unparsed   int            // answers whose texts could not become columns, which count as failed
}

// WriteTable writes a table of answers to w in the order of the rows. It holds only the current row
// and its answers in memory. The error is rows.ErrOtherFile if there are answers to rows that the
// input does not have, or to a row with another id in the input.
func WriteTable(ctx context.Context, w io.Writer, o Options) (Counts, error) {
	t := &tableMaker{options: o, counts: Counts{Dropped: map[Reason]int{}}}
	columns, err := t.columns()
	if err != nil {
		return t.counts, err
	}
	if t.unique, err = newUnique(o.Filter.Unique, columns); err != nil {
		return t.counts, err
	}
	if columns, err = t.chosen(columns); err != nil {
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
	generated []table.Column // generated columns without the prefix
	unique    *unique
	out       table.Writer
	counts    Counts
	fields    []table.Field         // fields of a record; reused
	left      []table.Field         // the fields of Options.Columns; reused
	numbers   map[string]table.Kind // kinds of columns whose texts are all numbers
}

// open returns a reader of the input's rows. Without an input, it returns a reader of the answers'
// custom_ids.
func (t *tableMaker) open() (table.Reader, error) {
	for _, a := range t.options.Answers {
		a.next, a.selected = 0, t.options.Selected
	}
	if t.options.Input == nil {
		return &namedRows{answers: t.options.Answers}, nil
	}
	return t.options.Input()
}

func (t *tableMaker) columns() ([]table.Column, error) {
	input, err := table.ColumnsOf(t.open)
	if err != nil {
		return nil, err
	}
	fields, err := t.options.Fields.columns(t.options.Answers)
	if err != nil {
		return nil, err
	}
	if err := CheckColumns(input, fields, t.options.Prefix); err != nil {
		return nil, err
	}
	if t.options.Failed != nil {
		columns, err := t.failedColumns(input)
		if err != nil {
			return nil, err
		}
		t.options.Failed.columns = columns
	}
	if err := t.findNumbers(input); err != nil {
		return nil, err
	}
	t.generated = generated(t.options.Answers)
	columns := append([]table.Column{}, input...)
	for i, c := range columns {
		columns[i].Kind = cmp.Or(t.numbers[c.Name], c.Kind)
	}
	for _, c := range slices.Concat(fields, t.generated) {
		columns = append(columns, table.Column{Name: t.options.Prefix + c.Name, Kind: c.Kind})
	}
	return columns, nil
}

// failedColumns returns the columns of the failed rows. If there are lines from which no fields can
// be read, these include a column for the lines.
func (t *tableMaker) failedColumns(input []table.Column) ([]table.Column, error) {
	columns := slices.Clone(input)
	if t.options.Failed.format != Simple && !slices.Contains(table.Names(input), table.LineColumn) {
		unread, err := t.hasUnreadLines()
		if err != nil {
			return nil, err
		}
		if unread {
			columns = append(columns, table.Column{Name: table.LineColumn, Kind: table.String})
		}
	}
	return append(columns, table.Column{Name: table.ReasonColumn, Kind: table.String}), nil
}

// hasUnreadLines reports whether the input has a line from which no fields can be read.
func (t *tableMaker) hasUnreadLines() (found bool, err error) {
	in, err := t.open()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	for !found {
		record, err := in.Next()
		var damaged *table.RecordError
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case errors.As(err, &damaged):
			record = damaged.Record()
		case err != nil:
			return false, err
		}
		found = len(record.Fields) == 0 && record.Line != nil
	}
	return found, nil
}

func (t *tableMaker) run(ctx context.Context, in table.Reader) error {
	for ctx.Err() == nil {
		record, err := in.Next()
		var damaged *table.RecordError
		switch {
		case errors.Is(err, io.EOF):
			return t.end()
		case errors.As(err, &damaged):
			record = damaged.Record()
		case err != nil:
			return err
		}
		err = t.row(record)
		if damaged != nil && errors.Is(err, rows.ErrOtherFile) && table.EncodingHint(damaged) != "" {
			err = fmt.Errorf("%w (%w: %s)", err, damaged, table.EncodingHint(damaged))
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (t *tableMaker) end() error {
	for _, a := range t.options.Answers {
		if err := a.end(); err != nil {
			return err
		}
	}
	return nil
}

// row writes the answers to a row, or the row to the failed ones. If the row could not be read,
// record is what could be read of it.
func (t *tableMaker) row(record table.Record) error {
	answered, reason := false, ""
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
			return fmt.Errorf("read the answer to row %d in %s: %w", record.Number, a.path, err)
		}
		if err := t.check(a, &l, record); err != nil {
			return err
		}
		for _, s := range samplesOf(l, a.Model) {
			t.options.Fields.read(&s, record.OwnForm)
			if s.unparsed {
				t.counts.Unparsed++
			}
			if s.failure != "" && t.options.Failed != nil {
				reason = cmp.Or(reason, s.failure)
				t.counts.Dropped[Failed]++
				continue
			}
			if err := t.sample(record, &s); err != nil {
				return err
			}
		}
	}
	switch {
	case !answered:
		t.counts.Unanswered++
	case reason != "":
		t.counts.Failed++
		return t.options.Failed.write(record, reason)
	}
	return nil
}

// check compares an answer with its row, unless the rows come from the answers themselves.
func (t *tableMaker) check(a *Answers, l *line, record table.Record) error {
	if t.options.Input == nil {
		return nil
	}
	return a.check(l, record)
}

const madeUpID = "line-"

// nameOf returns the first text that is not empty among a row's fields custom_id and id; empty if
// the row has none.
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

func (t *tableMaker) sample(record table.Record, s *sample) error {
	reason, err := t.options.Filter.drops(s)
	if err != nil {
		return fmt.Errorf("read the answer to row %d: %w", record.Number, err)
	}
	if reason == "" {
		t.fields = append(t.fields[:0], record.Fields...)
		for _, f := range s.fields {
			t.fields = append(t.fields, table.Field{Name: t.options.Prefix + f.Name, Value: f.Value})
		}
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
	return t.out.Write(table.Record{Number: record.Number, Fields: t.written()})
}

// namedRows reads, for a table without an input, the rows that have answers. Each row has only its
// custom_id.
type namedRows struct {
	answers []*Answers
	next    []int // index of the next entry of each file of answers
}

// Named are the columns that a table without an input has before the generated ones.
var Named = []table.Column{{Name: customID, Kind: table.String}}

func (r *namedRows) Columns() []table.Column { return Named }

func (r *namedRows) Next() (table.Record, error) {
	if r.next == nil {
		r.next = make([]int, len(r.answers))
	}
	first := lowest(r.answers, r.next)
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

func (r *namedRows) Close() error { return nil }
