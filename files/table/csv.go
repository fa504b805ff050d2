package table

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// csvReader reads a table with a header. All values are strings.
type csvReader struct {
	*file
	in      *csv.Reader
	limit   *limitedReader
	columns []Column
	number  int
	fields  []Field // fields of the last record; reused for the next one
}

func newCSV(f *file, separator rune) (Reader, error) {
	f.skipMark()
	r := &csvReader{file: f, limit: &limitedReader{in: &lineEnds{in: f.in, separator: byte(separator)}}}
	r.in = csv.NewReader(r.limit)
	r.in.Comma, r.in.ReuseRecord = separator, true
	r.in.FieldsPerRecord = -1 // encoding/csv does not check the number of fields: Next does, so that reading continues after a bad record
	names, err := r.read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: the file is empty: its first line must name the columns", f.name)
	}
	if err != nil {
		return nil, f.failed(fmt.Errorf("header: %w", err))
	}
	seen := map[string]bool{}
	for i, name := range names {
		switch {
		case name == "":
			return nil, fmt.Errorf("read %s: column %d of the header has no name: name it", f.name, i+1)
		case strings.Contains(strings.ReplaceAll(name, "\r\n", ""), "\r"):
			return nil, fmt.Errorf("read %s: the header has a carriage return without a line feed: if all lines end so, convert them, "+
				"for example with tr '\\r' '\\n'", f.name)
		case r.checkText([]byte(name)) != nil:
			return nil, fmt.Errorf("read %s: the header is %w: %s", f.name, r.checkText([]byte(name)), EncodingHint(r.checkText([]byte(name))))
		case seen[name]:
			return nil, fmt.Errorf("read %s: the header has the column %q twice: rename one of them", f.name, name)
		}
		seen[name] = true
		r.columns = append(r.columns, Column{Name: strings.Clone(name), Kind: String, Untyped: true})
	}
	return r, nil
}

func (r *csvReader) read() ([]string, error) {
	r.limit.left = maxRecord
	return r.in.Read()
}

func (r *csvReader) Columns() []Column { return r.columns }

func (r *csvReader) Next() (Record, error) {
	values, err := r.read()
	if errors.Is(err, io.EOF) {
		return Record{}, io.EOF
	}
	r.number++
	r.fields = r.fields[:0]
	var notText error
	for i, v := range values[:min(len(values), len(r.columns))] {
		if err := r.checkText([]byte(v)); err != nil && notText == nil {
			notText = fmt.Errorf("column %q is %w", r.columns[i].Name, err)
		}
		r.fields = append(r.fields, Field{r.columns[i].Name, quote(v)})
	}
	fail := func(err error) (Record, error) {
		return Record{}, &RecordError{Number: r.number, Fields: r.fields, Err: err}
	}
	var damaged *csv.ParseError
	switch {
	case errors.As(err, &damaged):
		began := ""
		if damaged.StartLine != damaged.Line { // a quote that is missing or too many joins records
			began = fmt.Sprintf("; all lines from line %d, where the record begins, are this record", damaged.StartLine)
		}
		return fail(fmt.Errorf("line %d, byte %d of %s: %w%s", damaged.Line, damaged.Column, r.name, damaged.Err, began))
	case err != nil:
		return Record{}, r.fail(r.number, err)
	case len(values) != len(r.columns):
		line, _ := r.in.FieldPos(0)
		return fail(fmt.Errorf("the header has %d columns, and this record has %d (line %d of %s)", len(r.columns), len(values), line, r.name))
	case notText != nil:
		return fail(notText)
	}
	return Record{Number: r.number, Fields: r.fields}, nil
}

func quote(s string) json.RawMessage {
	if plain(s) {
		return append(append(append(make(json.RawMessage, 0, len(s)+2), '"'), s...), '"')
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s) //nolint:errcheck // encoding a string never fails
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n"))
}

func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// limitedReader limits the number of bytes per record, so that a missing quote cannot make the
// reader hold a whole file in memory.
type limitedReader struct {
	in   io.Reader
	left int
}

var errLongRecord = fmt.Errorf("the record is longer than %d MiB: a quote or bracket may be missing before this point", maxRecord>>20)

func (r *limitedReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errLongRecord
	}
	n, err := r.in.Read(p)
	r.left -= n
	return n, err
}
