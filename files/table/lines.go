package table

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ingot-run/ingot/internal/ordered"
)

// lineReader reads files of lines. Empty lines are skipped, but they count in line numbers.
type lineReader struct {
	*file
	columns []Column
	parse   func(line []byte, fields []Field) ([]Field, error) // appends the fields of a line, which share the line's memory
	number  int
	fields  []Field
}

func newJSONLines(f *file) (Reader, error) {
	f.skipMark()
	return &lineReader{file: f, parse: appendObject}, nil
}

// TextColumn is the name of the only column of a text file.
const TextColumn = "text"

func newText(f *file) (Reader, error) {
	f.skipMark()
	return &lineReader{file: f, columns: []Column{{Name: TextColumn, Kind: String}}, parse: appendText}, nil
}

func (r *lineReader) Columns() []Column { return r.columns }

func (r *lineReader) Next() (Record, error) {
	line, whole, err := r.read()
	if err != nil {
		return Record{}, err
	}
	fail := func(err error) (Record, error) {
		return Record{}, &RecordError{Number: r.number, Line: line, Fields: r.fields, Err: err}
	}
	r.fields = r.fields[:0]
	if !whole {
		return fail(fmt.Errorf("the record is longer than %d MiB", maxRecord>>20))
	}
	if err := r.checkText(line); err != nil {
		r.fields, _ = r.parse(bytes.ToValidUTF8(line, []byte(replacement)), r.fields) // the error of the text is reported
		if r.encoding != "" {                                                         // the line as it is in the file is not known
			if len(r.fields) == 0 {
				r.fields = append(r.fields, Field{LineColumn, quote(string(line))})
			}
			line = nil
		}
		return fail(fmt.Errorf("the record is %w", err))
	}
	if r.fields, err = r.parse(line, r.fields); err != nil {
		return fail(err)
	}
	return Record{Number: r.number, Fields: r.fields, Line: line}, nil
}

// read returns the next non-empty line without its line end. If the line is longer than maxRecord,
// whole is false and read returns the first maxRecord+1 bytes.
func (r *lineReader) read() (line []byte, whole bool, err error) {
	for {
		line, err = r.in.ReadSlice('\n')
		size := len(line)
		if errors.Is(err, bufio.ErrBufferFull) { // a longer line has memory of its own
			line = slices.Clone(line)
			for errors.Is(err, bufio.ErrBufferFull) {
				var part []byte
				part, err = r.in.ReadSlice('\n')
				size += len(part)
				line = append(line, part[:min(len(part), maxRecord+1-len(line))]...)
			}
		}
		switch {
		case errors.Is(err, io.EOF) && size == 0:
			return nil, false, err
		case err != nil && !errors.Is(err, io.EOF):
			return nil, false, r.fail(r.number+1, err)
		}
		r.number++
		if whole = size <= maxRecord; !whole || len(bytes.TrimSpace(line)) > 0 {
			return bytes.TrimRight(line, "\r\n"), whole, nil
		}
	}
}

func appendText(line []byte, fields []Field) ([]Field, error) {
	return append(fields, Field{TextColumn, quote(string(line))}), nil
}

// Fields returns the fields of a JSON object. Their values share the memory of object.
func Fields(object []byte) ([]Field, error) { return appendObject(object, nil) }

// appendObject appends the fields of a JSON object. Their values share the memory of object. With
// an error, it appends the fields before the place that is not JSON.
func appendObject(object []byte, fields []Field) ([]Field, error) {
	if !json.Valid(object) {
		return appendStart(object, fields), fmt.Errorf("the record is not valid JSON at %w", ordered.Fault(object))
	}
	if bytes.TrimSpace(object)[0] != '{' {
		return fields, errors.New("the record is not a JSON object")
	}
	for name, value := range ordered.Members(object) {
		fields = append(fields, Field{name, value})
	}
	return fields, nil
}

// appendStart appends the fields at the start of a text that is not a JSON object as a whole.
func appendStart(text []byte, fields []Field) []Field {
	in := json.NewDecoder(bytes.NewReader(text))
	if start, err := in.Token(); err != nil || start != json.Delim('{') {
		return fields
	}
	for in.More() {
		name, err := in.Token()
		var value json.RawMessage
		if err != nil || in.Decode(&value) != nil {
			break
		}
		fields = append(fields, Field{name.(string), value}) // the decoder accepts no other token as a key
	}
	return fields
}
