package jinja

import (
	"math"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

// getAttr returns object.name: a method or attribute that the object's type has in Python or, if
// there is none, the item whose key is name.
func (r *render) getAttr(object Value, name string) Value {
	defined(object)
	if v, ok := r.ownAttr(object, name); ok {
		return v
	}
	if o, ok := object.(*ordered.Object); ok {
		if v, ok := o.Get(name); ok {
			return v
		}
	}
	return &undefined{name: name, owner: ownerName(object), strict: r.t.strict}
}

// getItem returns object[key]: an item or, if there is none and key is a string, the method or
// attribute whose name is key.
func (r *render) getItem(object, key Value) Value {
	defined(object)
	if v, ok := r.item(object, key); ok {
		return v
	}
	name, ok := text(key)
	if !ok {
		return &undefined{hint: ownerName(object) + " has no element " + r.repr(key), strict: r.t.strict}
	}
	if v, ok := r.ownAttr(object, name); ok {
		return v
	}
	return &undefined{name: name, owner: ownerName(object), strict: r.t.strict}
}

func (r *render) item(object, key Value) (Value, bool) {
	if o, ok := object.(*ordered.Object); ok {
		return r.lookUp(o, key)
	}
	i, ok := integer(key)
	if !ok {
		return nil, false
	}
	// at converts i, which may count from the end, to an index from the start of n elements. It
	// returns false if i is out of range.
	at := func(n int) (int, bool) {
		if i < 0 {
			i += int64(n)
		}
		return int(i), i >= 0 && i < int64(n)
	}
	switch o := object.(type) {
	case string:
		r.spend(len(o))
		if i, ok := at(runeCount(o)); ok {
			start := runeOffset(o, i)
			return o[start : start+runeOffset(o[start:], 1)], true
		}
	case markup:
		failMarked("an item of")
	case *span:
		if i, ok := at(o.len()); ok {
			return o.start + int64(i)*o.step, true
		}
	}
	if items, ok := elements(object); ok {
		if i, ok := at(len(items)); ok {
			return items[i], true
		}
	}
	return nil, false
}

// failMarked stops the rendering because of an operation on markup for which Python's markupsafe
// has special rules. operation is the beginning of the message, such as "an item of".
func failMarked(operation string) {
	fail("%s a string that the filter 'safe' has marked is not supported; apply 'safe' last", operation)
}

// The methods that change a list or a dictionary. The sandbox refuses to call them.
var (
	listChangers = []string{"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"}
	dictChangers = []string{"clear", "pop", "popitem", "setdefault", "update"}
)

func isUnsafe(object Value, name string) bool {
	switch object.(type) {
	case []Value:
		if slices.Contains(listChangers, name) {
			return true
		}
	case *ordered.Object:
		if slices.Contains(dictChangers, name) {
			return true
		}
	}
	return isDunder(name)
}

func isDunder(name string) bool {
	return len(name) > 4 && strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__")
}

// isPlainKey reports whether d.name is the item whose key is name, for every dictionary d. It is
// false if Python's dictionaries have an attribute with this name.
func isPlainKey(name string) bool {
	return dictMethods[name] == nil && !slices.Contains(dictChangers, name) && !isDunder(name)
}

// ownAttr returns the attribute with the given name if the object's type has it in Python. If the
// sandbox refuses access to it, the value is undefined.
func (r *render) ownAttr(object Value, name string) (Value, bool) {
	ns, isNamespace := object.(*namespace)
	if isNamespace && !strings.HasPrefix(name, "_") {
		return ns.attrs.Get(name)
	}
	if m := methodOf(object, name); m != nil {
		return m.method(name, object), true
	}
	if isNamespace || isUnsafe(object, name) {
		return &undefined{hint: "access to attribute '" + name + "' of '" + typeName(object) + "' object is not allowed in templates"}, true
	}
	if loop, ok := object.(*loopContext); ok {
		return loop.attr(r, name)
	}
	return nil, false
}

// slice returns object[start:stop:step]. A missing bound is None.
func (r *render) slice(object Value, bounds [3]Value) Value {
	defined(object)
	s, isText := object.(string)
	items, isItems := elements(object)
	if is[markup](object) {
		failMarked("a slice of")
	}
	n := len(items)
	switch {
	case isText:
		r.spend(len(s))
		n = runeCount(s)
	case !isItems:
		fail("a value of type '%s' cannot be sliced", typeName(object))
	}
	start, step, count := sliceBounds(bounds, n)
	if isText {
		return sliceText(s, start, step, count)
	}
	r.list(count)
	out := make([]Value, count)
	for i := range out {
		out[i] = items[start+i*step]
	}
	return sequenceLike(object, out)
}

func sliceText(s string, start, step, count int) string {
	if count == 0 {
		return ""
	}
	if step == 1 {
		from := runeOffset(s, start)
		return s[from : from+runeOffset(s[from:], count)]
	}
	chars := []rune(s)
	out := make([]rune, count)
	for i := range out {
		out[i] = chars[start+i*step]
	}
	return string(out)
}

// sliceBounds turns the bounds of a slice of n elements into a first index, a step and a number of
// elements.
func sliceBounds(bounds [3]Value, n int) (start, step, count int) {
	var at [3]int
	for i, b := range bounds {
		defined(b)
		v, ok := integer(b)
		if b != nil && !ok {
			fail("slice indices must be integers or None")
		}
		at[i] = int(min(max(v, -math.MaxInt32), math.MaxInt32))
	}
	step = 1
	if bounds[2] != nil {
		if step = at[2]; step == 0 {
			fail("slice step cannot be zero")
		}
	}
	low, high := 0, n // bounds are limited to this range
	if step < 0 {
		low, high = -1, n-1
	}
	bound := func(i, absent int) int {
		if bounds[i] == nil {
			return absent
		}
		v := at[i]
		if v < 0 {
			v += n
		}
		return min(max(v, low), high)
	}
	if step > 0 {
		start = bound(0, low)
		return start, step, max(0, (bound(1, high)-start+step-1)/step)
	}
	start = bound(0, high)
	return start, step, max(0, (start-bound(1, low)-step-1)/-step)
}
