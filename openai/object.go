package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

// object is a JSON object. Reading a field checks its type. err is the error of the first field
// that failed its check; after that, all fields are read as absent. A field that is null is absent
// as well.
type object struct {
	fields map[string]json.RawMessage
	path   string            // prefix of field names in errors, such as "body."
	given  map[string]string // alias that the request uses for a field, by the field's name; see renameAliases
	err    *Error
	nested *Error // error of the first unknown field of an object inside this one; see only
}

func parseObject(raw []byte, path string) (*object, *Error) {
	o := &object{path: path}
	if typeOf(raw) != dict || !json.Valid(raw) {
		if err := json.Unmarshal(raw, &o.fields); err != nil {
			return nil, jsonError(raw)
		}
		return o, nil // raw is null, which counts as an object without fields
	}
	o.fields = map[string]json.RawMessage{}
	for key, value := range ordered.Members(raw) {
		o.fields[key] = value
	}
	return o, nil
}

// inside calls read for an object inside o, whose fields have the given path in errors.
func (o *object) inside(raw []byte, path string, read func(inner *object)) {
	inner, err := parseObject(raw, path)
	if err == nil {
		read(inner)
		err = inner.err
		if o.nested == nil {
			o.nested = inner.nested
		}
	}
	if o.err == nil {
		o.err = err
	}
}

// parseLine returns the object of a line of an input file. code is the code of the error if the
// line is another JSON value.
func parseLine(raw []byte, code string) (*object, *Error) {
	if t := typeOf(raw); t != dict && json.Valid(raw) {
		return nil, errorf(code, "must be an object, not %s", t)
	}
	return parseObject(raw, "")
}

func repeated(object []byte) (key string, ok bool) {
	seen := map[string]bool{}
	for key := range ordered.Members(object) {
		if seen[key] {
			return key, true
		}
		seen[key] = true
	}
	return "", false
}

func jsonError(raw []byte) *Error {
	if fault := ordered.Fault(raw); fault != nil {
		return errorf(CodeInvalidJSON, "is not valid JSON at %v", fault)
	}
	return errorf(CodeInvalidJSON, "is not a JSON object, but %s", typeOf(raw))
}

func (o *object) named(name string) string {
	if alias, ok := o.given[name]; ok {
		name = alias
	}
	return o.path + name
}

func (o *object) has(name string) bool {
	raw, ok := o.fields[name]
	return ok && typeOf(raw) != null
}

// get returns a field if it is present and not null. It sets an error if the field is not of one of
// the given types.
func (o *object) get(name string, types ...jsonType) (json.RawMessage, bool) {
	if o.err != nil || !o.has(name) {
		return nil, false
	}
	raw := o.fields[name]
	got := typeOf(raw)
	for _, k := range types {
		if got == k {
			return raw, true
		}
	}
	o.fail(CodeInvalidType, "%q must be %s, not %s", o.named(name), anyOf(types), got)
	return nil, false
}

func (o *object) fail(code, format string, args ...any) {
	if o.err == nil {
		o.err = errorf(code, format, args...)
	}
}

func (o *object) text(name string) (string, bool) {
	raw, ok := o.get(name, text)
	if !ok {
		return "", false
	}
	var s string
	json.Unmarshal(raw, &s) //nolint:errcheck // the request's body is valid JSON, so raw is a string
	return s, true
}

func (o *object) boolean(name string) bool {
	raw, ok := o.get(name, boolean)
	return ok && raw[0] == 't'
}

// number returns the number in a field, or def if the field is absent. It sets an error if the
// number is below low or above high.
func (o *object) number(name string, low, high, def float64) float64 {
	raw, ok := o.get(name, number)
	if !ok {
		return def
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || v < low || v > high {
		o.fail(CodeInvalidValue, "%q must be between %v and %v, not %s", o.named(name), low, high, raw)
	}
	return v
}

// integer returns the whole number in a field, which may be written like 2.0. It sets an error if
// the number is below low or above high. ok reports whether the field is present and valid.
func (o *object) integer(name string, low, high int64) (v int64, ok bool) {
	raw, ok := o.get(name, number)
	if !ok {
		return 0, false
	}
	v, err := parseInteger(raw)
	switch {
	case err != nil:
		o.fail(CodeInvalidType, "%q must be a whole number, not %s", o.named(name), raw)
	case v < low || v > high:
		o.fail(CodeInvalidValue, "%q must be %s, not %s", o.named(name), bounds(v, low, high), raw)
	}
	return v, o.err == nil
}

// bounds describes the range from low to high, for an error about v, which is outside this range.
// If high is very large, it describes only the bound that v violates.
func bounds(v, low, high int64) string {
	switch {
	case v > high && high >= math.MaxInt32:
		return fmt.Sprintf("at most %d", high)
	case high >= math.MaxInt32:
		return fmt.Sprintf("at least %d", low)
	}
	return fmt.Sprintf("between %d and %d", low, high)
}

var errNotInteger = errors.New("not a whole number")

func parseInteger(raw []byte) (int64, error) {
	if v, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return v, nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, errNotInteger
	}
	return int64(f), nil
}

func (o *object) ids(name string, raw json.RawMessage) []int32 {
	ids := make([]int32, 0, bytes.Count(raw, []byte(","))+1)
	for e := range ordered.Items(raw) {
		i := len(ids)
		if k := typeOf(e); k != number {
			o.fail(CodeInvalidType, `"%s[%d]" must be a number, not %s`, o.named(name), i, k)
			return nil
		}
		id, err := parseInteger(e)
		if err != nil || id < 0 || id > math.MaxInt32 {
			o.fail(CodeInvalidValue, `"%s[%d]" must be a token id, not %s`, o.named(name), i, e)
			return nil
		}
		ids = append(ids, int32(id))
	}
	return ids
}

type jsonType string

const (
	null    jsonType = "null"
	boolean jsonType = "true or false"
	number  jsonType = "a number"
	text    jsonType = "a string"
	array   jsonType = "an array"
	dict    jsonType = "an object"
)

// typeOf returns the type of a valid JSON value. The first byte of the value determines the type.
func typeOf(raw json.RawMessage) jsonType {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return null
	}
	switch raw[0] {
	case 'n':
		return null
	case 't', 'f':
		return boolean
	case '"':
		return text
	case '[':
		return array
	case '{':
		return dict
	}
	return number
}

func anyOf(types []jsonType) string {
	names := make([]string, len(types))
	for i, k := range types {
		names[i] = string(k)
	}
	return strings.Join(names, " or ")
}
