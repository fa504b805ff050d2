package schema

import (
	"math/big"
	"strconv"

	"github.com/ingot-run/ingot/engine/grammar/pattern"
	"github.com/ingot-run/ingot/engine/grammar/regex"
	"github.com/ingot-run/ingot/internal/ordered"
)

func addInt(x *big.Int, n int) *big.Int { return new(big.Int).Add(x, big.NewInt(int64(n))) }

// has reports whether a schema has any of the keywords.
func (n *node) has(keywords ...string) bool {
	for _, k := range keywords {
		if _, ok := n.get(k); ok {
			return true
		}
	}
	return false
}

// ownArray returns the arrays that a schema's own keywords allow, nil for none.
func (s *Schema) ownArray(n *node) (*Array, error) {
	if !n.has("items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains", "unevaluatedItems") {
		return anyArray, nil
	}
	a := &Array{Rest: Any}
	var err error
	if a.Min, a.Max, err = counts(n, "minItems", "maxItems"); err != nil {
		return nil, err
	}
	if err := s.items(n, a); err != nil {
		return nil, err
	}
	if err := s.contains(n, a); err != nil {
		return nil, err
	}
	for _, keyword := range []string{"contains", "maxItems", "minItems"} {
		if n.has(keyword) {
			a.place = &Place{n, keyword}
			break
		}
	}
	if isTrue(n.get("uniqueItems")) {
		a.Unique = &Place{n, "uniqueItems"}
	}
	return s.tidyArray(a)
}

func (s *Schema) items(n *node, a *Array) error {
	rest := "items"
	list, key := "prefixItems", "prefixItems"
	if items, ok := n.get("items"); ok {
		if _, isList := items.([]any); isList { // before draft 2020-12
			rest, list, key = "additionalItems", "items", "items"
		}
	}
	if v, ok := n.get(list); ok {
		if items, _ := v.([]any); len(items) > maxPrefix {
			return n.fail(key, "has %d items; at most %d are allowed", len(items), maxPrefix)
		}
		a.Prefix = s.list(n, key, v)
	}
	if v, ok := n.get(rest); ok {
		a.Rest = s.valueAt(n, v, rest)
		return nil
	}
	unevaluated, ok := n.get("unevaluatedItems")
	if !ok || isTrue(unevaluated, ok) {
		return nil
	}
	if n.has(inPlace...) || n.has("contains") {
		return n.fail("unevaluatedItems", "cannot be kept beside allOf, anyOf, oneOf, not, if, $ref or contains; use items")
	}
	a.Rest = s.valueAt(n, unevaluated, "unevaluatedItems")
	return nil
}

// inPlace has the keywords whose schemas are about the same value.
var inPlace = []string{
	"allOf", "anyOf", "oneOf", "not", "if", "$ref", "$dynamicRef", "$recursiveRef", "dependentSchemas", "dependencies",
}

func (s *Schema) contains(n *node, a *Array) error {
	v, ok := n.get("contains")
	if !ok {
		return nil
	}
	least, err := count(n, "minContains", 1)
	if err != nil {
		return err
	}
	if n.has("maxContains") {
		return n.fail("maxContains", "cannot be kept; leave it out")
	}
	if least > 0 {
		a.Some = []Items{{Count: least, Value: s.valueAt(n, v, "contains")}}
	}
	return nil
}

// ownObject returns the objects that a schema's own keywords allow, nil for none.
func (s *Schema) ownObject(n *node) (*Object, error) {
	if !n.has("properties", "required", "additionalProperties", "patternProperties", "propertyNames",
		"minProperties", "maxProperties", "unevaluatedProperties") {
		return anyObject, nil
	}
	o := &Object{minPlace: &Place{n, "minProperties"}}
	var err error
	if o.Min, o.Max, err = counts(n, "minProperties", "maxProperties"); err != nil {
		return nil, err
	}
	patterns, err := s.patternProperties(n)
	if err != nil {
		return nil, err
	}
	others, evaluated, err := s.additional(n)
	if err != nil {
		return nil, err
	}
	if o.Classes, err = s.classes(append(evaluated, patterns...), others); err != nil {
		return nil, err
	}
	if err := s.properties(n, o, patterns); err != nil {
		return nil, err
	}
	if err := s.propertyNames(n, o); err != nil {
		return nil, err
	}
	for i, m := range o.Members {
		if m.Required && m.Value == None {
			return nil, nil
		}
		if !m.Required && m.Value != None && s.isEmpty(m.Value) {
			o.Members[i].Value = None
		}
	}
	return s.tidyObject(o)
}

// patternProperties returns the classes of keys that have schemas by their keys.
func (s *Schema) patternProperties(n *node) ([]Class, error) {
	value, ok := n.get("patternProperties")
	if !ok {
		return nil, nil
	}
	var list []Class
	for text, v := range value.(*ordered.Object).All() { // scan has checked it
		keys, err := pattern.Search(s.re, text, pattern.ECMA, Quoted{})
		if err != nil {
			return nil, n.failWith("patternProperties", err)
		}
		list = append(list, Class{Keys: keys, Value: s.valueAt(n, v, "patternProperties", text)})
	}
	return list, nil
}

// classes makes the classes of patternProperties disjoint, and adds that of the other keys.
func (s *Schema) classes(patterns []Class, others Value) ([]Class, error) {
	const free Value = -1 // no pattern matches
	list := []Class{{Keys: regex.All, Value: free}}
	for _, p := range patterns {
		var next []Class
		for _, c := range list {
			if in := s.meetNodes(c.Keys, p.Keys, regex.All); !s.noText(in) {
				value := p.Value
				if c.Value != free {
					value = s.values.and(c.Value, p.Value)
				}
				next = append(next, Class{Keys: in, Value: value})
			}
			if out := s.meetNodes(c.Keys, s.otherKeys(p.Keys), regex.All); !s.noText(out) {
				next = append(next, Class{Keys: out, Value: c.Value})
			}
		}
		if list = next; len(list) > maxClasses {
			return nil, errAlternatives
		}
	}
	var out []Class
	for _, c := range list {
		if c.Value == free {
			c.Value = others
		}
		if c.Value != None {
			out = append(out, c)
		}
	}
	return out, nil
}

const (
	maxClasses = 64
	maxMembers = 10_000 // of an object
)

func (s *Schema) properties(n *node, o *Object, patterns []Class) error {
	member := func(name string, value Value) Member {
		for _, p := range patterns {
			if s.hasKey(p.Keys, name) {
				value = s.values.and(value, p.Value)
			}
		}
		return Member{Name: name, Value: value}
	}
	at := map[string]int{}
	add := func(m Member) int {
		i, ok := at[m.Name]
		if !ok {
			i = len(o.Members)
			at[m.Name] = i
			o.Members = append(o.Members, m)
		}
		return i
	}
	if value, ok := n.get("properties"); ok {
		if count := value.(*ordered.Object).Len(); count > maxMembers {
			return n.fail("properties", "has %d properties; at most %d are allowed", count, maxMembers)
		}
		for name, v := range value.(*ordered.Object).All() { // scan has checked it
			add(member(name, s.valueAt(n, v, "properties", name)))
		}
	}
	value, ok := n.get("required")
	if !ok {
		return s.spend(len(o.Members))
	}
	list, ok := value.([]any)
	if !ok {
		return n.fail("required", "must be an array of the names of properties")
	}
	if len(list) > maxMembers {
		return n.fail("required", "has %d names; at most %d are allowed", len(list), maxMembers)
	}
	for i, v := range list {
		name, ok := v.(string)
		if !ok {
			return n.fail("required/"+strconv.Itoa(i), "must be a string")
		}
		if _, ok := at[name]; !ok {
			add(Member{Name: name, Value: s.classOf(o.Classes, name), Loose: true})
		}
		o.Members[at[name]].Required = true
	}
	return s.spend(len(o.Members))
}

// propertyNames removes what has a key that the schema of keys does not allow.
func (s *Schema) propertyNames(n *node, o *Object) error {
	v, ok := n.get("propertyNames")
	if !ok {
		return nil
	}
	set, err := s.Expand(s.valueAt(n, v, "propertyNames"))
	if err != nil || set.strings == anyString {
		return err
	}
	keys := s.bodyOf(set.strings)
	for i, m := range o.Members {
		if !s.hasKey(keys, m.Name) {
			o.Members[i].Value = None
		}
	}
	var classes []Class
	for _, c := range o.Classes {
		if c.Keys = s.meetNodes(c.Keys, keys, regex.All); !s.noText(c.Keys) {
			classes = append(classes, c)
		}
	}
	o.Classes = classes
	return nil
}
