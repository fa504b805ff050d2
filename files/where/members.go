package where

import (
	"reflect"
	"time"

	"github.com/expr-lang/expr/parser/lexer"
)

// skipped is the value of a?.b if a is nil, until the end of the chain of members.
type skipped struct{}

// closed ends a chain of members with ?.: its value is nil if a part before ?. is nil.
func closed(e expr) expr {
	open := e.run
	e.open = open
	e.run = func(f *frame) any {
		v := open(f)
		if _, ok := v.(skipped); ok {
			return nil
		}
		return v
	}
	return e
}

// member returns base[key] or base.key.
func (p *parser) member(base, key expr, optional bool, at int) expr {
	p.node()
	name, named := key.literal.(string)
	if base.record && named {
		return p.column(name, at, !optional)
	}
	of := static{}
	switch base.kind {
	case unknown, binary:
	case mapping:
		of.kind = base.elem
	case object:
		if key.kind != text && key.kind != unknown {
			return p.refuse(key.at, "cannot use %s to get an element from %s", key.static, base.static)
		}
		of.kind = base.elem
	case list:
		if !integers.has(key.kind) && key.kind != unknown {
			return p.refuse(key.at, "array elements can only be selected using an integer (got %s)", key.static)
		}
		of.kind = base.elem
	default:
		if named {
			return p.refuse(at, "type %v has no field %v", base.static, name)
		}
		return p.refuse(at, "type %v[%v] is undefined", base.static, key.static)
	}
	return expr{static: of, at: at, run: func(f *frame) any {
		v := base.run(f)
		if isSkipped(v) || v == nil && optional {
			return skipped{}
		}
		k := key.run(f)
		f.at = at
		return fetch(v, k)
	}}
}

func isSkipped(v any) bool {
	_, ok := v.(skipped)
	return ok
}

// fetch returns an element of a list, a value of a map, or a byte of a text. A missing key gives
// nil, and a negative index counts from the end.
func fetch(from, key any) any {
	if v, ok := at(from, key); ok {
		return v
	}
	if v, ok := lookUp(from, key); ok || objects.has(kindOf(from)) {
		return v
	}
	if n, ok := length(from); ok {
		fail("index out of range: %v (array length is %v)", integerOf(key), n)
	}
	fail("cannot fetch %v from %T", key, from)
	return nil
}

// at returns an element of a list or a byte of a text, if there is one at the index.
func at(from, index any) (any, bool) {
	s, isText := from.(string)
	all, isList := elements(from)
	if !isText && !isList {
		return nil, false
	}
	i, n := integerOf(index), len(all)+len(s)
	if i < 0 {
		i += n
	}
	switch {
	case i < 0 || i >= n:
		return nil, false
	case isText:
		return int(s[i]), true
	}
	return all[i], true
}

// length returns the number of elements of a list, or of the bytes of a text. ok is false for other
// values.
func length(v any) (n int, ok bool) {
	switch v := v.(type) {
	case string:
		return len(v), true
	case []byte:
		return len(v), true
	case []any:
		return len(v), true
	}
	return 0, false
}

func (p *parser) slice(e expr, from, to *expr, start int) expr {
	p.node()
	switch e.kind {
	case unknown, text, list, binary:
	default:
		return p.refuse(start, "cannot slice %s", e.static)
	}
	for _, i := range []*expr{from, to} {
		if i != nil && !integers.has(i.kind) && i.kind != unknown {
			return p.refuse(i.at, "non-integer slice index %v", i.static)
		}
	}
	bound := func(f *frame, e *expr, missing, n int) int {
		if e == nil {
			return missing
		}
		i := integerOf(e.run(f))
		if i < 0 {
			i += n
		}
		return min(max(i, 0), n)
	}
	return expr{static: e.static, at: start, run: func(f *frame) any {
		v := e.run(f)
		f.at = start
		n, ok := length(v)
		if !ok {
			fail("cannot slice %v", v)
		}
		high := bound(f, to, n, n)
		low := min(bound(f, from, 0, n), high)
		switch v := v.(type) {
		case string:
			return v[low:high]
		case []byte:
			return v[low:high]
		}
		return v.([]any)[low:high]
	}}
}

// method returns the call of a method of a time, a duration, a month or a day of the week.
func (p *parser) method(base expr, name lexer.Token, args []expr, optional bool) expr {
	p.node()
	of := static{}
	switch m, ok := methods[base.kind][name.Value]; {
	case base.kind == unknown:
	case base.kind == null:
		return p.refuse(name.From, "type nil has no field %s", name.Value)
	case objects.has(base.kind) || ok && base.kind == calendar:
	case !ok:
		return p.refuse(name.From, "type %v has no method %v", base.static, name.Value)
	default:
		t := reflect.TypeOf(m)
		if len(args) != t.NumIn()-1 {
			return p.refuse(name.From, "%s arguments to call %v", map[bool]string{true: "too many", false: "not enough"}[len(args) >= t.NumIn()], name.Value)
		}
		of.kind = kindOfResult(t.Out(0))
	}
	return expr{static: of, at: name.From, run: func(f *frame) any {
		v := base.run(f)
		if isSkipped(v) || v == nil && optional {
			return skipped{}
		}
		values := make([]any, len(args))
		for i, a := range args {
			values[i] = a.run(f)
		}
		f.at = name.From
		return callMethod(v, name.Value, values)
	}}
}

func callMethod(v any, name string, args []any) any {
	m, ok := methods[kindOf(v)][name]
	if _, isDay := v.(time.Weekday); isDay && ok {
		m = time.Weekday.String
	}
	if !ok {
		if of, isMap := lookUp(v, name); isMap || objects.has(kindOf(v)) {
			fail("invalid operation: cannot call %T", of)
		}
		fail("cannot fetch %v from %T", name, v)
	}
	t := reflect.TypeOf(m)
	if len(args) != t.NumIn()-1 {
		fail("invalid number of arguments: expected %d, got %d", t.NumIn()-1, len(args))
	}
	in := []reflect.Value{reflect.ValueOf(v)}
	for i, a := range args {
		if a == nil || !reflect.TypeOf(a).AssignableTo(t.In(i+1)) {
			fail("cannot use %T as argument (type %s) to call %v", a, t.In(i+1), name)
		}
		in = append(in, reflect.ValueOf(a))
	}
	out := reflect.ValueOf(m).Call(in)[0]
	if kindOfResult(out.Type()) == integer {
		return int(out.Int())
	}
	return out.Interface()
}

// methods are the methods that an expression can call, by the kind of their receiver.
var methods = map[kind]map[string]any{
	instant: {
		"Add": time.Time.Add, "AddDate": time.Time.AddDate, "After": time.Time.After, "Before": time.Time.Before, "Clock": time.Time.Clock,
		"Compare": time.Time.Compare, "Date": time.Time.Date, "Day": time.Time.Day, "Equal": time.Time.Equal, "Format": time.Time.Format,
		"Hour": time.Time.Hour, "ISOWeek": time.Time.ISOWeek, "In": time.Time.In, "IsDST": time.Time.IsDST, "IsZero": time.Time.IsZero,
		"Local": time.Time.Local, "Location": time.Time.Location, "Minute": time.Time.Minute, "Month": time.Time.Month,
		"Nanosecond": time.Time.Nanosecond, "Round": time.Time.Round, "Second": time.Time.Second, "String": time.Time.String,
		"Sub": time.Time.Sub, "Truncate": time.Time.Truncate, "UTC": time.Time.UTC, "Unix": time.Time.Unix, "UnixMicro": time.Time.UnixMicro,
		"UnixMilli": time.Time.UnixMilli, "UnixNano": time.Time.UnixNano, "Weekday": time.Time.Weekday, "Year": time.Time.Year,
		"YearDay": time.Time.YearDay, "Zone": time.Time.Zone, "ZoneBounds": time.Time.ZoneBounds,
	},
	duration: {
		"Abs": time.Duration.Abs, "Hours": time.Duration.Hours, "Microseconds": time.Duration.Microseconds,
		"Milliseconds": time.Duration.Milliseconds, "Minutes": time.Duration.Minutes, "Nanoseconds": time.Duration.Nanoseconds,
		"Round": time.Duration.Round, "Seconds": time.Duration.Seconds, "String": time.Duration.String, "Truncate": time.Duration.Truncate,
	},
	calendar: {"String": time.Month.String},
	zone:     {"String": (*time.Location).String},
}
