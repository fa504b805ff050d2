package jinja

import (
	"fmt"
	"math/big"
	"reflect"

	"github.com/ingot-run/ingot/internal/ordered"
)

// Value is a value in a template. A context has values of the types of ordered.Value; dictionaries
// are *ordered.Object. Rendering does not change them. Using a value of any other Go type is an
// error. An integer too large for int64 is a *big.Int, which can be printed and compared, but not
// used in arithmetic.
type Value = ordered.Value

// The types of values that a template makes, in addition to those of a context. namespace, macro,
// function and loopContext are declared in globals.go, call.go and loop.go.
type (
	// tuple is an immutable sequence that prints with parentheses.
	tuple []Value
	// markup is a string marked by the filter safe. A plain string that is added to it with + is
	// escaped for HTML.
	markup string
	span   struct{ start, stop, step int64 }
	// view is the result of a dictionary's methods keys, values and items.
	view struct {
		kind string // "dict_keys", "dict_values" or "dict_items"
		of   *ordered.Object
	}
	// undefined is the value of a name or an attribute that does not exist. It prints as an empty
	// string, is false, has no elements and equals only undefined values. Arithmetic, ordering,
	// attributes, items and calls of it are errors.
	undefined struct {
		name  string // name of the variable or attribute
		owner string // the type that has no such attribute; empty for a variable
		hint  string // the whole error message; if set, name and owner are not used
		// strict is set in a template of ParseStrict: printing, iteration, truth and equality are
		// errors too.
		strict bool
	}
)

// missing marks an argument that was not given.
var missing Value = &struct{ _ int }{}

func (u *undefined) fail() {
	switch {
	case u.hint != "":
		fail("%s", u.hint)
	case u.owner != "":
		fail("'%s' has no attribute '%s'", u.owner, u.name)
	}
	fail("'%s' is undefined", u.name)
}

// loose stops the rendering if u is strict.
func (u *undefined) loose() {
	if u.strict {
		u.fail()
	}
}

func defined(values ...Value) {
	for _, v := range values {
		if u, ok := v.(*undefined); ok {
			u.fail()
		}
	}
}

func (s *span) len() int {
	if s.step > 0 && s.start < s.stop {
		return int(uint64(s.stop-s.start-1)/uint64(s.step)) + 1
	}
	if s.step < 0 && s.start > s.stop {
		return int(uint64(s.start-s.stop-1)/(uint64(-(s.step+1))+1)) + 1
	}
	return 0
}

func (v *view) items() []Value {
	out := make([]Value, 0, v.of.Len())
	for key, value := range entries(v.of) {
		switch v.kind {
		case "dict_keys":
			out = append(out, key)
		case "dict_values":
			out = append(out, value)
		default:
			out = append(out, tuple{key, value})
		}
	}
	return out
}

var typeNames = map[reflect.Type]string{
	nil: "NoneType", reflect.TypeFor[bool](): "bool", reflect.TypeFor[int64](): "int", reflect.TypeFor[*big.Int](): "int",
	reflect.TypeFor[float64](): "float", reflect.TypeFor[string](): "str", reflect.TypeFor[markup](): "Markup",
	reflect.TypeFor[[]Value](): "list", reflect.TypeFor[tuple](): "tuple", reflect.TypeFor[*ordered.Object](): "dict",
	reflect.TypeFor[*span](): "range", reflect.TypeFor[*undefined](): "Undefined", reflect.TypeFor[*iterator](): "generator",
	reflect.TypeFor[*namespace](): "Namespace", reflect.TypeFor[*macro](): "Macro", reflect.TypeFor[*function](): "function",
	reflect.TypeFor[*loopContext](): "LoopContext",
}

func typeName(v Value) string {
	if v, ok := v.(*view); ok {
		return v.kind
	}
	if name, ok := typeNames[reflect.TypeOf(v)]; ok {
		return name
	}
	return fmt.Sprintf("Go type %T", v)
}

func ownerName(v Value) string {
	if v == nil {
		return "None"
	}
	return typeName(v) + " object"
}

func is[T Value](v Value) bool {
	_, ok := v.(T)
	return ok
}

func text(v Value) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case markup:
		return string(v), true
	}
	return "", false
}

func elements(v Value) ([]Value, bool) {
	switch v := v.(type) {
	case []Value:
		return v, true
	case tuple:
		return v, true
	}
	return nil, false
}

// bothElements returns the elements of two lists or of two tuples. It returns false for other
// values.
func bothElements(a, b Value) (x, y []Value, ok bool) {
	x, aOK := elements(a)
	y, bOK := elements(b)
	return x, y, aOK && bOK && is[[]Value](a) == is[[]Value](b)
}

func integer(v Value) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

func float(v Value) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return f, true
	}
	n, ok := integer(v)
	return float64(n), ok
}

func truth(v Value) bool {
	switch v := v.(type) {
	case nil:
		return false
	case *undefined:
		v.loose()
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case markup:
		return v != ""
	case []Value:
		return len(v) > 0
	case tuple:
		return len(v) > 0
	case *ordered.Object:
		return v.Len() > 0
	case *span:
		return v.len() > 0
	case *view:
		return v.of.Len() > 0
	}
	return true
}
