package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/ingot-run/ingot/ordered"
)

// compare is an operator of comparison.
func (r *render) compare(op string, a, b Value) (bool, error) {
	switch op {
	case "==":
		return r.equal(a, b)
	case "!=":
		same, err := r.equal(a, b)
		return !same, err
	case "in":
		return r.contains(b, a)
	case "not in":
		in, err := r.contains(b, a)
		return !in, err
	case "<":
		return r.less(a, b)
	case ">":
		return r.less(b, a)
	}
	c, err := r.order(a, b)
	if err != nil {
		return false, err
	}
	if op == "<=" {
		return c == orderLess || c == orderSame, nil
	}
	return c == orderMore || c == orderSame, nil
}

// equal is Python's ==.
func (r *render) equal(a, b Value) (bool, error) {
	if s, ok := text(a); ok {
		t, ok := text(b)
		if !ok || len(s) != len(t) {
			return false, nil
		}
		return s == t, r.spend(len(s) / 8)
	}
	switch x := a.(type) {
	case nil:
		return b == nil, nil
	case *undefined:
		_, ok := b.(*undefined)
		return ok, nil
	case bool, int64, float64, *big.Int:
		c, ok := orderNumbers(a, b)
		return ok && c == orderSame, nil
	case *ordered.Object:
		y, ok := b.(*ordered.Object)
		if !ok || x.Len() != y.Len() {
			return false, nil
		}
		return r.equalObjects(x, y)
	case *span:
		y, ok := b.(*span)
		n := x.len()
		return ok && n == y.len() && (n == 0 || x.start == y.start && (n == 1 || x.step == y.step)), nil
	case *view:
		y, ok := b.(*view)
		if !ok || x.kind != y.kind || x.kind == "dict_values" {
			return ok && x == y, nil
		}
		return r.equalViews(x, y)
	}
	if items, ok := elements(a); ok {
		others, ok := elements(b)
		_, aList := a.([]Value)
		_, bList := b.([]Value)
		if !ok || aList != bList || len(items) != len(others) {
			return false, nil
		}
		return r.equalItems(items, others)
	}
	return identical(a, b), nil
}

// nest counts values inside each other; each call that succeeds is paired with an unnest.
func (r *render) nest() error {
	if r.depth >= maxDepth {
		return errDepth
	}
	r.depth++
	return r.step()
}

func (r *render) unnest() { r.depth-- }

func (r *render) equalItems(x, y []Value) (bool, error) {
	if err := r.nest(); err != nil {
		return false, err
	}
	defer r.unnest()
	for i := range x {
		if eq, err := r.equal(x[i], y[i]); !eq || err != nil {
			return false, err
		}
		if err := r.spend(itemCost); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (r *render) equalObjects(x, y *ordered.Object) (bool, error) {
	if err := r.nest(); err != nil {
		return false, err
	}
	defer r.unnest()
	for key, value := range entries(x) {
		v, ok := r.lookUp(y, key)
		if !ok {
			return false, nil
		}
		if eq, err := r.equal(value, v); !eq || err != nil {
			return false, err
		}
		if err := r.spend(itemCost); err != nil {
			return false, err
		}
	}
	return true, nil
}

// equalViews compares keys or items as sets.
func (r *render) equalViews(x, y *view) (bool, error) {
	if x.of.Len() != y.of.Len() {
		return false, nil
	}
	for key, value := range entries(x.of) {
		v, ok := r.lookUp(y.of, key)
		if !ok {
			return false, nil
		}
		if x.kind == "dict_keys" {
			continue
		}
		if eq, err := r.equal(value, v); !eq || err != nil {
			return false, err
		}
	}
	return true, r.spend(itemCost * x.of.Len())
}

// identical is Python's is, for values that Go can compare.
func identical(a, b Value) bool {
	if items, ok := elements(a); ok {
		others, ok := elements(b)
		return ok && typeName(a) == typeName(b) && len(items) == len(others) &&
			(len(items) == 0 || &items[0] == &others[0])
	}
	return isComparable(a) && isComparable(b) && a == b
}

// isComparable says whether Go can compare a value with ==.
func isComparable(v Value) bool {
	switch v.(type) {
	case nil, bool, int64, float64, string, markup, *big.Int, *ordered.Object, *span, *view, *undefined, *iterator, *namespace,
		*macro, *function, *loopContext, *cycler:
		return true
	}
	return false
}

// ordering is how two values compare. NaN has no order.
type ordering int8

const (
	orderLess ordering = -1
	orderSame ordering = 0
	orderMore ordering = 1
	orderNone ordering = 2
)

// less is Python's <.
func (r *render) less(a, b Value) (bool, error) {
	c, err := r.order(a, b)
	return c == orderLess, err
}

func (r *render) order(a, b Value) (ordering, error) {
	for _, v := range [2]Value{a, b} {
		if u, ok := v.(*undefined); ok {
			return orderNone, u.err()
		}
	}
	if c, ok := orderNumbers(a, b); ok {
		return c, nil
	}
	if s, ok := text(a); ok {
		if t, ok := text(b); ok {
			return ordering(strings.Compare(s, t)), r.spend(min(len(s), len(t)) / 8)
		}
	}
	x, xOK := elements(a)
	y, yOK := elements(b)
	_, xList := a.([]Value)
	_, yList := b.([]Value)
	if !xOK || !yOK || xList != yList {
		return orderNone, fmt.Errorf("'%s' and '%s' cannot be ordered", typeName(a), typeName(b))
	}
	if err := r.nest(); err != nil {
		return orderNone, err
	}
	defer r.unnest()
	for i := range min(len(x), len(y)) {
		if eq, err := r.equal(x[i], y[i]); err != nil {
			return orderNone, err
		} else if !eq {
			return r.order(x[i], y[i])
		}
	}
	c, _ := orderNumbers(int64(len(x)), int64(len(y)))
	return c, r.spend(itemCost * min(len(x), len(y)))
}

// orderNumbers compares numbers exactly, integers with floats too. It is not ok if one is no number.
func orderNumbers(a, b Value) (ordering, bool) {
	x, xInt := integer(a)
	y, yInt := integer(b)
	if xInt && yInt {
		switch {
		case x < y:
			return orderLess, true
		case x > y:
			return orderMore, true
		}
		return orderSame, true
	}
	p, pOK := float(a)
	q, qOK := float(b)
	switch {
	case !pOK || !qOK:
		return orderNone, false
	case math.IsNaN(p) || math.IsNaN(q):
		return orderNone, true
	case p < q:
		return orderLess, true
	case p > q:
		return orderMore, true
	}
	return ordering(exact(a).Cmp(exact(b))), true
}

func exact(v Value) *big.Float {
	switch v := v.(type) {
	case float64:
		return new(big.Float).SetFloat64(v)
	case *big.Int:
		return new(big.Float).SetInt(v)
	}
	n, _ := integer(v)
	return new(big.Float).SetInt64(n)
}

// contains is Python's in.
func (r *render) contains(container, v Value) (bool, error) {
	if s, ok := text(container); ok {
		part, ok := text(v)
		if !ok {
			return false, fmt.Errorf("'in <string>' requires string as left operand, not %s", typeName(v))
		}
		return strings.Contains(s, part), r.spend(len(s))
	}
	switch c := container.(type) {
	case *ordered.Object:
		_, ok := r.lookUp(c, v)
		return ok, nil
	case *view:
		if c.kind == "dict_keys" {
			_, ok := r.lookUp(c.of, v)
			return ok, nil
		}
	case *loopContext:
		return false, errors.New("the variable loop cannot be searched")
	}
	it, err := r.iterate(container)
	if err != nil {
		return false, err
	}
	for {
		item, ok, err := it.step()
		if err != nil || !ok {
			return false, err
		}
		if eq, err := r.equal(item, v); eq || err != nil {
			return eq, err
		}
		if err := r.spend(itemCost); err != nil {
			return false, err
		}
	}
}
