package jinja

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/ordered"
)

// getAttr is object.name: a method or attribute of the object's type in Python, else the item with that key.
func getAttr(object Value, name string) (Value, error) {
	if u, ok := object.(*undefined); ok {
		return nil, u.err()
	}
	if v, ok, err := ownAttr(object, name); ok || err != nil {
		return v, err
	}
	if o, ok := object.(*ordered.Object); ok {
		if v, ok := o.Get(name); ok {
			return v, nil
		}
	}
	return &undefined{name: name, owner: ownerName(object)}, nil
}

// getItem is object[key]: an item, else for a string what getAttr finds on the type.
func (r *render) getItem(object, key Value) (Value, error) {
	if u, ok := object.(*undefined); ok {
		return nil, u.err()
	}
	if v, ok := r.item(object, key); ok {
		return v, nil
	}
	name, ok := text(key)
	if !ok {
		shown, err := r.repr(key)
		if err != nil {
			return nil, err
		}
		return &undefined{hint: fmt.Sprintf("%s has no element %s", ownerName(object), shown)}, nil
	}
	if v, ok, err := ownAttr(object, name); ok || err != nil {
		return v, err
	}
	return &undefined{name: name, owner: ownerName(object)}, nil
}

// item is the item of a dictionary or a sequence. Where the budget does not pay for it, the next step fails.
func (r *render) item(object, key Value) (Value, bool) {
	if o, ok := object.(*ordered.Object); ok {
		return r.lookUp(o, key)
	}
	i, ok := integer(key)
	if !ok {
		return nil, false
	}
	if s, ok := text(object); ok {
		_ = r.spend(len(s))
		n := int64(runeCount(s))
		if i < 0 {
			i += n
		}
		if i < 0 || i >= n {
			return nil, false
		}
		start := runeOffset(s, int(i))
		return sameMarkup(object, s[start:start+runeOffset(s[start:], 1)]), true
	}
	if items, ok := elements(object); ok {
		n := int64(len(items))
		if i < 0 {
			i += n
		}
		if i < 0 || i >= n {
			return nil, false
		}
		return items[i], true
	}
	if s, ok := object.(*span); ok {
		n := int64(s.len())
		if i < 0 {
			i += n
		}
		if i >= 0 && i < n {
			return s.at(int(i)), true
		}
	}
	return nil, false
}

// The methods that change a list or a dictionary, which the sandbox refuses.
var (
	listChangers = []string{"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"}
	dictChangers = []string{"clear", "pop", "popitem", "setdefault", "update"}
)

// changes says whether a method of that name would change the object.
func changes(object Value, name string) bool {
	switch object.(type) {
	case []Value:
		return slices.Contains(listChangers, name)
	case *ordered.Object:
		return slices.Contains(dictChangers, name)
	}
	return false
}

func isDunder(name string) bool {
	return len(name) > 4 && strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__")
}

// isPlainKey says that a dictionary's type in Python has no attribute of that name, so that getAttr finds the key.
func isPlainKey(name string) bool {
	return dictMethods[name] == nil && !slices.Contains(dictChangers, name) && !isDunder(name)
}

func unsafe(object Value, name string) *undefined {
	return &undefined{hint: fmt.Sprintf("access to attribute '%s' of '%s' object is unsafe", name, typeName(object))}
}

// ownAttr is an attribute that Python's type of the object has.
func ownAttr(object Value, name string) (Value, bool, error) {
	if ns, ok := object.(*namespace); ok {
		v, ok := ns.attrs.Get(name)
		if ok && strings.HasPrefix(name, "_") {
			return unsafe(object, name), true, nil
		}
		return v, ok, nil
	}
	if m := methodOf(object, name); m != nil {
		return m.method(name, object), true, nil
	}
	if changes(object, name) || isDunder(name) {
		return unsafe(object, name), true, nil
	}
	switch o := object.(type) {
	case *loopContext:
		return o.attr(name)
	case *macro:
		v, ok := o.attr(name)
		return v, ok, nil
	case *cycler:
		v, ok := o.attr(name)
		return v, ok, nil
	case group:
		switch name {
		case "grouper":
			return o[0], true, nil
		case "list":
			return o[1], true, nil
		}
	case *span:
		switch name {
		case "start":
			return o.start, true, nil
		case "stop":
			return o.stop, true, nil
		case "step":
			return o.step, true, nil
		}
	case bool, int64:
		n, _ := integer(o)
		switch name {
		case "real", "numerator":
			return n, true, nil
		case "imag":
			return int64(0), true, nil
		case "denominator":
			return int64(1), true, nil
		}
	case float64:
		switch name {
		case "real":
			return o, true, nil
		case "imag":
			return 0.0, true, nil
		}
	}
	return nil, false, nil
}

// slice is object[start:stop:step]. Bounds are None where left out.
func (r *render) slice(object Value, bounds [3]Value) (Value, error) {
	if u, ok := object.(*undefined); ok {
		return nil, u.err()
	}
	var n int
	s, isText := text(object)
	items, isList := elements(object)
	numbers, isSpan := object.(*span)
	switch {
	case isText:
		n = runeCount(s)
	case isList:
		n = len(items)
	case isSpan:
		n = numbers.len()
	default:
		return nil, fmt.Errorf("'%s' object cannot be sliced", typeName(object))
	}
	start, step, count, err := sliceBounds(bounds, n)
	if err != nil {
		return nil, err
	}
	if isSpan {
		first := numbers.start + int64(start)*numbers.step
		by := numbers.step * int64(step)
		return &span{first, first + int64(count)*by, by}, nil
	}
	if isText {
		if err := r.spend(len(s)); err != nil {
			return nil, err
		}
		return sameMarkup(object, sliceText(s, n, start, step, count)), nil
	}
	if err := r.list(count); err != nil {
		return nil, err
	}
	out := make([]Value, count)
	for i := range out {
		out[i] = items[start+i*step]
	}
	if _, ok := object.([]Value); ok {
		return out, nil
	}
	return tuple(out), nil
}

func sliceText(s string, n, start, step, count int) string {
	if count == 0 {
		return ""
	}
	if step == 1 {
		from := runeOffset(s, start)
		return s[from : from+runeOffset(s[from:], count)]
	}
	if n == len(s) {
		out := make([]byte, count)
		for i := range out {
			out[i] = s[start+i*step]
		}
		return string(out)
	}
	chars := []rune(s)
	out := make([]rune, count)
	for i := range out {
		out[i] = chars[start+i*step]
	}
	return string(out)
}

// sliceBounds brings the bounds of a slice of n elements into a first index, a step and a number of elements.
func sliceBounds(bounds [3]Value, n int) (start, step, count int, err error) {
	var at [3]int
	for i, b := range bounds {
		if b == nil {
			continue
		}
		if u, ok := b.(*undefined); ok {
			return 0, 0, 0, u.err()
		}
		v, ok := integer(b)
		if !ok {
			return 0, 0, 0, errors.New("slice indices must be integers or None")
		}
		at[i] = int(min(max(v, -math.MaxInt32), math.MaxInt32))
	}
	step = 1
	if bounds[2] != nil {
		if step = at[2]; step == 0 {
			return 0, 0, 0, errors.New("slice step cannot be zero")
		}
	}
	low, high := 0, n // the range that bounds are cut to
	if step < 0 {
		low, high = -1, n-1
	}
	bound := func(i, def int) int {
		if bounds[i] == nil {
			return def
		}
		v := at[i]
		if v < 0 {
			v += n
		}
		return min(max(v, low), high)
	}
	if step > 0 {
		start = bound(0, low)
		return start, step, max(0, (bound(1, high)-start+step-1)/step), nil
	}
	start = bound(0, high)
	return start, step, max(0, (start-bound(1, low)-step-1)/-step), nil
}
