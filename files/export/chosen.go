package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/files/table"
)

// chosen returns the columns that the table has, of all columns.
func (t *tableMaker) chosen(all []table.Column) ([]table.Column, error) {
	if len(t.options.Columns) == 0 {
		return all, nil
	}
	var columns []table.Column
	for _, name := range t.options.Columns {
		i := slices.IndexFunc(all, func(c table.Column) bool { return c.Name == name })
		switch {
		case i >= 0:
			columns = append(columns, all[i])
		case !slices.ContainsFunc(Generated, func(c table.Column) bool { return t.options.Prefix+c.Name == name }):
			return nil, fmt.Errorf("the table has no column %q: its columns are %s", name, table.Quoted(table.Names(all)))
		}
	}
	return columns, nil
}

// written returns the fields of a record that the table has, with numbers instead of their texts.
func (t *tableMaker) written() []table.Field {
	fields := t.fields
	if len(t.options.Columns) > 0 {
		t.left = t.left[:0]
		for _, name := range t.options.Columns {
			if i := slices.IndexFunc(t.fields, func(f table.Field) bool { return f.Name == name }); i >= 0 {
				t.left = append(t.left, t.fields[i])
			}
		}
		fields = t.left
	}
	for i, f := range fields {
		if t.numbers[f.Name] != "" {
			fields[i].Value = numberIn(f.Value)
		}
	}
	return fields
}

// findNumbers finds the columns of an input without types whose texts are all numbers, for a table
// with types.
func (t *tableMaker) findNumbers(input []table.Column) error {
	if t.options.Format != Parquet || t.options.Texts || !slices.ContainsFunc(input, func(c table.Column) bool { return c.Untyped }) {
		return nil
	}
	in, err := t.open()
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // the file was only read
	found := map[string]table.Kind{}
	for _, c := range input {
		if c.Untyped {
			found[c.Name] = ""
		}
	}
	for len(found) > 0 {
		record, err := in.Next()
		var damaged *table.RecordError
		switch {
		case errors.Is(err, io.EOF):
			t.numbers = found // a kind is empty if no record has a value
			return nil
		case errors.As(err, &damaged):
			record = damaged.Record()
		case err != nil:
			return err
		}
		for _, f := range record.Fields {
			before, ok := found[f.Name]
			if !ok {
				continue
			}
			switch kind, blank := kindOfText(f.Value); {
			case blank:
			case kind == "":
				delete(found, f.Name)
			case before != table.Number:
				found[f.Name] = kind
			}
		}
	}
	return nil
}

// numberIn returns the number in a text; null if the text is empty.
func numberIn(text json.RawMessage) json.RawMessage {
	s := strings.Trim(string(text), `"`)
	if s == "" || s == "null" {
		return nil
	}
	return json.RawMessage(s)
}

// kindOfText returns Integer or Number if a JSON string is a number in the form in which JSON
// writes it; otherwise an empty Kind. blank reports whether the string is empty or null. Numbers
// such as 007, which lose digits, are texts. A value that is a number already, from a file with
// types that follows one without, counts as its text.
func kindOfText(value json.RawMessage) (kind table.Kind, blank bool) {
	s := string(value)
	if s == `""` || s == "" || s == "null" {
		return "", true
	}
	s = strings.TrimSuffix(strings.TrimPrefix(s, `"`), `"`)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && strconv.FormatInt(n, 10) == s {
		return table.Integer, false
	}
	if !json.Valid([]byte(s)) || s[0] != '-' && (s[0] < '0' || s[0] > '9') || !strings.ContainsAny(s, ".eE") {
		return "", false
	}
	if _, err := strconv.ParseFloat(s, 64); err != nil {
		return "", false
	}
	return table.Number, false
}
