package jinja

import (
	"iter"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

// Dictionaries are *ordered.Object, whose keys are strings. Templates also use integers as keys:
// such a key is stored as intKey followed by the decimal digits. Strings of templates are UTF-8 and
// so cannot begin with the byte intKey.
const intKey = "\xff"

// storedKey converts a key of a template to a key of an ordered.Object. It returns false if the key
// is neither a string nor an int64.
func storedKey(key Value) (string, bool) {
	if s, ok := text(key); ok {
		return s, true
	}
	if n, ok := key.(int64); ok {
		return intKey + strconv.FormatInt(n, 10), true
	}
	return "", false
}

func loadedKey(key string) Value {
	if digits, ok := strings.CutPrefix(key, intKey); ok {
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
			return n
		}
	}
	return key
}

func entries(o *ordered.Object) iter.Seq2[Value, Value] {
	return func(yield func(Value, Value) bool) {
		for key, value := range o.All() {
			if !yield(loadedKey(key), value) {
				return
			}
		}
	}
}

func (r *render) put(o *ordered.Object, key, value Value) {
	stored, ok := storedKey(key)
	if !ok {
		fail("the keys of a dictionary must be strings or 64-bit integers, not %s", typeName(key))
	}
	r.spend(len(stored))
	o.Set(stored, value)
}

// lookUp returns the value of a key. A key of a type that no dictionary has is not found.
func (r *render) lookUp(o *ordered.Object, key Value) (Value, bool) {
	stored, ok := storedKey(key)
	if !ok {
		return nil, false
	}
	r.spend(len(stored))
	return o.Get(stored)
}
