package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/ingot-run/ingot/internal/ordered"
)

// plain converts a value to the types of encoding/json: map, slice, string, number, bool or nil.
func plain(v ordered.Value) any {
	switch v := v.(type) {
	case *ordered.Object:
		m := make(map[string]any, v.Len())
		for key, each := range v.All() {
			m[key] = plain(each)
		}
		return m
	case []ordered.Value:
		list := make([]any, len(v))
		for i, each := range v {
			list[i] = plain(each)
		}
		return list
	}
	return v
}

// RowKey returns a text that is equal for rows with equal columns, in any order.
func RowKey(row *ordered.Object) string {
	text, err := json.Marshal(plain(row))
	if err != nil {
		return fmt.Sprint(plain(row)) // a number that JSON lacks
	}
	return string(text)
}

// unfenced removes the Markdown code fence around an answer, if there is one.
func unfenced(s string) string {
	s = strings.TrimSpace(s)
	for _, fence := range []string{"```json", "```Json", "```JSON", "```"} {
		s = strings.TrimPrefix(s, fence)
	}
	return strings.TrimSpace(strings.TrimSuffix(s, "```"))
}

// parsed parses an answer as JSON, with or without a code fence. Numbers become json.Number.
func parsed(answer string) (v any, ok bool) {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(unfenced(answer)))
	return v, err == nil
}

// noSchemas is a schema loader that refuses references to other schemas, since scoring must not
// access the network.
type noSchemas struct{}

func (noSchemas) Load(url string) (any, error) {
	return nil, fmt.Errorf("the schema refers to %s: write that schema into this one", url)
}

// schema reads a JSON Schema. n is the schema as a mapping, or the path of its file relative to the
// task's folder.
func (r *reader) schema(n *yaml.Node) (*jsonschema.Schema, error) {
	var text []byte
	if n.Kind == yaml.ScalarNode {
		var err error
		if text, err = readRegular(relativeTo(r.folder, n.Value)); err != nil {
			return nil, fmt.Errorf("read its file: %w", err)
		}
	} else {
		var v any
		err := n.Decode(&v)
		if err == nil {
			text, err = json.Marshal(v)
		}
		if err != nil {
			return nil, fmt.Errorf("convert it from YAML to JSON: %w", err)
		}
	}
	r.schemas = append(r.schemas, text)
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	const name = "schema.json"
	c := jsonschema.NewCompiler()
	c.UseLoader(noSchemas{})
	var s *jsonschema.Schema
	if err = c.AddResource(name, document); err == nil {
		s, err = c.Compile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("it cannot be used: %w", err)
	}
	return s, nil
}

func (m *Metric) valid(answer string) bool {
	v, ok := parsed(answer)
	return ok && (m.schema == nil || m.schema.Validate(v) == nil)
}

// fieldsRight returns the share of fields that have the same value in the answer as in the target.
// Both are JSON. The fields are those that the metric names, or else all top-level fields of the
// target. Other fields of the answer do not count.
func (m *Metric) fieldsRight(answer, target string) float64 {
	want, ok := parsed(target)
	if !ok {
		return 0
	}
	got, ok := parsed(answer)
	if !ok {
		return 0
	}
	fields := m.fields
	if object, ok := want.(map[string]any); ok && fields == nil {
		for name := range object {
			fields = append(fields, []string{name})
		}
	}
	if len(fields) == 0 {
		return indicator(equal(want, got))
	}
	right := 0.0
	for _, path := range fields {
		w, inTarget := at(want, path)
		g, inAnswer := at(got, path)
		right += indicator(inTarget == inAnswer && equal(w, g))
	}
	return right / float64(len(fields))
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// at returns the value at a path of object keys and list positions.
func at(v any, path []string) (any, bool) {
	for _, name := range path {
		switch each := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = each[name]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(each) {
				return nil, false
			}
			v = each[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// equal compares JSON values. Numbers are compared by value, so 1.0 equals 1.
func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		n, ok := b.(json.Number)
		if !ok {
			return false
		}
		i, errI := a.Int64()
		j, errJ := n.Int64()
		if errI == nil && errJ == nil {
			return i == j // float64 would make neighbouring ids equal
		}
		x, errX := a.Float64()
		y, errY := n.Float64()
		return a == n || errX == nil && errY == nil && x == y
	case []any:
		list, ok := b.([]any)
		return ok && slices.EqualFunc(a, list, equal)
	case map[string]any:
		object, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, object, equal)
	}
	return reflect.DeepEqual(a, b)
}

// paths parses the names of fields. The parts of a name are separated by dots: a.b is field b of
// object a, a.0 the first element of list a.
func paths(n *yaml.Node) (list [][]string, err error) {
	var names []string
	if err := n.Decode(&names); err != nil {
		return nil, err
	}
	for _, name := range names {
		if name == "" {
			return nil, errors.New("the name of a field is empty")
		}
		list = append(list, strings.Split(name, "."))
	}
	return list, nil
}
