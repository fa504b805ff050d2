package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ingot-run/ingot/internal/ordered"
)

// maxDocument is the maximum size in bytes of a file of rows that is one JSON value.
const maxDocument = 1 << 30

// isList reports whether a file begins with a JSON list, as no file of JSON Lines with rows does.
func isList(f io.ReaderAt) bool {
	start := make([]byte, 512)
	n, _ := f.ReadAt(start, 0) // a file may be shorter
	return bytes.HasPrefix(bytes.TrimSpace(bytes.TrimPrefix(start[:n], []byte("\ufeff"))), []byte("["))
}

// readDocument reads rows from a file that is one JSON value: a list of rows, or an object with the
// rows in a field. As with the package datasets, the field can also hold an object of columns, or a
// list of values of the column "text".
func readDocument(path, field string) (docs []json.RawMessage, objects []*ordered.Object, err error) {
	fail := func(format string, args ...any) ([]json.RawMessage, []*ordered.Object, error) {
		return nil, nil, fmt.Errorf("read %s: %w", path, fmt.Errorf(format, args...))
	}
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxDocument) {
		err = fmt.Errorf("a JSON file must be a file of at most %d MiB", maxDocument>>20)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return fail("%w", err)
	}
	v, err := ordered.ParseJSON(bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff"))))
	if err != nil {
		return fail("%w", err)
	}
	if field != "" {
		o, ok := v.(*ordered.Object)
		if !ok {
			return fail("the file is not a JSON object, which dataset_kwargs.field %q needs", field)
		}
		if v, ok = o.Get(field); !ok {
			return fail("the object has no field %q, which dataset_kwargs.field names", field)
		}
	}
	if objects, err = rowsIn(v, field != ""); err != nil {
		return fail("%w", err)
	}
	for _, row := range objects {
		docs = append(docs, ordered.AppendJSON(nil, row))
	}
	return docs, objects, nil
}

func rowsIn(v ordered.Value, ofField bool) (rows []*ordered.Object, err error) {
	switch v := v.(type) {
	case []ordered.Value:
		texts := 0
		for i, each := range v {
			row, ok := each.(*ordered.Object)
			if !ok && !ofField {
				return nil, fmt.Errorf("element %d is not a JSON object: rows are JSON objects, in a list or on a line each", i+1)
			}
			if !ok {
				texts++
				row = ordered.NewObject()
				row.Set("text", each)
			}
			rows = append(rows, row)
		}
		if texts == 0 || texts == len(v) {
			return rows, nil
		}
	case *ordered.Object:
		if rows, ok := ofColumns(v); ok {
			return rows, nil
		}
	}
	return nil, errors.New("the rows must be a list of JSON objects, or an object with a list for each column, all of one length")
}

// ofColumns returns the rows of a table that is given as a list for each column.
func ofColumns(columns *ordered.Object) (rows []*ordered.Object, ok bool) {
	for i, name := range columns.Keys() {
		v, _ := columns.Get(name)
		list, isList := v.([]ordered.Value)
		if i == 0 {
			for range list {
				rows = append(rows, ordered.NewObject())
			}
		}
		if !isList || len(list) != len(rows) {
			return nil, false
		}
		for k, each := range list {
			rows[k].Set(name, each)
		}
	}
	return rows, true
}
