package jinja

import "github.com/ingot-run/ingot/internal/ordered"

// An expression that can fail first computes its operands and then sets r.at to its own offset. An
// error therefore has the position of the innermost operation.

func (e *constExpr) eval(*render, *frame) Value { return e.value }

func (e *nameExpr) eval(r *render, f *frame) Value { return e.ref.get(r, f) }

// An attrTarget is never evaluated, because it occurs only on the left of a set.
func (e *attrTarget) eval(*render, *frame) Value { return nil }

func evalAll(r *render, f *frame, exprs []expr) []Value {
	r.list(len(exprs) + 1)
	out := make([]Value, len(exprs))
	for i, e := range exprs {
		out[i] = e.eval(r, f)
	}
	return out
}

func (e *listExpr) eval(r *render, f *frame) Value { return evalAll(r, f, e.items) }

func (e *tupleExpr) eval(r *render, f *frame) Value { return tuple(evalAll(r, f, e.items)) }

func (e *dictExpr) eval(r *render, f *frame) Value {
	r.list(len(e.items)/2 + 1)
	o := ordered.NewObject()
	for i := 0; i < len(e.items); i += 2 {
		key, value := e.items[i].eval(r, f), e.items[i+1].eval(r, f)
		r.at = int(e.at)
		r.put(o, key, value)
	}
	return o
}

func (e *condExpr) eval(r *render, f *frame) Value {
	switch {
	case truth(e.test.eval(r, f)):
		return e.value.eval(r, f)
	case e.other == nil:
		return noElse
	}
	return e.other.eval(r, f)
}

var noElse = &undefined{hint: "the inline if-expression evaluated to false and no else section was defined"}

func (e *logicExpr) eval(r *render, f *frame) Value {
	left := e.items[0].eval(r, f)
	if truth(left) != e.and {
		return left
	}
	return e.items[1].eval(r, f)
}

func (e *notExpr) eval(r *render, f *frame) Value { return !truth(e.items[0].eval(r, f)) }

func (e *signExpr) eval(r *render, f *frame) Value {
	v := e.items[0].eval(r, f)
	r.at = int(e.at)
	return signed(e.op, v)
}

func (e *binaryExpr) eval(r *render, f *frame) Value {
	left, right := e.left.eval(r, f), e.right.eval(r, f)
	r.at = int(e.at)
	r.step()
	return r.arithmetic(e.op, left, right)
}

func (e *concatExpr) eval(r *render, f *frame) Value {
	var small [128]byte
	out := small[:0]
	for _, item := range e.items {
		v := item.eval(r, f)
		r.at = int(e.at)
		s := r.str(v)
		r.spend(len(s) + stepCost)
		out = append(out, s...)
		r.fits(len(out))
	}
	return string(out)
}

func (e *compareExpr) eval(r *render, f *frame) Value {
	left := e.items[0].eval(r, f)
	for i, op := range e.ops {
		right := e.items[i+1].eval(r, f)
		r.at = int(e.at)
		r.step()
		if !r.compare(op, left, right) {
			return false
		}
		left = right
	}
	return true
}

func (e *attrExpr) eval(r *render, f *frame) Value {
	object := e.object.eval(r, f)
	if o, ok := object.(*ordered.Object); ok && e.plain {
		if v, ok := o.Get(e.name); ok {
			return v
		}
	}
	r.at = int(e.at)
	return r.getAttr(object, e.name)
}

func (e *itemExpr) eval(r *render, f *frame) Value {
	object, key := e.object.eval(r, f), e.key.eval(r, f)
	r.at = int(e.at)
	return r.getItem(object, key)
}

func (e *sliceExpr) eval(r *render, f *frame) Value {
	var v [4]Value // None if missing
	for i, item := range e.items {
		if item != nil {
			v[i] = item.eval(r, f)
		}
	}
	r.at = int(e.at)
	r.step()
	return r.slice(v[0], [3]Value(v[1:]))
}

func (e *filterExpr) eval(r *render, f *frame) Value { return e.apply(r, f, nil) }

// apply runs a chain of filters and tests. captured is the input of the first filter if the chain
// belongs to a block: the text of the block.
func (e *filterExpr) apply(r *render, f *frame, captured Value) Value {
	v := captured
	if inner, ok := e.value.(*filterExpr); ok {
		v = inner.apply(r, f, captured)
	} else if e.value != nil {
		v = e.value.eval(r, f)
	}
	r.at = int(e.at)
	r.step()
	if e.fn == nil {
		fail("there is no %s named '%s'", e.kind, e.name)
	}
	a := e.args.eval(r, f)
	r.at = int(e.at)
	return e.fn.call(r, e.name, v, a)
}

func (e *callExpr) eval(r *render, f *frame) Value {
	var fn, self Value
	var m *builtin
	attr, isAttr := e.fn.(*attrExpr)
	if isAttr {
		self = attr.object.eval(r, f)
		r.at = int(e.at)
		if m = methodOf(self, attr.name); m == nil {
			fn = r.getAttr(self, attr.name)
		}
	} else {
		fn = e.fn.eval(r, f)
	}
	a := e.args.eval(r, f)
	r.at = int(e.at)
	r.step()
	if m != nil {
		return m.call(r, attr.name, self, a)
	}
	return r.call(fn, a)
}
