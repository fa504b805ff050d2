package jinja

import (
	"math"
	"math/big"
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

func (r *render) compare(op string, a, b Value) bool {
	switch op {
	case "==":
		return r.equal(a, b)
	case "!=":
		return !r.equal(a, b)
	case "in":
		return r.contains(b, a)
	case "not in":
		return !r.contains(b, a)
	case "<":
		return r.less(a, b)
	case ">":
		return r.less(b, a)
	case "<=":
		c := r.order(a, b)
		return c == orderLess || c == orderSame
	}
	c := r.order(a, b)
	return c == orderMore || c == orderSame
}

func (r *render) equal(a, b Value) bool {
	if r.t.strict {
		defined(a, b)
	}
	if s, ok := text(a); ok {
		t, ok := text(b)
		if !ok || len(s) != len(t) {
			return false
		}
		r.spend(len(s) / 8)
		return s == t
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case *undefined:
		_, ok := b.(*undefined)
		return ok
	case bool, int64, float64, *big.Int:
		c, ok := orderNumbers(a, b)
		return ok && c == orderSame
	case *ordered.Object:
		y, ok := b.(*ordered.Object)
		return ok && r.equalObjects(x, y)
	case *span, *view:
		fail("a value of type '%s' cannot be compared; convert it with the filter \"list\"", typeName(x))
	case *iterator, *namespace, *macro, *function, *loopContext:
		return a == b
	}
	items, others, ok := bothElements(a, b)
	return ok && r.equalItems(items, others)
}

func (r *render) equalItems(x, y []Value) bool {
	if len(x) != len(y) {
		return false
	}
	r.nest()
	defer r.unnest()
	for i := range x {
		r.spend(itemCost)
		if !r.equal(x[i], y[i]) {
			return false
		}
	}
	return true
}

func (r *render) equalObjects(x, y *ordered.Object) bool {
	if x.Len() != y.Len() {
		return false
	}
	r.nest()
	defer r.unnest()
	for key, value := range x.All() {
		r.spend(itemCost + len(key))
		v, ok := y.Get(key)
		if !ok || !r.equal(value, v) {
			return false
		}
	}
	return true
}

type ordering int8

const (
	orderLess ordering = -1
	orderSame ordering = 0
	orderMore ordering = 1
	orderNone ordering = 2
)

func (r *render) less(a, b Value) bool { return r.order(a, b) == orderLess }

func (r *render) order(a, b Value) ordering {
	defined(a, b)
	if c, ok := orderNumbers(a, b); ok {
		return c
	}
	s, sOK := text(a)
	t, tOK := text(b)
	if sOK && tOK {
		r.spend(min(len(s), len(t)) / 8)
		return ordering(strings.Compare(s, t))
	}
	x, y, ok := bothElements(a, b)
	if !ok {
		fail("values of types '%s' and '%s' cannot be ordered", typeName(a), typeName(b))
	}
	r.nest()
	defer r.unnest()
	for i := range min(len(x), len(y)) {
		r.spend(itemCost)
		if !r.equal(x[i], y[i]) {
			return r.order(x[i], y[i])
		}
	}
	c, _ := orderNumbers(int64(len(x)), int64(len(y)))
	return c
}

// orderNumbers compares two numbers. The result is exact even for an integer and a float. It
// returns false if a value is not a number.
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

func (r *render) contains(container, v Value) bool {
	if s, ok := text(container); ok {
		part, ok := text(v)
		if !ok {
			fail("the left operand of 'in' must be a string if the right one is, not a value of type '%s'", typeName(v))
		}
		r.spend(len(s))
		return strings.Contains(s, part)
	}
	switch c := container.(type) {
	case *ordered.Object:
		_, ok := r.lookUp(c, v)
		return ok
	case *loopContext:
		fail("the operator 'in' cannot be applied to the variable loop")
	}
	it := r.iterate(container)
	for {
		item, ok := it.step()
		if !ok {
			return false
		}
		r.spend(itemCost)
		if r.equal(item, v) {
			return true
		}
	}
}
