package jinja

import "github.com/ingot-run/ingot/internal/ordered"

// cursor iterates over the elements of a value. The elements are the results of next until it
// returns false or, if next is nil, the elements in items.
type cursor struct {
	items []Value
	next  func() (Value, bool)
}

func (c *cursor) step() (Value, bool) {
	if c.next != nil {
		return c.next()
	}
	if len(c.items) == 0 {
		return nil, false
	}
	v := c.items[0]
	c.items = c.items[1:]
	return v, true
}

func (c *cursor) rest() []Value {
	items := c.items
	c.items = nil
	if c.next == nil {
		return items
	}
	for {
		v, ok := c.next()
		if !ok {
			return items
		}
		items = append(items, v)
	}
}

// iterator is a value whose elements can be read only once. Each element is computed when it is
// needed. Filters such as map return an iterator. In Python, it is a generator.
type iterator struct{ cursor }

// generator returns an iterator over converted elements of v. It calls the function each to convert
// an element to out, and leaves out the element if keep is false. Nothing is computed before the
// first result is needed.
func (r *render) generator(v Value, each func(Value) (out Value, keep bool)) *iterator {
	var it *cursor
	return &iterator{cursor{next: func() (Value, bool) {
		if it == nil {
			c := r.iterate(v)
			it = &c
		}
		for {
			r.nest()
			item, ok := it.step()
			r.unnest()
			if !ok {
				return nil, false
			}
			if out, keep := each(item); keep {
				return out, true
			}
		}
	}}}
}

func (r *render) iterate(v Value) cursor {
	if it, ok := v.(*iterator); ok {
		return cursor{next: it.step}
	}
	return cursor{items: r.items(v)}
}

// items returns a value's elements. The slice may belong to the value: do not change it.
func (r *render) items(v Value) []Value {
	if items, ok := elements(v); ok {
		return items
	}
	if s, ok := text(v); ok {
		return r.characters(s)
	}
	switch v := v.(type) {
	case *ordered.Object:
		r.list(v.Len())
		return (&view{"dict_keys", v}).items()
	case *view:
		r.list(v.of.Len())
		return v.items()
	case *span:
		n := v.len()
		r.list(n)
		items := make([]Value, n)
		for i := range items {
			items[i] = v.start + int64(i)*v.step
		}
		return items
	case *iterator:
		items := v.rest()
		r.list(len(items))
		return items
	case *undefined:
		v.loose()
		return nil
	}
	fail("a value of type '%s' has no elements to iterate over", typeName(v))
	return nil
}

var asciiChars = func() (table [128]Value) {
	for i := range table {
		table[i] = string(rune(i))
	}
	return table
}()

func (r *render) characters(s string) []Value {
	n := runeCount(s)
	r.list(n)
	items := make([]Value, 0, n)
	for i, c := range s {
		if c < rune(len(asciiChars)) {
			items = append(items, asciiChars[c])
		} else {
			items = append(items, s[i:i+len(string(c))])
		}
	}
	return items
}

func (r *render) length(v Value) int {
	if items, ok := elements(v); ok {
		return len(items)
	}
	if s, ok := text(v); ok {
		r.spend(len(s))
		return runeCount(s)
	}
	switch v := v.(type) {
	case *ordered.Object:
		return v.Len()
	case *view:
		return v.of.Len()
	case *span:
		return v.len()
	case *undefined:
		v.loose()
		return 0
	case *loopContext:
		return v.length()
	}
	fail("a value of type '%s' has no length", typeName(v))
	return 0
}
