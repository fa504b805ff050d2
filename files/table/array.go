package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// arrayReader reads JSON objects: the elements of one array, or objects one after another.
type arrayReader struct {
	*file
	limit  *limitedReader
	in     *json.Decoder
	inside bool // the next element is inside an array whose end has not been read
	begun  bool
	number int
	fields []Field
}

func newArray(f *file) (Reader, error) {
	f.skipMark()
	r := &arrayReader{file: f, limit: &limitedReader{in: f.in}}
	r.in = json.NewDecoder(r.limit)
	return r, nil
}

func (r *arrayReader) Columns() []Column { return nil }

func (r *arrayReader) Next() (Record, error) {
	object, err := r.read()
	if errors.Is(err, io.EOF) {
		return Record{}, io.EOF
	}
	r.number++
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return Record{}, r.fail(r.number, fmt.Errorf("the text is not JSON at byte %d: %w", syntax.Offset, err))
	case err != nil:
		return Record{}, r.fail(r.number, err)
	}
	if err := r.checkText(object); err != nil {
		r.fields, _ = appendObject(bytes.ToValidUTF8(object, []byte(replacement)), r.fields[:0]) // without fields, the error is the same
		return Record{}, &RecordError{Number: r.number, Fields: r.fields, Err: fmt.Errorf("the record is %w", err)}
	}
	if r.fields, err = appendObject(object, r.fields[:0]); err != nil {
		return Record{}, &RecordError{Number: r.number, Fields: []Field{{LineColumn, object}}, Err: err}
	}
	return Record{Number: r.number, Fields: r.fields}, nil
}

func (r *arrayReader) read() (json.RawMessage, error) {
	r.limit.left = maxRecord
	if !r.begun {
		r.begun = true
		start, err := r.start()
		if err != nil {
			return nil, err
		}
		if bytes.HasPrefix(bytes.TrimSpace(start), []byte("[")) {
			r.inside = true
			if _, err := r.in.Token(); err != nil {
				return nil, err
			}
		}
	}
	if r.inside && !r.in.More() {
		r.inside = false
		if _, err := r.in.Token(); err != nil { // the end of the array
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	var element json.RawMessage
	err := r.in.Decode(&element)
	if r.inside && errors.Is(err, io.EOF) { // after a comma, the decoder reports the end like that of a file of objects
		err = io.ErrUnexpectedEOF
	}
	return element, err
}
