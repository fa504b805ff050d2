package export

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ingot-run/ingot/files/table"
)

// FailedAnswers returns the rows in a model's file of answers that have an answer which is a failed
// one in the table, since its text cannot become columns. in returns a reader of the rows that are
// answered. The model of a command with only one is "".
func (o *Output) FailedAnswers(ctx context.Context, model string, in func() (table.Reader, error)) (map[int]bool, error) {
	if o.Format == Batch || !o.Regular() || !o.Table.Fields.checks() {
		return nil, nil
	}
	path, err := o.answersPath(model)
	if err != nil || !isFile(path) {
		return nil, err
	}
	a, err := OpenAnswers(path)
	if err != nil {
		return nil, err
	}
	defer a.Close()   //nolint:errcheck // the file was only read
	a.selected = true // rows that the input does not have are checked elsewhere
	records, err := in()
	if err != nil {
		return nil, err
	}
	failed, err := o.Table.Fields.failed(ctx, a, records)
	return failed, errors.Join(err, records.Close())
}

// failed returns the rows with an answer that cannot become columns.
func (f *Fields) failed(ctx context.Context, a *Answers, in table.Reader) (map[int]bool, error) {
	failed := map[int]bool{}
	for ctx.Err() == nil {
		record, err := in.Next()
		if errors.Is(err, io.EOF) {
			return failed, nil
		}
		if err != nil && !errors.As(err, new(*table.RecordError)) {
			return nil, err
		}
		e, found, err := a.of(record.Number) // a record that could not be read has no answer
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		text, err := a.text(e)
		if err != nil {
			return nil, err
		}
		l, err := parseLine(text)
		if err != nil {
			return nil, fmt.Errorf("read the answer to row %d in %s: %w", e.row, a.path, err)
		}
		for _, s := range samplesOf(l, "") {
			if f.read(&s, record.OwnForm); s.unparsed {
				failed[record.Number] = true
			}
		}
	}
	return nil, ctx.Err()
}
