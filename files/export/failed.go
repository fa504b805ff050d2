package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/files/table"
)

// FailedRows is a file of the rows that failed, with the columns of the input and the reason, so
// that ingot run can answer them again.
type FailedRows struct {
	w       io.Writer
	format  Format
	columns []table.Column // those of the input, and table.ReasonColumn
	out     table.Writer   // nil until a row is written as a record rather than as its line
}

// NewFailedRows returns a FailedRows that writes to w. If the input consists of JSON objects on
// lines, Batch and Simple write a failed row as its line with the reason in it. Otherwise a row is
// written as a record of its columns.
func NewFailedRows(w io.Writer, f Format) *FailedRows {
	if f == Batch {
		f = Simple
	}
	return &FailedRows{w: w, format: f}
}

// write writes a row with the reason why it failed. If the row could not be read, record is what
// could be read of it.
func (f *FailedRows) write(record table.Record, reason string) error {
	if f.format == Simple && record.Line != nil {
		_, err := f.w.Write(append(lineWith(record, textValue(reason)), '\n'))
		return err
	}
	if err := f.open(); err != nil {
		return err
	}
	if len(record.Fields) == 0 && record.Line != nil {
		record.Fields = []table.Field{{Name: table.LineColumn, Value: textValue(string(record.Line))}}
	}
	record.Fields = append(slices.Clone(record.Fields), table.Field{Name: table.ReasonColumn, Value: textValue(reason)})
	return f.out.Write(record)
}

// lineWith returns the line of a record with the reason as another field. A line that is not a JSON
// object becomes an object with the fields that could be read and the line.
func lineWith(r table.Record, reason json.RawMessage) []byte {
	line := bytes.TrimSpace(r.Line)
	fields := r.Fields
	if json.Valid(line) && line[0] == '{' && !bytes.Contains(line, []byte(table.ReasonColumn)) {
		start := bytes.TrimSpace(line[:len(line)-1])
		if len(start) > 1 {
			start = append(bytes.Clone(start), ',')
		}
		return fmt.Appendf(start[:len(start):len(start)], "%q:%s}", table.ReasonColumn, reason)
	}
	if len(line) > 0 && (len(fields) == 0 || !json.Valid(line)) { // a line of spaces may be too long
		fields = append(slices.Clone(fields), table.Field{Name: table.LineColumn, Value: textValue(string(line))})
	}
	object := []byte("{")
	for _, field := range fields {
		name, _ := json.Marshal(field.Name) //nolint:errchkjson // a string can always be written
		object = fmt.Appendf(object, "%s:%s,", name, field.Value)
	}
	return fmt.Appendf(object, "%q:%s}", table.ReasonColumn, reason)
}

func (f *FailedRows) open() (err error) {
	if f.out == nil {
		f.out, err = f.format.newWriter(f.w, f.columns)
	}
	return err
}

// close completes the file. A table without rows has a header with its columns.
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

// CheckFailed returns an error if a file of failed rows with this path would replace a file that is
// not one, or cannot be created in its folder. An empty path is that of no file.
func CheckFailed(path string) error {
	if path == "" || isSpecial(path) {
		return nil
	}
	if err := unix.Access(filepath.Dir(path), unix.W_OK); err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil //nolint:nilerr // there is no file to replace
	}
	ours, err := hasReasons(path)
	if err == nil && !ours {
		err = fmt.Errorf("%s exists and is not a file of failed rows, since it has no column %s: choose another FILE, or remove %[1]s", path, table.ReasonColumn)
	}
	return err
}

// hasReasons reports whether the records of a table have a reason why they failed.
func hasReasons(path string) (bool, error) {
	r, err := table.OpenFailed(path)
	if err != nil {
		return false, nil //nolint:nilerr // a file that is not a table has no reasons
	}
	columns := r.Columns()
	record, err := r.Next()
	if errors.Is(err, io.EOF) && (len(columns) == 0 || len(columns) == 1 && columns[0].Name == table.TextColumn) {
		return true, r.Close() // a compressed file without lines
	}
	var damaged *table.RecordError
	if err != nil && !errors.Is(err, io.EOF) && !errors.As(err, &damaged) {
		return false, r.Close()
	}
	for _, f := range record.Fields {
		columns = append(columns, table.Column{Name: f.Name})
	}
	return slices.Contains(table.Names(columns), table.ReasonColumn), r.Close()
}
