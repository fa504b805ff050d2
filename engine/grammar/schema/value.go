package schema

import (
	"encoding/binary"
	"slices"
)

// Value is a set of JSON values, as a formula over schemas: a schema, a conjunction, a disjunction
// or a negation. Equal formulas are one Value. [Schema.Expand] says which values it has.
type Value int32

// Values that every Schema has.
const (
	None Value = iota // no value
	Any               // every value
)

type kind uint8

const (
	kindConstant kind = iota // None and Any
	kindNode                 // what node says
	kindSet                  // what set says
	kindAnd                  // all of kids
	kindOr                   // one of kids
	kindNot                  // not kids[0]
)

type formula struct {
	kind kind
	node *node
	set  *Set
	kids []Value

	expanded  *Set
	err       error
	expanding bool
	empty     emptiness
}

type emptiness uint8

const (
	notAsked emptiness = iota
	asking
	isEmpty
	isNotEmpty
)

// values makes formulas.
type values struct {
	list  []formula
	known map[string]Value
}

func newValues() values {
	return values{list: []formula{{}, {}}, known: map[string]Value{}}
}

func (v *values) add(key string, f formula) Value {
	if id, ok := v.known[key]; ok {
		return id
	}
	id := Value(len(v.list))
	v.list = append(v.list, f)
	v.known[key] = id
	return id
}

// set returns the Value of a set that is not from a schema of its own.
func (v *values) set(s *Set) Value {
	v.list = append(v.list, formula{kind: kindSet, set: s})
	return Value(len(v.list) - 1)
}

func (v *values) not(x Value) Value {
	switch x {
	case None:
		return Any
	case Any:
		return None
	}
	if f := &v.list[x]; f.kind == kindNot {
		return f.kids[0]
	}
	return v.add(formulaKey(kindNot, []Value{x}), formula{kind: kindNot, kids: []Value{x}})
}

// and keeps the order of list, since the properties of objects come in that order.
func (v *values) and(list ...Value) Value { return v.combine(kindAnd, Any, None, list) }

func (v *values) or(list ...Value) Value { return v.combine(kindOr, None, Any, list) }

func (v *values) combine(k kind, neutral, absorbing Value, list []Value) Value {
	var kids []Value
	for _, x := range list {
		switch f := &v.list[x]; {
		case x == absorbing:
			return absorbing
		case x == neutral:
		case f.kind == k:
			kids = append(kids, f.kids...)
		default:
			kids = append(kids, x)
		}
	}
	var unique []Value
	seen := make(map[Value]bool, len(kids))
	for _, x := range kids {
		if !seen[x] {
			seen[x] = true
			unique = append(unique, x)
		}
	}
	for _, x := range unique {
		if f := &v.list[x]; f.kind == kindNot && seen[f.kids[0]] {
			return absorbing
		}
	}
	switch len(unique) {
	case 0:
		return neutral
	case 1:
		return unique[0]
	}
	sorted := slices.Clone(unique)
	slices.Sort(sorted)
	return v.add(formulaKey(k, sorted), formula{kind: k, kids: unique})
}

func formulaKey(k kind, kids []Value) string {
	key := []byte{byte(k)}
	for _, x := range kids {
		key = binary.LittleEndian.AppendUint32(key, uint32(x))
	}
	return string(key)
}
