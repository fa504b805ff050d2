package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
)

// indexFrom is the number of entries from which on an Object keeps a map beside its list: below, looking through the
// list is faster.
const indexFrom = 9

// Object is a dictionary that keeps its keys in the order in which they were first set, as JSON text has them and as
// Python's dictionaries do. It is safe for concurrent use as long as nobody calls Set.
type Object struct {
	entries []entry
	index   map[Value]int // normalised key to place in entries; nil in a small object
}

type entry struct{ key, value Value }

// NewObject returns an empty object.
func NewObject() *Object { return &Object{} }

// Len is the number of keys.
func (o *Object) Len() int { return len(o.entries) }

// Keys returns the string keys in order. An object that did not come out of a template has no others.
func (o *Object) Keys() []string {
	keys := make([]string, 0, len(o.entries))
	for _, e := range o.entries {
		if s, ok := e.key.(string); ok {
			keys = append(keys, s)
		}
	}
	return keys
}

// Get returns the value of a key.
func (o *Object) Get(key string) (Value, bool) {
	if o.index != nil {
		i, ok := o.index[key]
		if !ok {
			return nil, false
		}
		return o.entries[i].value, true
	}
	for i := range o.entries {
		if s, ok := o.entries[i].key.(string); ok && s == key {
			return o.entries[i].value, true
		}
	}
	return nil, false
}

// Set gives a key a value; the place of a key that is there already does not change.
func (o *Object) Set(key string, value Value) { o.set(key, key, value) }

// Clone returns a copy whose keys can be set without changing o. The values are shared.
func (o *Object) Clone() *Object {
	c := &Object{entries: make([]entry, len(o.entries), len(o.entries)+4)}
	copy(c.entries, o.entries)
	if o.index != nil {
		c.buildIndex()
	}
	return c
}

// find is the place of a key in its normalised form, or -1.
func (o *Object) find(hash Value) int {
	if o.index != nil {
		if i, ok := o.index[hash]; ok {
			return i
		}
		return -1
	}
	for i := range o.entries {
		if h, err := hashKey(o.entries[i].key); err == nil && h == hash {
			return i
		}
	}
	return -1
}

func (o *Object) set(key, hash, value Value) {
	if i := o.find(hash); i >= 0 {
		o.entries[i].value = value
		return
	}
	o.entries = append(o.entries, entry{key, value})
	switch {
	case o.index != nil:
		o.index[hash] = len(o.entries) - 1
	case len(o.entries) >= indexFrom:
		o.buildIndex()
	}
}

func (o *Object) buildIndex() {
	o.index = make(map[Value]int, 2*len(o.entries))
	for i, e := range o.entries {
		if h, err := hashKey(e.key); err == nil {
			o.index[h] = i
		}
	}
}

// put sets a key of any type that can be one.
func (r *render) put(o *Object, key, value Value) error {
	if m, ok := key.(markup); ok {
		key = string(m)
	}
	h, err := r.hashKey(key)
	if err != nil {
		return err
	}
	o.set(key, h, value)
	return nil
}

// lookUp looks a key of any type up. It fails for a key that cannot be one.
func (r *render) lookUp(o *Object, key Value) (Value, bool, error) {
	h, err := r.hashKey(key)
	if err != nil {
		return nil, false, err
	}
	if i := o.find(h); i >= 0 {
		return o.entries[i].value, true, nil
	}
	return nil, false, nil
}

// The normalised forms of keys that have no form of their own that Go could compare.
type (
	tupleHash     string
	bigHash       string
	undefinedHash struct{} // all undefined values are equal
)

// maxTupleKey is the length of the longest normalised tuple.
const maxTupleKey = 1 << 16

var errTupleKey = errors.New("a tuple is too large to be a key")

// hashKey pays for the normal form of a key, and for the comparisons with those of a small object.
func (r *render) hashKey(v Value) (Value, error) {
	h, err := hashKey(v)
	if err != nil {
		return nil, err
	}
	switch h := h.(type) {
	case string:
		err = r.spend(len(h))
	case tupleHash:
		err = r.spend(indexFrom * len(h))
	}
	return h, err
}

// hashKey brings a key into the form in which equal keys are equal in Go: 1, 1.0 and True are one key in Python.
func hashKey(v Value) (Value, error) { return hashNested(v, 0) }

func hashNested(v Value, depth int) (Value, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	switch v := v.(type) {
	case string, int64, nil:
		return v, nil
	case bool:
		n, _ := integer(v)
		return n, nil
	case markup:
		return string(v), nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<63 {
			return int64(v), nil
		}
		return v, nil
	case *big.Int:
		return bigHash(v.String()), nil
	case tuple, group:
		items, _ := elements(v)
		out := make([]byte, 0, 16*len(items))
		for _, item := range items {
			h, err := hashNested(item, depth+1)
			if err != nil {
				return nil, err
			}
			if s, ok := h.(string); ok && len(s) > maxTupleKey {
				return nil, errTupleKey
			}
			if out = fmt.Appendf(out, "%T %#v,", h, h); len(out) > maxTupleKey {
				return nil, errTupleKey
			}
		}
		return tupleHash(out), nil
	case *undefined:
		return undefinedHash{}, nil
	case *span, *iterator, *namespace, *macro, *function, *loopContext, *cycler:
		return v, nil
	}
	return nil, fmt.Errorf("unhashable type: '%s'", typeName(v))
}
