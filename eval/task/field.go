package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ingot-run/ingot/engine/jinja"
	"github.com/ingot-run/ingot/internal/ordered"
)

// Field computes a value from a row. It is the name of a column, a Jinja template over the columns,
// a constant, or a function of the harness. The zero value is a missing field.
type Field struct {
	source   string
	template *jinja.Template
	constant ordered.Value
	function func(row *ordered.Object) (ordered.Value, error)
}

// Missing reports whether the task has no such field.
func (f *Field) Missing() bool { return f.template == nil && f.constant == nil && f.function == nil }

// read reads a field from YAML. A text is a column or a template; a list or a whole number is a
// constant.
func (f *Field) read(n *yaml.Node) error {
	if name, ok := functionName(n); ok {
		if f.function = fieldFunctions[name]; f.function == nil {
			return unsupportedFunction(name)
		}
		return nil
	}
	var value any
	if err := n.Decode(&value); err != nil {
		return err
	}
	switch v := value.(type) {
	case string:
		f.source = v
		var err error
		f.template, err = jinja.ParseStrict("template", v)
		return err
	case int:
		f.constant = int64(v)
		return nil
	case []any:
		f.constant = slices.Clone(v)
		return nil
	}
	return errors.New("the value must be a text, a list or a whole number")
}

// column matches a single word, such as question. Such a text can only be the name of a column: as
// a template, it would give the same text for every row.
var column = regexp.MustCompile(`^\w+$`)

func (f *Field) value(row *ordered.Object) (ordered.Value, error) {
	switch {
	case f.function != nil:
		return f.function(row)
	case f.constant != nil:
		return f.constant, nil
	case f.template == nil:
		return "", nil
	}
	if v, ok := row.Get(f.source); ok {
		return v, nil
	}
	if column.MatchString(f.source) {
		return nil, fmt.Errorf("the row has no column %q", f.source)
	}
	return f.render(row)
}

func (f *Field) render(row *ordered.Object) (string, error) {
	return f.template.Render(row, time.Time{})
}

// textOf returns a value as a text: Python's str of it, except that lists and objects become JSON.
func textOf(v ordered.Value) string {
	switch v := v.(type) {
	case string:
		return v
	case *ordered.Object, []ordered.Value:
		text, err := json.Marshal(plain(v))
		if err == nil {
			return string(text)
		}
	}
	return jinja.Str(v)
}

// list returns the value of the field for a row as a list of texts. The value is a list, or a text
// such as "['a', 'b']": templates write a Python list as text.
func (f *Field) list(row *ordered.Object) ([]string, error) {
	v, err := f.value(row)
	if err != nil {
		return nil, err
	}
	if s, ok := v.(string); ok {
		if v, err = literal(s); err != nil {
			return nil, fmt.Errorf("%q is not a list: %w", s, err)
		}
	}
	values, ok := v.([]ordered.Value)
	if !ok {
		return nil, fmt.Errorf("%v is not a list", v)
	}
	return textList(values), nil
}

func textList(values []ordered.Value) []string {
	list := make([]string, len(values))
	for i, each := range values {
		list[i] = textOf(each)
	}
	return list
}
