package jinja

import (
	"fmt"
	"math/big"

	"github.com/ingot-run/ingot/ordered"
)

// Value is what a template computes with. A context holds the types of ordered.Value, of which dictionaries are
// *ordered.Object; integers too large for int64 are printed and compared, but not computed with. Rendering changes none of
// them. A value of any other type gives an error when a template uses it.
type Value = ordered.Value

type (
	// tuple is an immutable sequence that prints with parentheses.
	tuple []Value
	// group is a tuple (grouper, list), as the groupby filter makes it.
	group tuple
	// markup is a string that escape or safe has marked: what it is joined with is escaped.
	markup string
)

// missing stands for an argument that was not given.
var missing Value = &struct{ _ int }{}

// undefined is the value of a name or an attribute that does not exist. It prints as nothing, is false and is empty;
// any other use is an error.
type undefined struct {
	name  string // of the variable or attribute
	owner string // the type that has no such attribute; empty for a variable
	hint  string // the whole message, where it is neither of these
}

func (u *undefined) err() error {
	switch {
	case u.hint != "":
		return fmt.Errorf("%s", u.hint)
	case u.owner != "":
		return fmt.Errorf("'%s' has no attribute '%s'", u.owner, u.name)
	}
	return fmt.Errorf("'%s' is undefined", u.name)
}

// span is Python's range object.
type span struct{ start, stop, step int64 }

func (s *span) len() int {
	if s.step > 0 && s.start < s.stop {
		return int(uint64(s.stop-s.start-1)/uint64(s.step)) + 1
	}
	if s.step < 0 && s.start > s.stop {
		return int(uint64(s.start-s.stop-1)/(uint64(-(s.step+1))+1)) + 1
	}
	return 0
}

func (s *span) at(i int) int64 { return s.start + int64(i)*s.step }

// view is what a dictionary's keys, values and items methods give.
type view struct {
	kind string // "dict_keys", "dict_values" or "dict_items"
	of   *ordered.Object
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

// typeName is Python's name of a value's type.
func typeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case markup:
		return "Markup"
	case []Value:
		return "list"
	case tuple:
		return "tuple"
	case group:
		return "_GroupTuple"
	case *ordered.Object:
		return "dict"
	case *span:
		return "range"
	case *view:
		return v.kind
	case *undefined:
		return "Undefined"
	case *iterator:
		return "generator"
	case *namespace:
		return "Namespace"
	case *macro:
		return "Macro"
	case *function:
		return "function"
	case *loopContext:
		return "LoopContext"
	case *cycler:
		return "Cycler"
	}
	return fmt.Sprintf("Go type %T", v)
}

// ownerName is how an undefined attribute's message names the object.
func ownerName(v Value) string {
	if v == nil {
		return "None"
	}
	return typeName(v) + " object"
}

// text gives the characters of a string, marked or not.
func text(v Value) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case markup:
		return string(v), true
	}
	return "", false
}

// elements gives the elements of a list or a tuple.
func elements(v Value) ([]Value, bool) {
	switch v := v.(type) {
	case []Value:
		return v, true
	case tuple:
		return v, true
	case group:
		return v, true
	}
	return nil, false
}

// integer gives the value of an integer; a bool is one.
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

// truth is the value as a condition.
func truth(v Value) bool {
	switch v := v.(type) {
	case nil, *undefined:
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
