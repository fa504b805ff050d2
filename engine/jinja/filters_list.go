package jinja

import (
	"slices"
	"sort"
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

func filterList(r *render, v Value, _ args) Value {
	items := r.items(v)
	r.list(len(items))
	return append([]Value{}, items...)
}

func filterItems(r *render, v Value, _ args) Value {
	switch o := v.(type) {
	case *ordered.Object:
		v = &view{"dict_items", o}
	case *undefined:
	default:
		fail("items: the value is not a dictionary")
	}
	return r.generator(v, func(item Value) (Value, bool) { return item, true })
}

func filterFirst(r *render, v Value, _ args) Value {
	it := r.iterate(v)
	if first, ok := it.step(); ok {
		return first
	}
	return &undefined{hint: "no first item, sequence was empty", strict: r.t.strict}
}

func filterLast(r *render, v Value, _ args) Value {
	if is[*iterator](v) {
		fail("a generator has no last item; convert it with the filter \"list\"")
	}
	items := r.items(v)
	if len(items) == 0 {
		return &undefined{hint: "no last item, sequence was empty", strict: r.t.strict}
	}
	return items[len(items)-1]
}

// filterReverse reverses a string, list or generator. The result for a list is an iterator; the
// result for a generator is a list.
func filterReverse(r *render, v Value, _ args) Value {
	if s, ok := text(v); ok {
		chars := []rune(s)
		slices.Reverse(chars)
		return string(chars)
	}
	items := r.items(v)
	r.list(len(items))
	items = slices.Clone(items)
	slices.Reverse(items)
	if is[*iterator](v) {
		return items
	}
	return &iterator{cursor{items: items}}
}

// sorted returns a list of the elements of v, sorted by the results of the function key. Elements
// with equal results keep their order.
func (r *render) sorted(v Value, key func(Value) Value, reverse bool) Value {
	type keyed struct{ key, value Value }
	items := r.items(v)
	r.list(3 * len(items))
	pairs := make([]keyed, len(items))
	for i, item := range items {
		pairs[i] = keyed{key(item), item}
	}
	sort.SliceStable(pairs, func(i, j int) bool {
		if reverse {
			i, j = j, i
		}
		return r.less(pairs[i].key, pairs[j].key)
	})
	out := make([]Value, len(pairs))
	for i, p := range pairs {
		out[i] = p.value
	}
	return out
}

// filterSort sorts by the elements, or by one or more attributes, whose names are separated by
// commas.
func filterSort(r *render, v Value, a args) Value {
	attributes := []Value{a.or(2, nil)}
	if s, ok := text(attributes[0]); ok {
		attributes = stringList(strings.Split(s, ","))
	}
	getters := make([]getter, len(attributes))
	for i, attribute := range attributes {
		getters[i] = newGetter(attribute, truth(a.or(1, false)))
	}
	return r.sorted(v, func(item Value) Value {
		keys := make([]Value, len(getters))
		for i, g := range getters {
			keys[i] = g.get(r, item)
		}
		return keys
	}, truth(a.or(0, false)))
}

func filterDictSort(r *render, v Value, a args) Value {
	o, ok := v.(*ordered.Object)
	if !ok {
		fail("found a value of type '%s' where a dictionary is needed", typeName(v))
	}
	by, _ := text(a.or(1, "key"))
	position := int64(slices.Index([]string{"key", "value"}, by))
	if position < 0 {
		fail(`dictsort: the argument 'by' must be "key" or "value"`)
	}
	g := newGetter(position, truth(a.or(0, false)))
	return r.sorted(&view{"dict_items", o}, func(item Value) Value { return g.get(r, item) }, truth(a.or(2, false)))
}

func filterUnique(r *render, v Value, a args) Value {
	g := newGetter(a.or(1, nil), truth(a.or(0, false)))
	var seen []Value
	return r.generator(v, func(item Value) (Value, bool) {
		key := g.get(r, item)
		for _, other := range seen {
			r.step()
			if r.equal(key, other) {
				return nil, false
			}
		}
		r.list(1)
		seen = append(seen, key)
		return item, true
	})
}
