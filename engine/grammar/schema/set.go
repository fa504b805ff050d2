package schema

import (
	"slices"

	"github.com/ingot-run/ingot/engine/grammar/regex"
)

// Set is what values a [Value] has, type by type.
type Set struct {
	Null        bool
	False, True bool
	numbers     numberSet
	strings     stringSet
	Arrays      []*Array  // alternatives
	Objects     []*Object // alternatives
}

// Array is a set of arrays.
type Array struct {
	Prefix   []Value // of the first items
	Rest     Value   // of the items after them
	Min, Max int     // the number of items; Max is -1 for no limit
	Some     []Items // some items must be so
	Unique   *Place  // no item occurs twice, says the keyword there
	place    *Place  // of a keyword that counts items
}

// Items says that at least Count items from index From have the Value.
type Items struct {
	From, Count int
	Value       Value
}

// Object is a set of objects.
type Object struct {
	Members  []Member // properties by name, in the order in which they are written
	Classes  []Class  // other properties by their keys. The keys are disjoint; others are not allowed
	Min, Max int      // the number of properties; Max is -1 for no limit
	Some     []Class  // some property must be so
	minPlace *Place   // of minProperties
	index    map[string]int
}

// Member is a property with a known name. A Value of None means that there must be none. Loose
// means that no schema has it among its properties, so that it has no place in their order.
type Member struct {
	Name     string
	Value    Value
	Required bool
	Loose    bool
}

// Class is a set of properties: Keys is the expression of their keys, as they are spelled between
// the quotes.
type Class struct {
	Keys  regex.Node
	Value Value
}

// Place is a keyword of a schema.
type Place struct {
	node    *node
	keyword string
}

// other returns the place of another keyword of the same schema.
func (p *Place) other(keyword string) *Place {
	if p == nil {
		return nil
	}
	return &Place{p.node, keyword}
}

// Fail returns an error about the keyword.
func (p *Place) Fail(format string, args ...any) error {
	return p.node.fail(p.keyword, format, args...)
}

// Arrays and objects without any constraint. Sets share them.
var (
	anyArray  = &Array{Rest: Any, Max: -1}
	anyKeys   = []Class{{Keys: regex.All, Value: Any}}
	anyObject = &Object{Classes: anyKeys, Max: -1}
)

func (s *Schema) fullSet() *Set {
	return &Set{
		Null: true, False: true, True: true,
		numbers: s.number.all, strings: anyString,
		Arrays: []*Array{anyArray}, Objects: []*Object{anyObject},
	}
}

// meet returns the values that both sets have.
func (s *Schema) meet(a, b *Set) (*Set, error) {
	out := &Set{
		Null: a.Null && b.Null, False: a.False && b.False, True: a.True && b.True,
		numbers: s.meetNumbers(a.numbers, b.numbers),
		strings: s.meetStrings(a.strings, b.strings),
	}
	var err error
	if out.Arrays, err = product(s, a.Arrays, b.Arrays, s.meetArrays); err != nil {
		return nil, err
	}
	out.Objects, err = product(s, a.Objects, b.Objects, s.meetObjects)
	return out, err
}

// product meets each of one list of alternatives with each of another. meet returns nil if two have
// nothing in common.
func product[T comparable](s *Schema, a, b []T, meet func(x, y T) (T, error)) ([]T, error) {
	var out []T
	var zero T
	for _, x := range a {
		for _, y := range b {
			if err := s.spend(1); err != nil {
				return nil, err
			}
			both, err := meet(x, y)
			switch {
			case err != nil:
				return nil, err
			case both == zero || slices.Contains(out, both):
				continue
			case len(out) >= maxAlternatives:
				return nil, errAlternatives
			}
			out = append(out, both)
		}
	}
	return out, nil
}

// join returns the values that one of the sets has.
func (s *Schema) join(sets ...*Set) (*Set, error) {
	out := s.emptySet()
	arrays, objects := map[*Array]bool{}, map[*Object]bool{}
	for _, a := range sets {
		out.Null, out.False, out.True = out.Null || a.Null, out.False || a.False, out.True || a.True
		out.Arrays = appendNew(out.Arrays, a.Arrays, arrays, anyArray)
		out.Objects = appendNew(out.Objects, a.Objects, objects, anyObject)
		if len(out.Arrays) > maxAlternatives || len(out.Objects) > maxAlternatives {
			return nil, errAlternatives
		}
	}
	out.numbers, out.strings = s.joinNumbers(sets), s.joinStrings(sets)
	return out, nil
}

// appendNew adds alternatives that are not in seen. all is the alternative that has all others.
func appendNew[T comparable](list, more []T, seen map[T]bool, all T) []T {
	for _, x := range more {
		if seen[x] || seen[all] {
			continue
		}
		seen[x] = true
		if x == all {
			return []T{all}
		}
		list = append(list, x)
	}
	return list
}

// subtract returns the values of a that b does not have.
func (s *Schema) subtract(a, b *Set) (*Set, error) {
	out := &Set{
		Null: a.Null && !b.Null, False: a.False && !b.False, True: a.True && !b.True,
		numbers: s.meetNumbers(a.numbers, s.notNumbers(b.numbers)),
		strings: s.meetStrings(a.strings, s.notStrings(b.strings)),
		Arrays:  a.Arrays, Objects: a.Objects,
	}
	for _, y := range b.Arrays {
		var err error
		if out.Arrays, err = without(s, out.Arrays, y, s.meetArrays, s.notArray); err != nil {
			return nil, err
		}
	}
	for _, y := range b.Objects {
		var err error
		if out.Objects, err = without(s, out.Objects, y, s.meetObjects, s.notObject); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// without takes y from each of a list of alternatives. One that has nothing in common with y stays
// as it is, which keeps the list short.
func without[T comparable](s *Schema, list []T, y T, meet func(x, y T) (T, error), not func(T) ([]T, error)) ([]T, error) {
	var out, complement []T
	var zero T
	for _, x := range list {
		common, err := meet(x, y)
		if err != nil {
			return nil, err
		}
		if common == zero {
			if !slices.Contains(out, x) {
				out = append(out, x)
			}
			continue
		}
		if complement == nil {
			if complement, err = not(y); err != nil {
				return nil, err
			}
		}
		rest, err := product(s, []T{x}, complement, meet)
		if err != nil {
			return nil, err
		}
		if out = append(out, rest...); len(out) > maxAlternatives {
			return nil, errAlternatives
		}
	}
	return out, nil
}

// Scalars returns the expression of the set's values that are neither arrays nor objects.
func (s *Schema) Scalars(set *Set) regex.Node {
	var list []regex.Node
	if set.Null {
		list = append(list, s.re.Literal("null"))
	}
	if set.True {
		list = append(list, s.re.Literal("true"))
	}
	if set.False {
		list = append(list, s.re.Literal("false"))
	}
	list = append(list, s.spellNumbers(set.numbers), s.spellStrings(set.strings))
	return s.re.Or(list...)
}
