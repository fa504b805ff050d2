package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Flags returns the fields for which a flag can set a default, in the order of the table.
func Flags() []*Field {
	return slices.DeleteFunc(slices.Clone(fields), func(f *Field) bool { return f.Help == "" })
}

// Flag returns the name of the field's flag without dashes at its start, such as "max-tokens".
func (f *Field) Flag() string { return strings.ReplaceAll(f.Name, "_", "-") }

// Parse returns the JSON of a flag's value.
func (f *Field) Parse(text string) (json.RawMessage, error) {
	var v any
	var err error
	switch f.Kind {
	case Number:
		v, err = strconv.ParseFloat(text, 64)
	case Integer:
		v, err = strconv.ParseInt(text, 10, 64)
	case Boolean:
		v, err = strconv.ParseBool(text)
	case String:
		v = text
	case Strings:
		v = []string{text}
	case Integers:
		var ids []int64
		for id := range strings.SplitSeq(text, ",") {
			var n int64
			if n, err = strconv.ParseInt(strings.TrimSpace(id), 10, 64); err != nil {
				break
			}
			ids = append(ids, n)
		}
		v = ids
	case Object:
		if !json.Valid([]byte(text)) {
			return nil, fmt.Errorf("%q is not JSON", text)
		}
		return json.RawMessage(text), nil
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not %s", text, kindNames[f.Kind])
	}
	return Marshal(v)
}

var kindNames = map[Kind]string{Number: "a number", Integer: "a whole number", Boolean: "true or false", Integers: "a list of token ids, such as 2,7"}

// FlagValue is the value of a flag that sets a field.
type FlagValue struct {
	Field *Field
	Text  string // as it was given
}

// String returns the value as it was given.
func (v *FlagValue) String() string { return v.Text }

// Set checks and stores a value.
func (v *FlagValue) Set(s string) error {
	v.Text = s
	_, err := v.Field.Parse(s)
	return err
}

// Type returns the form of the value; empty for a flag that is given alone.
func (v *FlagValue) Type() string {
	return map[Kind]string{Number: "NUMBER", Integer: "N", Boolean: "", String: "WORD", Integers: "IDS", Object: "JSON"}[v.Field.Kind]
}
