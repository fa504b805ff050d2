package schema

import (
	"github.com/ingot-run/ingot/engine/grammar/regex"
)

// Find returns the member with a name.
func (o *Object) Find(name string) (Member, bool) {
	if o.index == nil && len(o.Members) > 8 {
		o.index = make(map[string]int, len(o.Members))
		for i, m := range o.Members {
			o.index[m.Name] = i
		}
	}
	if o.index != nil {
		i, ok := o.index[name]
		if !ok {
			return Member{}, false
		}
		return o.Members[i], true
	}
	for _, m := range o.Members {
		if m.Name == name {
			return m, true
		}
	}
	return Member{}, false
}

// valueOf returns what a property must be, member or not.
func (s *Schema) valueOf(o *Object, name string) Member {
	if m, ok := o.Find(name); ok {
		return m
	}
	return Member{Name: name, Value: s.classOf(o.Classes, name), Loose: true}
}

// classOf returns what a property that is no member must be.
func (s *Schema) classOf(classes []Class, name string) Value {
	for _, c := range classes {
		if s.hasKey(c.Keys, name) {
			return c.Value
		}
	}
	return None
}

func (s *Schema) hasKey(keys regex.Node, name string) bool {
	return keys == regex.All || s.re.Match(keys, quoteBody(name))
}

// meetObjects returns nil if nothing is in both.
func (s *Schema) meetObjects(a, b *Object) (*Object, error) {
	switch {
	case a == anyObject || a == b:
		return b, nil
	case b == anyObject:
		return a, nil
	}
	out := &Object{
		Min: max(a.Min, b.Min), Max: meetMax(a.Max, b.Max), minPlace: a.minPlace,
		Some: append(append([]Class(nil), a.Some...), b.Some...),
	}
	if out.minPlace == nil || b.Min > a.Min {
		out.minPlace = b.minPlace
	}
	if err := s.spend(1 + len(a.Members) + len(b.Members)); err != nil {
		return nil, err
	}
	for _, pair := range s.pairs(a, b) {
		if !s.meetMember(out, pair[0], pair[1]) {
			return nil, nil
		}
	}
	out.Classes = s.meetClasses(a.Classes, b.Classes)
	return s.tidyObject(out)
}

// pairs returns the members of two objects in the order in which they are written: those with a
// place in the order of a, those with one in the order of b, and the loose ones.
func (s *Schema) pairs(a, b *Object) [][2]Member {
	list := make([][2]Member, 0, len(a.Members)+len(b.Members))
	var loose [][2]Member
	for _, m := range a.Members {
		pair := [2]Member{m, s.valueOf(b, m.Name)}
		switch {
		case !m.Loose:
			list = append(list, pair)
		case pair[1].Loose:
			loose = append(loose, pair)
		}
	}
	for _, m := range b.Members {
		first, ok := a.Find(m.Name)
		if ok && (!first.Loose || m.Loose) {
			continue // it is there already
		}
		pair := [2]Member{s.valueOf(a, m.Name), m}
		if m.Loose {
			loose = append(loose, pair)
		} else {
			list = append(list, pair)
		}
	}
	return append(list, loose...)
}

// meetMember adds the meeting of two members of the same name. It returns false if the member is
// required and has no value.
func (s *Schema) meetMember(out *Object, a, b Member) bool {
	m := Member{Name: a.Name, Value: s.values.and(a.Value, b.Value), Required: a.Required || b.Required, Loose: a.Loose && b.Loose}
	if m.Value != a.Value && m.Value != b.Value && s.isEmpty(m.Value) {
		m.Value = None
	}
	out.Members = append(out.Members, m)
	return m.Value != None || !m.Required
}

func (s *Schema) meetClasses(a, b []Class) []Class {
	var out []Class
	for _, x := range a {
		for _, y := range b {
			c := Class{Keys: s.meetNodes(x.Keys, y.Keys, regex.All), Value: s.values.and(x.Value, y.Value)}
			if c.Value == None || s.noText(c.Keys) || c.Value != x.Value && c.Value != y.Value && s.isEmpty(c.Value) {
				continue
			}
			out = append(out, c)
		}
	}
	return out
}

// tidyObject returns nil if the object cannot be.
func (s *Schema) tidyObject(o *Object) (*Object, error) {
	required, possible := 0, 0
	for _, m := range o.Members {
		if m.Required {
			required++
		}
		if m.Value != None {
			possible++
		}
	}
	if o.Max >= 0 && (required > o.Max || o.Min > o.Max) || len(o.Classes) == 0 && possible < o.Min {
		return nil, nil
	}
	for _, some := range o.Some {
		if s.isEmpty(some.Value) {
			return nil, nil
		}
	}
	return o, nil
}

// notObject returns the objects that o does not have.
func (s *Schema) notObject(o *Object) ([]*Object, error) {
	var out []*Object
	for _, m := range o.Members {
		if m.Required {
			out = append(out, &Object{Members: []Member{{Name: m.Name, Loose: true}}, Classes: anyKeys, Max: -1})
		}
		if not := s.values.not(m.Value); not != None {
			out = append(out, &Object{Members: []Member{{Name: m.Name, Value: not, Required: true, Loose: true}}, Classes: anyKeys, Max: -1})
		}
	}
	out = append(out, s.notClasses(o)...)
	if o.Min > 0 {
		out = append(out, &Object{Classes: anyKeys, Max: o.Min - 1})
	}
	if o.Max >= 0 {
		out = append(out, &Object{Classes: anyKeys, Min: o.Max + 1, Max: -1, minPlace: o.minPlace.other("maxProperties")})
	}
	for _, some := range o.Some {
		classes := []Class{{Keys: some.Keys, Value: s.values.not(some.Value)}}
		if classes[0].Value == None {
			classes = nil
		}
		if some.Keys != regex.All {
			classes = append(classes, Class{Keys: s.otherKeys(some.Keys), Value: Any})
		}
		out = append(out, &Object{Classes: classes, Max: -1})
	}
	return out, nil
}

// otherKeys returns the keys that are not among keys.
func (s *Schema) otherKeys(keys regex.Node) regex.Node {
	return s.re.Minus(s.re.Repeat(s.char, 0, regex.Unbounded), keys)
}

// notClasses returns the objects with a property that is no member of o and that o does not allow.
func (s *Schema) notClasses(o *Object) []*Object {
	var names []regex.Node
	for _, m := range o.Members {
		names = append(names, s.re.Literal(quoteBody(m.Name)))
	}
	free := func(keys regex.Node) regex.Node { return s.meetNodes(keys, s.re.Not(s.re.Or(names...)), regex.All) }
	var out []*Object
	covered := regex.Nothing
	for _, c := range o.Classes {
		covered = s.joinNodes([]regex.Node{covered, c.Keys}, regex.All)
		if not := s.values.not(c.Value); not != None {
			out = append(out, &Object{Classes: anyKeys, Max: -1, Some: []Class{{Keys: free(c.Keys), Value: not}}})
		}
	}
	if covered != regex.All {
		if keys := free(s.otherKeys(covered)); !s.noText(keys) {
			out = append(out, &Object{Classes: anyKeys, Max: -1, Some: []Class{{Keys: keys, Value: Any}}})
		}
	}
	return out
}

// SplitSome returns objects without Some that together have what o has, except that a Class of
// Extra must occur among the properties that are no members. Each of Some is either a member or
// such a property.
func (s *Schema) SplitSome(o *Object) ([]*Object, error) {
	out := []*Object{{Members: o.Members, Classes: o.Classes, Min: o.Min, Max: o.Max, minPlace: o.minPlace}}
	for _, some := range o.Some {
		var next []*Object
		for _, x := range out {
			split, err := s.splitOne(x, some)
			if err != nil {
				return nil, err
			}
			if next = append(next, split...); len(next) > maxAlternatives {
				return nil, errAlternatives
			}
		}
		out = next
	}
	return out, nil
}

func (s *Schema) splitOne(o *Object, some Class) ([]*Object, error) {
	if err := s.spend(1 + len(o.Members)); err != nil {
		return nil, err
	}
	var out []*Object
	for i, m := range o.Members {
		if m.Value == None || !s.hasKey(some.Keys, m.Name) {
			continue
		}
		value := s.values.and(m.Value, some.Value)
		if s.isEmpty(value) {
			continue
		}
		x := *o
		x.index = nil
		x.Members = append([]Member(nil), o.Members...)
		x.Members[i] = Member{Name: m.Name, Value: value, Required: true, Loose: m.Loose}
		out = append(out, &x)
	}
	for _, c := range o.Classes {
		extra := Class{Keys: s.meetNodes(c.Keys, some.Keys, regex.All), Value: s.values.and(c.Value, some.Value)}
		if s.noText(s.FreeKeys(o, extra.Keys)) || s.isEmpty(extra.Value) {
			continue
		}
		x := *o
		x.Some = append(append([]Class(nil), o.Some...), extra)
		out = append(out, &x)
	}
	return out, nil
}

// FreeKeys returns the keys among keys that are no member of o, in canonical spelling without
// quotes.
func (s *Schema) FreeKeys(o *Object, keys regex.Node) regex.Node {
	if keys == regex.All {
		keys = s.re.Repeat(s.char, 0, regex.Unbounded)
	}
	if len(o.Members) == 0 {
		return keys
	}
	names := make([]regex.Node, len(o.Members))
	for i, m := range o.Members {
		names[i] = s.re.Literal(quoteBody(m.Name))
	}
	return s.re.Minus(keys, s.re.Or(names...))
}
