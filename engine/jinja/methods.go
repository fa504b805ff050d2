package jinja

import (
	"errors"
	"fmt"
	"math"

	"github.com/ingot-run/ingot/ordered"
)

var dictMethods, listMethods, tupleMethods, floatMethods map[string]*builtin

func init() {
	dictMethods = map[string]*builtin{
		"keys":   def("/", dictView("dict_keys")),
		"values": def("/", dictView("dict_values")),
		"items":  def("/", dictView("dict_items")),
		"get":    def("key default? /", dictGet),
		"copy":   def("/", dictCopy),
	}
	listMethods = map[string]*builtin{
		"count": def("value /", countItem),
		"index": def("value start? stop? /", indexItem),
		"copy":  def("/", filterList),
	}
	tupleMethods = map[string]*builtin{"count": listMethods["count"], "index": listMethods["index"]}
	floatMethods = map[string]*builtin{
		"is_integer": def("/", func(_ *render, self Value, _ args) (Value, error) {
			f := self.(float64)
			return f == math.Trunc(f) && !math.IsInf(f, 0), nil
		}),
	}
}

// methodOf is the method of an object's type with that name, or nil.
func methodOf(object Value, name string) *builtin {
	switch object.(type) {
	case string:
		return strMethods[name]
	case markup:
		return markupMethods[name]
	case *ordered.Object:
		return dictMethods[name]
	case []Value:
		return listMethods[name]
	case tuple, group, *span:
		return tupleMethods[name]
	case float64:
		return floatMethods[name]
	}
	return nil
}

func dictView(kind string) func(*render, Value, args) (Value, error) {
	return func(_ *render, self Value, _ args) (Value, error) { return &view{kind, self.(*ordered.Object)}, nil }
}

func dictCopy(r *render, self Value, _ args) (Value, error) {
	o := self.(*ordered.Object)
	if err := r.list(2 * o.Len()); err != nil {
		return nil, err
	}
	return o.Clone(), nil
}

func dictGet(r *render, self Value, a args) (Value, error) {
	v, ok := r.lookUp(self.(*ordered.Object), a.pos[0])
	if !ok {
		return a.or(1, nil), nil
	}
	return v, nil
}

func countItem(r *render, self Value, a args) (Value, error) {
	items, err := r.items(self)
	if err != nil {
		return nil, err
	}
	n := int64(0)
	for _, item := range items {
		eq, err := r.equal(item, a.pos[0])
		if err == nil {
			err = r.spend(itemCost)
		}
		if err != nil {
			return nil, err
		}
		if eq {
			n++
		}
	}
	return n, nil
}

func indexItem(r *render, self Value, a args) (Value, error) {
	items, err := r.items(self)
	if err != nil {
		return nil, err
	}
	start, _, count, err := sliceBounds([3]Value{a.or(1, nil), a.or(2, nil)}, len(items))
	if err != nil {
		return nil, err
	}
	for i := start; i < start+count; i++ {
		eq, err := r.equal(items[i], a.pos[0])
		if err == nil {
			err = r.spend(itemCost)
		}
		if err != nil {
			return nil, err
		}
		if eq {
			return int64(i), nil
		}
	}
	return nil, errors.New("the value is not in the list")
}

// namespace is an object whose attributes a template can set, in whatever scope it does so.
type namespace struct{ attrs *ordered.Object }

// cycler goes through values again and again.
type cycler struct {
	items []Value
	pos   int
}

func (c *cycler) attr(name string) (Value, bool) {
	switch name {
	case "current":
		return c.items[c.pos], true
	case "next":
		return &function{name, func(_ *render, a args) (Value, error) {
			v := c.items[c.pos]
			c.pos = (c.pos + 1) % len(c.items)
			return v, nil
		}}, true
	case "reset":
		return &function{name, func(_ *render, a args) (Value, error) {
			c.pos = 0
			return nil, nil
		}}, true
	}
	return nil, false
}

// globals are the functions that every template has.
var globals map[string]Value

func init() {
	globals = map[string]Value{}
	for name, b := range map[string]*builtin{
		"range":           def("start stop? step? /", newRange),
		"dict":            def("*", func(r *render, _ Value, a args) (Value, error) { return newDict(r, a) }),
		"namespace":       def("*", newNamespace),
		"cycler":          def("*", newCycler),
		"joiner":          def("sep?", newJoiner),
		"raise_exception": def("message", raise),
		"strftime_now":    def("format", strftimeNow),
	} {
		globals[name] = b.method(name, nil)
	}
}

func newRange(_ *render, _ Value, a args) (Value, error) {
	var bounds [3]int64
	for i := range bounds {
		var err error
		if bounds[i], err = a.integer(i, 1); err != nil {
			return nil, err
		}
	}
	s := &span{bounds[0], bounds[1], bounds[2]}
	if a.or(1, missing) == missing {
		s.start, s.stop = 0, bounds[0]
	}
	if s.step == 0 {
		return nil, errors.New("range() arg 3 must not be zero")
	}
	if n := s.len(); n < 0 || n > maxRange {
		return nil, fmt.Errorf("range too big: the sandbox blocks ranges larger than %d", maxRange)
	}
	return s, nil
}

// newDict is Python's dict: of a mapping or of pairs, and of named arguments.
func newDict(r *render, a args) (*ordered.Object, error) {
	if len(a.pos) > 1 {
		return nil, fmt.Errorf("dict expected at most 1 argument, got %d", len(a.pos))
	}
	o := ordered.NewObject()
	if len(a.pos) == 1 {
		if from, ok := a.pos[0].(*ordered.Object); ok {
			if err := r.list(from.Len()); err != nil {
				return nil, err
			}
			o = from.Clone()
		} else if err := addPairs(r, o, a.pos[0]); err != nil {
			return nil, err
		}
	}
	for _, n := range a.named {
		o.Set(n.name, n.value)
	}
	return o, r.list(len(a.named))
}

func addPairs(r *render, o *ordered.Object, v Value) error {
	items, err := r.items(v)
	if err != nil {
		return err
	}
	for _, item := range items {
		pair, err := r.items(item)
		if err != nil {
			return err
		}
		if len(pair) != 2 {
			return fmt.Errorf("an element of a dictionary needs 2 values, not %d", len(pair))
		}
		if err := r.put(o, pair[0], pair[1]); err != nil {
			return err
		}
	}
	return r.list(len(items))
}

func newNamespace(r *render, _ Value, a args) (Value, error) {
	o, err := newDict(r, a)
	return &namespace{o}, err
}

func newCycler(_ *render, _ Value, a args) (Value, error) {
	if len(a.pos) == 0 || len(a.named) > 0 {
		return nil, errors.New("at least one item has to be provided")
	}
	return &cycler{items: a.pos}, nil
}

func newJoiner(_ *render, _ Value, a args) (Value, error) {
	sep := a.or(0, ", ")
	used := false
	return &function{"joiner", func(_ *render, _ args) (Value, error) {
		if !used {
			used = true
			return "", nil
		}
		return sep, nil
	}}, nil
}

func raise(r *render, _ Value, a args) (Value, error) {
	s, err := r.str(a.pos[0])
	if err != nil {
		return nil, err
	}
	return nil, &RaiseError{s}
}
