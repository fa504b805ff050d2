// Package ordered has JSON values whose objects keep the order of their keys. Chat templates
// compute with these values, and the order of keys determines the prompt. The package does not
// import other packages of this module.
package ordered

import "iter"

// Value is a JSON value:
//
//	nil        null
//	bool
//	int64      a number without fraction and exponent
//	*big.Int   such a number if it is too large for int64
//	float64    any other number
//	string     UTF-8
//	[]Value    an array
//	*Object    an object
type Value = any

// Object is a JSON object whose keys stay in the order in which they were first set. It is safe for
// concurrent use as long as no goroutine calls Set.
type Object struct {
	entries []entry
	index   map[string]int // index of each key in entries; nil if there are fewer than minIndexed entries
}

type entry struct {
	key   string
	value Value
}

// minIndexed is the number of entries from which an Object has an index. In smaller objects, a
// linear search is faster.
const minIndexed = 9

// NewObject returns an empty object.
func NewObject() *Object { return &Object{} }

// Len returns the number of keys.
func (o *Object) Len() int { return len(o.entries) }

// Keys returns the keys in order.
func (o *Object) Keys() []string {
	keys := make([]string, len(o.entries))
	for i := range o.entries {
		keys[i] = o.entries[i].key
	}
	return keys
}

// All yields keys and values in order.
func (o *Object) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for i := range o.entries {
			if !yield(o.entries[i].key, o.entries[i].value) {
				return
			}
		}
	}
}

// Get returns the value of a key, and whether the object has the key.
func (o *Object) Get(key string) (Value, bool) {
	if i := o.find(key); i >= 0 {
		return o.entries[i].value, true
	}
	return nil, false
}

// Set sets the value of a key. A new key is added at the end; the position of an existing key does
// not change.
func (o *Object) Set(key string, value Value) {
	if i := o.find(key); i >= 0 {
		o.entries[i].value = value
		return
	}
	o.entries = append(o.entries, entry{key, value})
	switch {
	case o.index != nil:
		o.index[key] = len(o.entries) - 1
	case len(o.entries) >= minIndexed:
		o.buildIndex()
	}
}

// Clone returns a copy. Setting keys of the copy does not change o, but the values are shared.
func (o *Object) Clone() *Object {
	c := &Object{entries: make([]entry, len(o.entries), len(o.entries)+4)}
	copy(c.entries, o.entries)
	if o.index != nil {
		c.buildIndex()
	}
	return c
}

func (o *Object) find(key string) int {
	if o.index != nil {
		if i, ok := o.index[key]; ok {
			return i
		}
		return -1
	}
	for i := range o.entries {
		if o.entries[i].key == key {
			return i
		}
	}
	return -1
}

func (o *Object) buildIndex() {
	o.index = make(map[string]int, 2*len(o.entries))
	for i := range o.entries {
		o.index[o.entries[i].key] = i
	}
}
