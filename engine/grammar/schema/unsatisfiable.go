package schema

import (
	"strconv"

	"github.com/ingot-run/ingot/engine/grammar/regex"
	"github.com/ingot-run/ingot/engine/grammar/source"
)

// WhyEmpty returns an error that names the place because of which v has no value. v and what it
// requires have been expanded. The error is nil if no single place is known.
func (s *Schema) WhyEmpty(v Value) error { return s.whyEmpty(v, 0) }

func (s *Schema) whyEmpty(v Value, depth int) error {
	f := s.values.list[v]
	if depth > maxEmptyDepth || v == None {
		return nil
	}
	set, err := s.Expand(v)
	if err != nil {
		return err
	}
	if !s.emptySetOf(set) {
		return nil
	}
	for _, kid := range f.kids { // of a conjunction
		if f.kind == kindAnd && s.isEmpty(kid) {
			if err := s.whyEmpty(kid, depth+1); err != nil {
				return err
			}
		}
	}
	for _, part := range s.requiredParts(set) {
		if err := s.whyEmpty(part, depth+1); err != nil {
			return err
		}
	}
	if f.node == nil || f.node.object() == nil {
		return nil
	}
	return f.node.noValue(s.contradiction(f.node))
}

// requiredParts returns the items and properties that the arrays and objects of a set need and that
// have no value.
func (s *Schema) requiredParts(set *Set) []Value {
	var out []Value
	for _, o := range set.Objects {
		for _, m := range o.Members {
			if m.Required && s.isEmpty(m.Value) {
				out = append(out, m.Value)
			}
		}
	}
	for _, a := range set.Arrays {
		for _, v := range a.Prefix[:min(a.Min, len(a.Prefix))] {
			if s.isEmpty(v) {
				out = append(out, v)
			}
		}
	}
	return out
}

// contradiction returns the keyword of n that leaves no value beside the others; "" if that is not
// one keyword.
func (s *Schema) contradiction(n *node) string {
	types, err := s.types(n)
	if err != nil || s.emptySetOf(types) {
		return "type"
	}
	if own, err := s.own(n); err != nil || !s.emptySetOf(own) {
		return s.emptyCombination(n)
	}
	without, err := s.ownValues(n)
	switch {
	case err != nil:
		return ""
	case !s.emptySetOf(without) && n.has("enum"):
		return "enum"
	case !s.emptySetOf(without):
		return "const"
	}
	numbers := !types.numbers.none()
	for _, pair := range [][2]string{{"minLength", "maxLength"}, {"minItems", "maxItems"}, {"minProperties", "maxProperties"}} {
		if lo, hi, err := counts(n, pair[0], pair[1]); err == nil && hi >= 0 && lo > hi {
			return pair[0]
		}
	}
	for _, keyword := range []string{"multipleOf", "exclusiveMinimum", "minimum", "pattern", "format", "required"} {
		if n.has(keyword) && (numbers || keyword == "pattern" || keyword == "format" || keyword == "required") {
			return s.boundOf(n, keyword)
		}
	}
	return ""
}

// boundOf returns keyword, or the bound that contradicts another without multipleOf.
func (s *Schema) boundOf(n *node, keyword string) string {
	if keyword != "multipleOf" {
		return keyword
	}
	lo, err := s.limit(n, "minimum", "exclusiveMinimum", +1)
	if err != nil {
		return keyword
	}
	hi, err := s.limit(n, "maximum", "exclusiveMaximum", -1)
	if err == nil && lo.others != nil && hi.others != nil && s.integersBetween(lo.integers, hi.integers) == regex.Nothing {
		for _, bound := range []string{"minimum", "exclusiveMinimum"} {
			if n.has(bound) {
				return bound
			}
		}
	}
	return keyword
}

// emptyCombination returns the keyword of n that combines schemas and has no value by itself.
func (s *Schema) emptyCombination(n *node) string {
	for _, keyword := range []string{"anyOf", "oneOf"} {
		value, ok := n.get(keyword)
		list, isList := value.([]any)
		if !ok || !isList {
			continue
		}
		empty := true
		for i, v := range list {
			empty = empty && s.isEmpty(s.valueAt(n, v, keyword, strconv.Itoa(i)))
		}
		if empty {
			return keyword
		}
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf", "not", "if", "$ref"} {
		if n.has(keyword) {
			return keyword
		}
	}
	return ""
}

func (n *node) noValue(keyword string) error {
	if keyword == "" {
		return &source.Error{Path: n.path(), Message: "no value satisfies this schema: its keywords contradict each other"}
	}
	return n.fail(keyword, "no value satisfies it together with the rest of its schema")
}
