package tools

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/internal/ordered"
)

// Set has the tools of a request. It is not safe for concurrent use.
type Set struct {
	tools   []generation.Tool
	choice  generation.ToolChoice
	stops   bool                      // a stop string can end an answer
	schemas map[string]*argumentTypes // of the tools that were called, by name
}

// NewSet returns the tools of a request, which must be valid.
func NewSet(r *generation.Request) *Set {
	return &Set{tools: r.Tools, choice: r.ToolChoice, stops: len(r.Stop) > 0, schemas: map[string]*argumentTypes{}}
}

// Allowed returns the tools that may be called.
func (s *Set) Allowed() []generation.Tool {
	if len(s.choice.Names) == 0 {
		return s.tools
	}
	return slices.DeleteFunc(slices.Clone(s.tools), func(t generation.Tool) bool { return !slices.Contains(s.choice.Names, t.Name) })
}

func (s *Set) callable(name string) bool {
	return slices.ContainsFunc(s.Allowed(), func(t generation.Tool) bool { return t.Name == name })
}

// begins reports whether a text is the beginning of the name of a tool that may be called.
func (s *Set) begins(text string) bool {
	return slices.ContainsFunc(s.Allowed(), func(t generation.Tool) bool { return strings.HasPrefix(t.Name, text) })
}

func (s *Set) single() bool { return s.choice.Single || s.choice.Mode == generation.ToolsNamed }

// kind returns the types that an argument of a tool can have.
func (s *Set) kind(tool, argument string) kind {
	schema := s.schemas[tool]
	if schema == nil {
		i := slices.IndexFunc(s.tools, func(t generation.Tool) bool { return t.Name == tool })
		schema, _ = parseSchema(s.tools[i].Parameters)
		s.schemas[tool] = schema
	}
	return schema.kindOfProperty(argument)
}

// kind has the types of a value.
type kind struct {
	text   bool
	others types
}

// types is a set of types other than strings.
type types uint8

const (
	nulls types = 1 << iota
	booleans
	numbers
	arrays
	objects
	allTypes = nulls | booleans | numbers | arrays | objects
)

var anyKind = kind{text: true, others: allTypes}

// json returns a value that a model wrote without quotes and escapes as JSON. It is a string unless
// it is JSON of another possible type.
func (k kind) json(text string) string {
	trimmed := strings.Trim(text, space)
	switch trimmed { // as Python writes them: templates that convert arguments to text do the same
	case "True", "False":
		if k.others&booleans != 0 {
			return strings.ToLower(trimmed)
		}
	case "None":
		if k.others&nulls != 0 {
			return "null"
		}
	}
	if trimmed != "" && typeOf(trimmed)&k.others != 0 && json.Valid([]byte(trimmed)) {
		return trimmed
	}
	return quote(text)
}

// typeOf returns the type of a JSON value, which need not be valid; 0 for a string.
func typeOf(value string) types {
	switch value[0] {
	case '"':
		return 0
	case 'n':
		return nulls
	case 't', 'f':
		return booleans
	case '[':
		return arrays
	case '{':
		return objects
	}
	return numbers
}

// argumentTypes is a JSON Schema of arguments, from which their types follow.
type argumentTypes struct {
	root       *ordered.Object
	properties *ordered.Object // may be nil
}

// parseSchema reads the schema of a tool's arguments. Without one, there are no arguments.
func parseSchema(text string) (*argumentTypes, error) {
	if text == "" {
		text = `{"type":"object","properties":{},"additionalProperties":false}`
	}
	v, err := ordered.ParseJSON([]byte(text))
	if err != nil {
		return &argumentTypes{root: ordered.NewObject()}, err
	}
	root, ok := v.(*ordered.Object)
	if !ok {
		return &argumentTypes{root: ordered.NewObject()}, errNoObject
	}
	s := &argumentTypes{root: root}
	p, _ := root.Get("properties")
	s.properties, _ = p.(*ordered.Object)
	return s, nil
}

func (s *argumentTypes) kindOfProperty(name string) kind {
	v, _ := s.property(name)
	if possible, ok := v.(bool); ok && !possible {
		return anyKind // a free answer may have it
	}
	return s.kindOf(v, 0)
}

// property returns the schema of a property, and its JSON pointer.
func (s *argumentTypes) property(name string) (v ordered.Value, path string) {
	if s.properties != nil {
		if v, ok := s.properties.Get(name); ok {
			return v, "/properties" + pointer(name)
		}
	}
	return member(s.root, "additionalProperties"), "/additionalProperties"
}

// maxNesting is the number of references and combinations that are followed to find a type.
const maxNesting = 16

// kindOf returns the types that a schema allows, or more.
func (s *argumentTypes) kindOf(v ordered.Value, depth int) kind {
	if possible, ok := v.(bool); ok && !possible {
		return kind{}
	}
	o, ok := v.(*ordered.Object)
	if !ok || depth > maxNesting {
		return anyKind
	}
	k := anyKind
	narrow := func(other kind) {
		k.text, k.others = k.text && other.text, k.others&other.others
	}
	for key, value := range o.All() {
		list, _ := value.([]ordered.Value)
		switch key {
		case "type":
			if list == nil {
				list = []ordered.Value{value}
			}
			narrow(union(list, namedKind))
		case "enum":
			narrow(union(list, kindOfValue))
		case "const":
			narrow(kindOfValue(value))
		case "anyOf", "oneOf":
			narrow(union(list, func(v ordered.Value) kind { return s.kindOf(v, depth+1) }))
		case "allOf":
			for _, v := range list {
				narrow(s.kindOf(v, depth+1))
			}
		case "$ref":
			narrow(s.kindOf(s.resolve(value), depth+1))
		}
	}
	return k
}

func union(list []ordered.Value, of func(ordered.Value) kind) (all kind) {
	for _, v := range list {
		k := of(v)
		all.text, all.others = all.text || k.text, all.others|k.others
	}
	return all
}

func namedKind(name ordered.Value) kind {
	switch name {
	case "string":
		return kind{text: true}
	case "null":
		return kind{others: nulls}
	case "boolean":
		return kind{others: booleans}
	case "number", "integer":
		return kind{others: numbers}
	case "array":
		return kind{others: arrays}
	case "object":
		return kind{others: objects}
	}
	return anyKind
}

func kindOfValue(v ordered.Value) kind {
	switch v.(type) {
	case nil:
		return kind{others: nulls}
	case bool:
		return kind{others: booleans}
	case string:
		return kind{text: true}
	case []ordered.Value:
		return kind{others: arrays}
	case *ordered.Object:
		return kind{others: objects}
	}
	return kind{others: numbers}
}

// resolve returns the schema to which a reference within the document points; nil if there is none.
func (s *argumentTypes) resolve(ref ordered.Value) ordered.Value {
	text, _ := ref.(string)
	path, ok := strings.CutPrefix(text, "#")
	if !ok {
		return nil
	}
	at := ordered.Value(s.root)
	for _, key := range strings.Split(path, "/")[1:] {
		o, _ := at.(*ordered.Object)
		if o == nil {
			return nil
		}
		key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
		if at, ok = o.Get(key); !ok {
			return nil
		}
	}
	return at
}
