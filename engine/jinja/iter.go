package jinja

import (
	"fmt"

	"github.com/ingot-run/ingot/ordered"
)

// cursor goes through the elements of a value: those of items, or those that next makes until it returns false.
type cursor struct {
	items []Value
	next  func() (Value, bool, error)
}

func (c *cursor) step() (Value, bool, error) {
	if c.next != nil {
		return c.next()
	}
	if len(c.items) == 0 {
		return nil, false, nil
	}
	v := c.items[0]
	c.items = c.items[1:]
	return v, true, nil
}

// rest fetches all elements that are left.
func (c *cursor) rest() ([]Value, error) {
	items := c.items
	c.items = nil
	if c.next == nil {
		return items, nil
	}
	for {
		v, ok, err := c.next()
		if err != nil || !ok {
			return items, err
		}
		items = append(items, v)
	}
}

// iterator is a value that yields elements once, such as a filter's generator in Python. It makes them as they are asked
// for.
type iterator struct{ cursor }

// iterate starts to go through a value.
func (r *render) iterate(v Value) (cursor, error) {
	if it, ok := v.(*iterator); ok {
		return cursor{next: it.step}, nil
	}
	items, err := r.items(v)
	return cursor{items: items}, err
}

// items is the list of a value's elements. It may be shared with the value and must not be changed.
func (r *render) items(v Value) ([]Value, error) {
	if items, ok := elements(v); ok {
		return items, nil
	}
	if s, ok := text(v); ok {
		return r.characters(s)
	}
	switch v := v.(type) {
	case *ordered.Object:
		if err := r.list(v.Len()); err != nil {
			return nil, err
		}
		return (&view{"dict_keys", v}).items(), nil
	case *view:
		if err := r.list(v.of.Len()); err != nil {
			return nil, err
		}
		return v.items(), nil
	case *span:
		n := v.len()
		if err := r.list(n); err != nil {
			return nil, err
		}
		items := make([]Value, n)
		for i := range items {
			items[i] = v.at(i)
		}
		return items, nil
	case *iterator:
		items, err := v.rest()
		if err == nil {
			err = r.list(len(items))
		}
		return items, err
	case *undefined:
		return nil, nil
	}
	return nil, fmt.Errorf("'%s' object is not iterable", typeName(v))
}

// asciiChars are the strings of one ASCII character, made once.
var asciiChars = func() (table [128]Value) {
	for i := range table {
		table[i] = string(rune(i))
	}
	return table
}()

// character is the string of the character at the start of s, and its length in bytes.
func (r *render) characters(s string) ([]Value, error) {
	n := runeCount(s)
	if err := r.list(n); err != nil {
		return nil, err
	}
	items := make([]Value, 0, n)
	for i, c := range s {
		if c < rune(len(asciiChars)) {
			items = append(items, asciiChars[c])
			continue
		}
		end := i + len(string(c))
		items = append(items, s[i:end])
	}
	return items, nil
}

// length is Python's len.
func (r *render) length(v Value) (int, error) {
	if items, ok := elements(v); ok {
		return len(items), nil
	}
	if s, ok := text(v); ok {
		return runeCount(s), r.spend(len(s))
	}
	switch v := v.(type) {
	case *ordered.Object:
		return v.Len(), nil
	case *view:
		return v.of.Len(), nil
	case *span:
		return v.len(), nil
	case *undefined:
		return 0, nil
	case *loopContext:
		return v.length()
	}
	return 0, fmt.Errorf("object of type '%s' has no len()", typeName(v))
}
