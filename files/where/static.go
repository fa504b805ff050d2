package where

import (
	"reflect"
	"time"
)

// kind is the type of a value.
type kind uint8

const (
	unknown kind = iota // known only for a record
	null
	boolean
	integer
	float
	text
	binary
	list
	object  // map[string]any
	mapping // map[any]any
	instant
	duration
	zone
	calendar // time.Month and time.Weekday
	function
)

// kindNames are the names of the types in Go, as messages have them.
var kindNames = [...]string{
	"unknown", "nil", "bool", "int", "float64", "string", "[]uint8", "[]interface {}", "map[string]interface {}", "map[interface {}]interface {}",
	"time.Time", "time.Duration", "*time.Location", "time.Month", "func",
}

// kinds is a set of kinds.
type kinds uint16

func setOf(all ...kind) (s kinds) {
	for _, k := range all {
		s |= 1 << k
	}
	return s
}

func (s kinds) has(k kind) bool { return s>>k&1 == 1 }

var (
	integers = setOf(integer, calendar)
	numbers  = integers | setOf(float)
	texts    = setOf(text)
	lists    = setOf(list, binary)
	objects  = setOf(object, mapping)
	anything = ^kinds(0)
)

// static is what is known about the type of an expression before a record is read.
type static struct {
	kind kind
	elem kind // of the elements of a list; unknown if they differ
}

func (s static) String() string { return kindNames[s.kind] }

// comparable reports whether == can be true, which the check of an expression requires.
func (s static) comparable(o static) bool {
	either := func(k kinds) bool { return k.has(s.kind) && k.has(o.kind) }
	return s.kind == unknown || o.kind == unknown || s.kind == null || o.kind == null || s.kind == o.kind || either(numbers) || either(lists)
}

// maybe reports whether both types are in the same one of the sets, as far as they are known.
func (s static) maybe(o static, sets ...kinds) bool {
	for _, k := range sets {
		if (s.kind == unknown || k.has(s.kind)) && (o.kind == unknown || k.has(o.kind)) {
			return true
		}
	}
	return false
}

func kindOf(v any) kind {
	switch v.(type) {
	case nil:
		return null
	case bool:
		return boolean
	case int:
		return integer
	case float64:
		return float
	case string:
		return text
	case []byte:
		return binary
	case []any:
		return list
	case map[string]any:
		return object
	case map[any]any:
		return mapping
	case time.Time:
		return instant
	case time.Duration:
		return duration
	case *time.Location:
		return zone
	case time.Month, time.Weekday:
		return calendar
	}
	return function
}

// kindOfResult returns the kind of what a method returns.
func kindOfResult(t reflect.Type) kind {
	if k := kindOf(reflect.Zero(t).Interface()); k != function {
		return k
	}
	return integer // all others are integers
}
