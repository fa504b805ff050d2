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
	function fieldFunction
}

// Missing reports whether the task has no such field.
func (f *Field) Missing() bool { return f.template == nil && f.constant == nil && f.function == nil }

// read reads a field from YAML. A text is a column or a template; a list or a whole number is a
// constant.
func (f *Field) read(n *yaml.Node) error {
	if n.Kind == yaml.MappingNode { // doc_to_choice may name its choices
		list := []ordered.Value{}
		for i := 1; i < len(n.Content); i += 2 {
			v, err := valueOf(n.Content[i])
			if err != nil {
				return err
			}
			list = append(list, v)
		}
		f.constant = list
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
		f.template, err = jinja.ParseStrict("template", "templates of tasks", v)
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

// value returns the value of the field for a row. rendered reports whether it is the text of a
// template.
func (f *Field) value(row *ordered.Object) (v ordered.Value, rendered bool, err error) {
	switch {
	case f.function != nil:
		v, err = f.function(row)
		return v, false, err
	case f.constant != nil:
		return f.constant, false, nil
	case f.template == nil:
		return "", false, nil
	}
	if v, ok := row.Get(f.source); ok {
		return v, false, nil
	}
	if column.MatchString(f.source) {
		return nil, false, fmt.Errorf("the row has no column %q", f.source)
	}
	v, err = f.render(row)
	return v, true, err
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
	v, _, err := f.value(row)
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
