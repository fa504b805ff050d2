package export

import (
	"slices"
	"strings"

	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/internal/ordered"
)

// maxReferences is the maximum number of $ref that lead from one to the next, and maxSchemas the
// maximum number of schemas that are read for the kinds of columns.
const (
	maxReferences = 16
	maxSchemas    = 20_000
)

// schemaColumns returns the columns of objects with a JSON Schema: its properties in their order,
// and then those of the schemas that it combines. A column whose kind the schema does not say has
// an empty Kind. It returns nil if the schema lists no properties.
func schemaColumns(schema string) []table.Column {
	root, err := ordered.ParseJSON([]byte(schema))
	if err != nil {
		return nil
	}
	s := schemaReader{root: root, seen: map[*ordered.Object]bool{}}
	s.collect(root)
	return s.columns
}

// HasObjects reports whether all values of a JSON Schema are objects.
func HasObjects(schema string) bool {
	root, err := ordered.ParseJSON([]byte(schema))
	if err != nil {
		return false
	}
	s := schemaReader{root: root}
	return s.objects(root)
}

type schemaReader struct {
	root    ordered.Value
	read    int                      // number of schemas that were read
	seen    map[*ordered.Object]bool // schemas that collect has read
	columns []table.Column
}

// collect appends the columns of the properties of a schema and of those that it combines.
func (s *schemaReader) collect(v ordered.Value) {
	object := s.first(v)
	if object == nil {
		return
	}
	if properties, ok := member(object, "properties").(*ordered.Object); ok {
		for name, property := range properties.All() {
			kind, _ := s.kind(property)
			s.add(table.Column{Name: name, Kind: kind})
		}
	}
	if _, refers := object.Get("$ref"); refers {
		if to := s.resolve(object); to != nil {
			s.collect(to)
		}
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		schemas, _ := member(object, name).([]ordered.Value)
		for _, part := range schemas {
			s.collect(part)
		}
	}
}

// first returns a schema that was not read before; nil if it was, or if too many have been read.
func (s *schemaReader) first(v ordered.Value) *ordered.Object {
	object := s.object(v)
	if object == nil || s.seen[object] {
		return nil
	}
	s.seen[object] = true
	return object
}

// object returns a value as a schema; nil if it is no object, or if too many have been read.
func (s *schemaReader) object(v ordered.Value) *ordered.Object {
	if s.read++; s.read > maxSchemas {
		return nil
	}
	object, _ := v.(*ordered.Object)
	return object
}

func (s *schemaReader) add(c table.Column) {
	i := slices.IndexFunc(s.columns, func(other table.Column) bool { return other.Name == c.Name })
	switch {
	case i < 0:
		s.columns = append(s.columns, c)
	case s.columns[i].Kind == "":
		s.columns[i].Kind = c.Kind
	case c.Kind != "":
		s.columns[i].Kind, _ = union([]ordered.Value{s.columns[i].Kind, c.Kind}, func(k ordered.Value) (table.Kind, bool) {
			kind, _ := k.(table.Kind)
			return kind, false
		})
	}
}

// objects reports whether all values of a schema are objects.
func (s *schemaReader) objects(v ordered.Value) bool {
	object := s.object(v)
	if object == nil {
		return false
	}
	if kind, given := object.Get("type"); given {
		types, isList := kind.([]ordered.Value)
		return kind == "object" || isList && len(types) == 1 && types[0] == "object"
	}
	if _, has := object.Get("properties"); has {
		return true
	}
	if _, refers := object.Get("$ref"); refers {
		if to := s.resolve(object); to != nil && s.objects(to) {
			return true
		}
	}
	all, _ := member(object, "allOf").([]ordered.Value)
	if slices.ContainsFunc(all, s.objects) {
		return true
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		schemas, _ := member(object, name).([]ordered.Value)
		if len(schemas) > 0 && !slices.ContainsFunc(schemas, func(part ordered.Value) bool { return !s.objects(part) }) {
			return true
		}
	}
	return false
}

// resolve follows references to schemas inside the root.
func (s *schemaReader) resolve(v ordered.Value) *ordered.Object {
	for range maxReferences {
		object, _ := v.(*ordered.Object)
		to, ok := member(object, "$ref").(string)
		if !ok {
			return object
		}
		path, local := strings.CutPrefix(to, "#")
		if !local {
			return nil
		}
		v = s.root
		for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
			if name != "" {
				inner, _ := v.(*ordered.Object)
				v = member(inner, strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
			}
		}
	}
	return nil
}

// kind returns the kind of a schema's values other than null; empty if the schema does not say it.
// null reports whether null is the only value.
func (s *schemaReader) kind(v ordered.Value) (kind table.Kind, null bool) {
	object := s.object(s.resolve(v))
	if object == nil {
		return "", false
	}
	if value, ok := object.Get("const"); ok {
		return kindOfValue(value)
	}
	if values, ok := member(object, "enum").([]ordered.Value); ok {
		return union(values, kindOfValue)
	}
	switch types := member(object, "type").(type) {
	case string:
		return kindOfType(types)
	case []ordered.Value:
		return union(types, kindOfType)
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		if schemas, ok := member(object, name).([]ordered.Value); ok {
			return union(schemas, s.kind)
		}
	}
	return "", false
}

// union returns the kind that has the values of all parts.
func union(parts []ordered.Value, kindOf func(ordered.Value) (table.Kind, bool)) (kind table.Kind, null bool) {
	for _, part := range parts {
		k, isNull := kindOf(part)
		switch {
		case isNull || k == kind && k != "":
		case k == "":
			return "", false
		case kind == "":
			kind = k
		case isNumeric(kind) && isNumeric(k):
			kind = table.Number
		default:
			kind = table.JSON
		}
	}
	return kind, kind == ""
}

func isNumeric(k table.Kind) bool { return k == table.Integer || k == table.Number }

func kindOfType(name ordered.Value) (kind table.Kind, null bool) {
	switch name {
	case "string":
		return table.String, false
	case "integer":
		return table.Integer, false
	case "number":
		return table.Number, false
	case "boolean":
		return table.Boolean, false
	case "array", "object":
		return table.JSON, false
	}
	return "", name == "null"
}

func kindOfValue(v ordered.Value) (kind table.Kind, null bool) {
	switch v.(type) {
	case nil:
		return "", true
	case string:
		return table.String, false
	case bool:
		return table.Boolean, false
	case []ordered.Value, *ordered.Object:
		return table.JSON, false
	case int64:
		return table.Integer, false
	}
	return table.Number, false
}

// member returns the value of a key; nil if there is no object or no such key.
func member(o *ordered.Object, key string) ordered.Value {
	if o == nil {
		return nil
	}
	v, _ := o.Get(key)
	return v
}
