package schema

import (
	"errors"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/engine/grammar/regex"
	"github.com/ingot-run/ingot/engine/grammar/source"
	"github.com/ingot-run/ingot/internal/ordered"
)

// expandNode returns the values that a schema allows. The properties of objects come in the order
// in which the schema's text has them, in $ref and allOf too.
func (s *Schema) expandNode(n *node) (*Set, error) {
	o := n.object()
	_, properties := o.Get("properties")
	_, ref := o.Get("$ref")
	alone := ref && n.resource.old // drafts before 2019-09 ignore what is beside $ref
	var done [dependentGroup + 1]bool
	out := s.fullSet()
	for key, value := range o.All() {
		g := groups[key]
		switch {
		case g == noGroup, done[g] && g != dependentGroup && g != refGroup, alone && key != "$ref":
			continue
		case g == ownGroup && properties && key != "properties":
			continue
		}
		done[g] = true
		set, err := s.expandGroup(n, g, key, value)
		if err == nil {
			out, err = s.meet(out, set)
		}
		if err != nil {
			return nil, s.placeAt(n, g, key, err)
		}
	}
	return out, nil
}

func (s *Schema) placeAt(n *node, g group, key string, err error) error {
	var placed *source.Error
	if errors.As(err, &placed) || g == ownGroup {
		return s.place(n, err)
	}
	return n.fail(key, "%v", err)
}

func (s *Schema) expandGroup(n *node, g group, key string, value any) (*Set, error) {
	switch g {
	case ownGroup:
		return s.own(n)
	case allOfGroup:
		return s.Expand(s.values.and(s.list(n, key, value)...))
	case anyOfGroup:
		return s.Expand(s.values.or(s.list(n, key, value)...))
	case oneOfGroup:
		return s.oneOf(n, s.list(n, key, value))
	case notGroup:
		return s.Expand(s.values.not(s.valueAt(n, value, key)))
	case ifGroup:
		return s.ifThenElse(n, value)
	case refGroup:
		return s.reference(n, key, value)
	default:
		return s.dependent(n, key, value)
	}
}

// list returns the Values of a keyword's schemas.
func (s *Schema) list(n *node, key string, value any) []Value {
	items, _ := value.([]any) // scan has checked it
	list := make([]Value, len(items))
	for i, v := range items {
		list[i] = s.valueAt(n, v, key, strconv.Itoa(i))
	}
	return list
}

func (s *Schema) reference(n *node, key string, value any) (*Set, error) {
	ref, ok := value.(string)
	if !ok {
		return nil, n.fail(key, "must be a string")
	}
	switch key {
	case "$dynamicRef":
		_, name, _ := strings.Cut(ref, "#")
		if len(s.document.dynamic[name]) > 1 {
			return nil, n.fail(key, "several schemas have the $dynamicAnchor %q; use $ref", name)
		}
	case "$recursiveRef":
		if s.document.recursive > 1 {
			return nil, n.fail(key, "several schemas have a $recursiveAnchor; use $ref")
		}
	}
	target, err := s.document.resolve(n, key, ref)
	if err != nil {
		return nil, err
	}
	return s.Expand(s.valueOfNode(target))
}

// oneOf returns the values of exactly one of list. Those that have nothing in common need no
// complement.
func (s *Schema) oneOf(n *node, list []Value) (*Set, error) {
	own, err := s.own(n)
	if err != nil {
		return nil, err
	}
	here := s.values.set(own)
	var terms []Value
	for i, v := range list {
		term := []Value{v}
		for j, other := range list {
			if i == j {
				continue
			}
			common, err := s.Expand(s.values.and(here, list[min(i, j)], list[max(i, j)]))
			if err != nil {
				return nil, err
			}
			if !s.emptySetOf(common) {
				term = append(term, s.values.not(other))
			}
		}
		terms = append(terms, s.values.and(term...))
	}
	return s.Expand(s.values.or(terms...))
}

func (s *Schema) ifThenElse(n *node, value any) (*Set, error) {
	condition := s.valueAt(n, value, "if")
	branch := func(key string) Value {
		if v, ok := n.get(key); ok {
			return s.valueAt(n, v, key)
		}
		return Any
	}
	yes, no := branch("then"), branch("else")
	if yes == Any && no == Any {
		return s.fullSet(), nil
	}
	return s.Expand(s.values.or(s.values.and(condition, yes), s.values.and(s.values.not(condition), no)))
}

// dependent reads dependentRequired, dependentSchemas and their predecessor dependencies.
func (s *Schema) dependent(n *node, key string, value any) (*Set, error) {
	o, ok := value.(*ordered.Object)
	if !ok {
		return nil, n.fail(key, "must be an object")
	}
	out := s.fullSet()
	for name, v := range o.All() {
		without := s.fullSet()
		without.Objects = []*Object{{Members: []Member{{Name: name, Loose: true}}, Classes: anyKeys, Max: -1}}
		with := s.fullSet()
		present := &Object{Members: []Member{{Name: name, Value: Any, Required: true, Loose: true}}, Classes: anyKeys, Max: -1}
		with.Objects = []*Object{present}
		if names, isList := v.([]any); isList && key != "dependentSchemas" {
			for i, other := range names {
				text, ok := other.(string)
				if !ok {
					return nil, n.fail(key, "item %d of %q must be a string", i, name)
				}
				if text != name {
					present.Members = append(present.Members, Member{Name: text, Value: Any, Required: true, Loose: true})
				}
			}
		} else {
			if key == "dependentRequired" {
				return nil, n.fail(key, "%q must be an array of names", name)
			}
			then, err := s.Expand(s.valueAt(n, v, key, name))
			if err == nil {
				with, err = s.meet(with, then)
			}
			if err != nil {
				return nil, err
			}
		}
		either, err := s.join(without, with)
		if err == nil {
			out, err = s.meet(out, either)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// constant returns the Value of one JSON value.
func (s *Schema) constant(n *node, keyword string, value any) (Value, error) {
	key := "constant " + strconv.Itoa(s.key(value))
	if id, ok := s.values.known[key]; ok {
		return id, nil
	}
	set, err := s.constants(n, keyword, []any{value})
	if err != nil {
		return None, err
	}
	return s.values.add(key, formula{kind: kindSet, set: set}), nil
}

// constants returns the set of the given JSON values.
func (s *Schema) constants(n *node, keyword string, list []any) (*Set, error) {
	out := s.emptySet()
	var integers, others, texts []regex.Node
	for _, value := range list {
		if err := s.spend(1); err != nil {
			return nil, err
		}
		switch v := value.(type) {
		case nil:
			out.Null = true
		case bool:
			out.True, out.False = out.True || v, out.False || !v
		case string:
			texts = append(texts, s.re.Literal(quoteBody(v)))
		case []any:
			a := &Array{Min: len(v), Max: len(v)}
			for _, item := range v {
				c, err := s.constant(n, keyword, item)
				if err != nil {
					return nil, err
				}
				a.Prefix = append(a.Prefix, c)
			}
			out.Arrays = append(out.Arrays, a)
		case *ordered.Object:
			o := &Object{Max: -1}
			for name, item := range v.All() {
				c, err := s.constant(n, keyword, item)
				if err != nil {
					return nil, err
				}
				o.Members = append(o.Members, Member{Name: name, Value: c, Required: true})
			}
			out.Objects = append(out.Objects, o)
		default:
			d, err := number(n, keyword, value)
			if err != nil {
				return nil, err
			}
			if d.whole() {
				integers = append(integers, s.re.Literal(d.String()))
			} else {
				others = append(others, s.re.Literal(d.String()))
			}
		}
	}
	out.numbers = numberSet{integers: s.re.Or(integers...), others: s.re.Or(others...), exact: true}
	if len(texts) > 0 {
		out.strings = bodyStrings(s.re.Or(texts...))
	}
	return out, nil
}
