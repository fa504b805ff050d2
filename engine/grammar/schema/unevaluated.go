package schema

import (
	"strconv"

	"github.com/ingot-run/ingot/engine/grammar/pattern"
	"github.com/ingot-run/ingot/engine/grammar/regex"
	"github.com/ingot-run/ingot/internal/ordered"
)

// additional returns what properties must be that neither properties nor patternProperties name.
// With unevaluatedProperties, evaluated has those that schemas about the same value name: anything
// may be in them here.
func (s *Schema) additional(n *node) (others Value, evaluated []Class, err error) {
	if v, ok := n.get("additionalProperties"); ok {
		return s.valueAt(n, v, "additionalProperties"), nil, nil
	}
	v, ok := n.get("unevaluatedProperties")
	if !ok || isTrue(v, ok) {
		return Any, nil, nil
	}
	e := evaluation{s: s, from: n}
	if err := e.inPlace(n, 0); err != nil {
		return None, nil, err
	}
	if e.all {
		return Any, nil, nil
	}
	return s.valueAt(n, v, "unevaluatedProperties"), e.classes, nil
}

// evaluation collects the properties that the schemas about a value name.
type evaluation struct {
	s       *Schema
	from    *node // which has unevaluatedProperties
	all     bool
	classes []Class
}

// maxReferences is how many schemas about one value may refer to each other.
const maxReferences = 100

// inPlace collects from the schemas within n that are about the same value.
func (e *evaluation) inPlace(n *node, depth int) error {
	if depth > maxReferences {
		return errSteps
	}
	if list, ok := n.get("allOf"); ok {
		items, _ := list.([]any) // scan has checked it
		for i, v := range items {
			if err := e.schema(e.s.document.child(n, v, "allOf", strconv.Itoa(i)), depth); err != nil {
				return err
			}
		}
	}
	for _, key := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		ref, ok := n.get(key)
		text, isText := ref.(string)
		if !ok || !isText {
			continue
		}
		target, err := e.s.document.resolve(n, key, text)
		if err == nil {
			err = e.schema(target, depth)
		}
		if err != nil {
			return err
		}
	}
	for _, key := range []string{"anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "dependencies"} {
		if v, ok := n.get(key); ok && namesProperties(v) {
			return e.from.fail("unevaluatedProperties",
				"cannot be kept, since properties are in %s; use additionalProperties in schemas that have all properties", n.path(key))
		}
	}
	return nil
}

// schema collects from a schema and those within.
func (e *evaluation) schema(n *node, depth int) error {
	if err := e.s.spend(1); err != nil {
		return err
	}
	if n.has("additionalProperties", "unevaluatedProperties") {
		e.all = true
		return nil
	}
	if v, ok := n.get("properties"); ok {
		var names []regex.Node
		for name := range v.(*ordered.Object).All() { // scan has checked it
			names = append(names, e.s.re.Literal(quoteBody(name)))
		}
		e.classes = append(e.classes, Class{Keys: e.s.re.Or(names...), Value: Any})
	}
	if v, ok := n.get("patternProperties"); ok {
		for text := range v.(*ordered.Object).All() {
			keys, err := pattern.Search(e.s.re, text, pattern.ECMA, Quoted{})
			if err != nil {
				return n.failWith("patternProperties", err)
			}
			e.classes = append(e.classes, Class{Keys: keys, Value: Any})
		}
	}
	return e.inPlace(n, depth+1)
}

// namesProperties reports whether a value has a keyword that names properties, or a reference to a
// schema that may have one.
func namesProperties(value any) bool {
	switch v := value.(type) {
	case *ordered.Object:
		for key, item := range v.All() {
			switch key {
			case "properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "$ref", "$dynamicRef", "$recursiveRef":
				return true
			}
			if namesProperties(item) {
				return true
			}
		}
	case []any:
		for _, item := range v {
			if namesProperties(item) {
				return true
			}
		}
	}
	return false
}
