package jinja

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/ingot-run/ingot/ordered"
)

func filterList(r *render, v Value, _ args) (Value, error) {
	items, err := r.items(v)
	if err == nil {
		err = r.list(len(items))
	}
	return append([]Value{}, items...), err
}

func filterItems(r *render, v Value, _ args) (Value, error) {
	return generator(func() (func() (Value, bool, error), error) {
		switch v := v.(type) {
		case *undefined:
			return nothing, nil
		case *ordered.Object:
			it, err := r.iterate(&view{"dict_items", v})
			return it.step, err
		}
		return nil, errors.New("can only get item pairs from a mapping")
	}), nil
}

func filterFirst(r *render, v Value, _ args) (Value, error) {
	it, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	first, ok, err := it.step()
	if !ok && err == nil {
		return &undefined{hint: "no first item, sequence was empty"}, nil
	}
	return first, err
}

func filterLast(r *render, v Value, _ args) (Value, error) {
	if _, ok := v.(*iterator); ok {
		return nil, errors.New("a generator has no last item, make a list of it")
	}
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return &undefined{hint: "no last item, sequence was empty"}, nil
	}
	return items[len(items)-1], nil
}

// filterReverse turns a string or list around. What it gives for a list is an iterator, and a list for a generator.
func filterReverse(r *render, v Value, _ args) (Value, error) {
	if s, ok := text(v); ok {
		chars := []rune(s)
		slices.Reverse(chars)
		return sameMarkup(v, string(chars)), nil
	}
	items, err := r.items(v)
	if err == nil {
		err = r.list(len(items))
	}
	if err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	slices.Reverse(items)
	if _, ok := v.(*iterator); ok {
		return items, nil
	}
	return &iterator{cursor{items: items}}, nil
}

// keyed is an element with what it is sorted by.
type keyed struct{ key, value Value }

// sorted sorts elements by their keys, keeping the order of equal ones.
func (r *render) sorted(items []keyed, reverse bool) error {
	var failed error
	sort.SliceStable(items, func(i, j int) bool {
		if failed != nil {
			return false
		}
		if reverse {
			i, j = j, i
		}
		less, err := r.less(items[i].key, items[j].key)
		if err != nil {
			failed = err
		}
		return less
	})
	return failed
}

// byKey pairs the elements of v with their keys.
func (r *render) byKey(v Value, key func(Value) (Value, error)) ([]keyed, error) {
	items, err := r.items(v)
	if err == nil {
		err = r.list(2 * len(items))
	}
	if err != nil {
		return nil, err
	}
	out := make([]keyed, len(items))
	for i, item := range items {
		k, err := key(item)
		if err != nil {
			return nil, err
		}
		out[i] = keyed{k, item}
	}
	return out, nil
}

func values(items []keyed) []Value {
	out := make([]Value, len(items))
	for i, k := range items {
		out[i] = k.value
	}
	return out
}

// filterSort sorts by the element, or by attributes with commas between them.
func filterSort(r *render, v Value, a args) (Value, error) {
	attribute, caseSensitive := a.or(2, nil), truth(a.or(1, false))
	var getters []getter
	if s, ok := text(attribute); ok {
		for part := range strings.SplitSeq(s, ",") {
			getters = append(getters, newGetter(part, caseSensitive))
		}
	} else {
		getters = []getter{newGetter(attribute, caseSensitive)}
	}
	items, err := r.byKey(v, func(item Value) (Value, error) {
		keys := make([]Value, len(getters))
		for i, g := range getters {
			var err error
			if keys[i], err = g.get(r, item); err != nil {
				return nil, err
			}
		}
		return keys, nil
	})
	if err == nil {
		err = r.sorted(items, truth(a.or(0, false)))
	}
	return values(items), err
}

func filterDictSort(r *render, v Value, a args) (Value, error) {
	o, ok := v.(*ordered.Object)
	if !ok {
		return nil, fmt.Errorf("a dictionary is needed, not '%s'", typeName(v))
	}
	by, _ := text(a.or(1, "key"))
	place := int64(slices.Index([]string{"key", "value"}, by))
	if place < 0 {
		return nil, errors.New(`you can only sort by either "key" or "value"`)
	}
	g := newGetter(place, truth(a.or(0, false)))
	items, err := r.byKey(&view{"dict_items", o}, func(item Value) (Value, error) { return g.get(r, item) })
	if err == nil {
		err = r.sorted(items, truth(a.or(2, false)))
	}
	return values(items), err
}

func filterUnique(r *render, v Value, a args) (Value, error) {
	return generator(func() (func() (Value, bool, error), error) {
		g := newGetter(a.or(1, nil), truth(a.or(0, false)))
		var seen []Value
		return r.over(v, func(item Value) (Value, bool, error) {
			key, err := g.get(r, item)
			if err != nil {
				return nil, false, err
			}
			for _, other := range seen {
				if err := r.step(); err != nil {
					return nil, false, err
				}
				if same, err := r.equal(key, other); same || err != nil {
					return nil, false, err
				}
			}
			seen = append(seen, key)
			return item, true, r.list(1)
		}), nil
	}), nil
}

// extreme is min or max: the first element that better prefers to all others.
func extreme(better func(r *render, a, b Value) (bool, error)) func(*render, Value, args) (Value, error) {
	return func(r *render, v Value, a args) (Value, error) {
		it, err := r.iterate(v)
		if err != nil {
			return nil, err
		}
		best, ok, err := it.step()
		if err != nil {
			return nil, err
		}
		if !ok {
			return &undefined{hint: "no aggregated item, sequence was empty"}, nil
		}
		g := newGetter(a.or(1, nil), truth(a.or(0, false)))
		bestKey, err := g.get(r, best)
		for err == nil {
			var item Value
			if item, ok, err = it.step(); err != nil || !ok {
				return best, err
			}
			var key Value
			if key, err = g.get(r, item); err != nil {
				break
			}
			var is bool
			if is, err = better(r, key, bestKey); is {
				best, bestKey = item, key
			}
		}
		return nil, err
	}
}

// filterBatch cuts a list into lists of a length, the last one filled up if there is something to fill it with.
func filterBatch(r *render, v Value, a args) (Value, error) {
	return generator(func() (func() (Value, bool, error), error) {
		size, err := a.integer(0, 0)
		if err != nil {
			return nil, err
		}
		it, err := r.iterate(v)
		return func() (Value, bool, error) {
			var out []Value
			for {
				item, ok, err := it.step()
				if err != nil {
					return nil, false, err
				}
				if !ok {
					break
				}
				if err := r.list(1); err != nil {
					return nil, false, err
				}
				out = append(out, item)
				if int64(len(out)) == size {
					return out, true, nil
				}
			}
			if fill := a.or(1, nil); len(out) > 0 && fill != nil && int64(len(out)) < size {
				if err := r.list(int(min(size, maxOutput))); err != nil {
					return nil, false, err
				}
				for int64(len(out)) < size {
					out = append(out, fill)
				}
			}
			return out, len(out) > 0, nil
		}, err
	}), nil
}

// filterSlice cuts a list into a number of lists.
func filterSlice(r *render, v Value, a args) (Value, error) {
	return generator(func() (func() (Value, bool, error), error) {
		parts, err := a.integer(0, 0)
		if err != nil {
			return nil, err
		}
		items, err := r.items(v)
		if err != nil {
			return nil, err
		}
		if parts == 0 {
			return nil, errZero
		}
		n := int64(len(items))
		size, longer := n/max(parts, 1), n%max(parts, 1)
		number := int64(0)
		return func() (Value, bool, error) {
			if number >= parts {
				return nil, false, nil
			}
			start := number*size + min(number, longer)
			end := (number+1)*size + min(number+1, longer)
			out := append([]Value{}, items[start:end]...)
			if fill := a.or(1, nil); fill != nil && number >= longer {
				out = append(out, fill)
			}
			number++
			return out, true, r.list(len(out) + 1)
		}, nil
	}), nil
}

func filterGroupBy(r *render, v Value, a args) (Value, error) {
	g := newGetter(a.pos[0], truth(a.or(2, false)))
	g.instead = a.or(1, nil)
	shown := g
	shown.fold = false
	items, err := r.byKey(v, func(item Value) (Value, error) { return g.get(r, item) })
	if err == nil {
		err = r.sorted(items, false)
	}
	out := []Value{}
	for start := 0; err == nil && start < len(items); {
		end := start + 1
		for end < len(items) && err == nil {
			var same bool
			if same, err = r.equal(items[start].key, items[end].key); !same {
				break
			}
			end++
		}
		var name Value
		if err == nil {
			name, err = shown.get(r, items[start].value)
		}
		out = append(out, group{name, values(items[start:end])})
		start = end
	}
	return out, err
}
