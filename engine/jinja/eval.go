package jinja

import (
	"fmt"

	"github.com/ingot-run/ingot/ordered"
)

func (e *constExpr) eval(*render, *frame) (Value, error) { return e.value, nil }

func (e *nameExpr) eval(r *render, f *frame) (Value, error) { return e.ref.get(r, f), nil }

// attrTarget is only assigned to.
func (e *attrTarget) eval(*render, *frame) (Value, error) { return nil, errNotNamespace }

func evalAll(r *render, f *frame, exprs []expr) ([]Value, error) {
	if err := r.list(len(exprs) + 1); err != nil {
		return nil, err
	}
	out := make([]Value, len(exprs))
	for i, e := range exprs {
		v, err := e.eval(r, f)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func (e *listExpr) eval(r *render, f *frame) (Value, error) {
	items, err := evalAll(r, f, e.items)
	return items, err
}

func (e *tupleExpr) eval(r *render, f *frame) (Value, error) {
	items, err := evalAll(r, f, e.items)
	return tuple(items), err
}

func (e *dictExpr) eval(r *render, f *frame) (Value, error) {
	if err := r.list(len(e.keys) + 1); err != nil {
		return nil, errAt(int(e.at), err)
	}
	o := ordered.NewObject()
	for i := range e.keys {
		k, err := e.keys[i].eval(r, f)
		if err != nil {
			return nil, err
		}
		v, err := e.values[i].eval(r, f)
		if err != nil {
			return nil, err
		}
		if err := r.put(o, k, v); err != nil {
			return nil, errAt(int(e.at), err)
		}
	}
	return o, nil
}

func (e *condExpr) eval(r *render, f *frame) (Value, error) {
	test, err := e.test.eval(r, f)
	if err != nil {
		return nil, err
	}
	if truth(test) {
		return e.value.eval(r, f)
	}
	if e.other == nil {
		return noElse, nil
	}
	return e.other.eval(r, f)
}

var noElse = &undefined{hint: "the inline if-expression evaluated to false and no else section was defined"}

func (e *logicExpr) eval(r *render, f *frame) (Value, error) {
	left, err := e.left.eval(r, f)
	if err != nil || truth(left) != e.and {
		return left, err
	}
	return e.right.eval(r, f)
}

func (e *notExpr) eval(r *render, f *frame) (Value, error) {
	v, err := e.value.eval(r, f)
	if err != nil {
		return nil, err
	}
	return !truth(v), nil
}

func (e *unaryExpr) eval(r *render, f *frame) (Value, error) {
	v, err := e.value.eval(r, f)
	if err == nil {
		v, err = signed(e.op, v)
	}
	if err != nil {
		return nil, errAt(int(e.at), err)
	}
	return v, nil
}

func (e *binaryExpr) eval(r *render, f *frame) (Value, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	left, err := e.left.eval(r, f)
	if err != nil {
		return nil, err
	}
	right, err := e.right.eval(r, f)
	if err != nil {
		return nil, err
	}
	v, err := r.arithmetic(e.op, left, right)
	if err != nil {
		return nil, errAt(int(e.at), err)
	}
	return v, nil
}

func (e *concatExpr) eval(r *render, f *frame) (Value, error) {
	var small [128]byte
	out := small[:0]
	for _, item := range e.items {
		v, err := item.eval(r, f)
		if err != nil {
			return nil, err
		}
		s, err := r.str(v)
		if err == nil {
			err = r.spend(len(s) + stepCost)
		}
		out = append(out, s...)
		if err == nil {
			err = r.fits(len(out))
		}
		if err != nil {
			return nil, errAt(int(e.at), err)
		}
	}
	return string(out), nil
}

func (e *compareExpr) eval(r *render, f *frame) (Value, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	left, err := e.first.eval(r, f)
	if err != nil {
		return nil, err
	}
	for i, op := range e.ops {
		right, err := e.rest[i].eval(r, f)
		if err != nil {
			return nil, err
		}
		holds, err := r.compare(op, left, right)
		if err != nil {
			return nil, errAt(int(e.at), err)
		}
		if !holds {
			return false, nil
		}
		left = right
	}
	return true, nil
}

func (e *attrExpr) eval(r *render, f *frame) (Value, error) {
	object, err := e.object.eval(r, f)
	if err != nil {
		return nil, err
	}
	if o, ok := object.(*ordered.Object); ok && e.plain {
		if v, ok := o.Get(e.name); ok {
			return v, nil
		}
	}
	v, err := getAttr(object, e.name)
	if err != nil {
		return nil, errAt(int(e.at), err)
	}
	return v, nil
}

func (e *itemExpr) eval(r *render, f *frame) (Value, error) {
	object, err := e.object.eval(r, f)
	if err != nil {
		return nil, err
	}
	key, err := e.key.eval(r, f)
	if err != nil {
		return nil, err
	}
	v, err := r.getItem(object, key)
	if err != nil {
		return nil, errAt(int(e.at), err)
	}
	return v, nil
}

func (e *sliceExpr) eval(r *render, f *frame) (Value, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	object, err := e.object.eval(r, f)
	if err != nil {
		return nil, err
	}
	var bounds [3]Value // None where left out
	for i, b := range [3]expr{e.start, e.stop, e.step} {
		if b == nil {
			continue
		}
		if bounds[i], err = b.eval(r, f); err != nil {
			return nil, err
		}
	}
	v, err := r.slice(object, bounds)
	if err != nil {
		return nil, errAt(int(e.at), err)
	}
	return v, nil
}

func (e *filterExpr) eval(r *render, f *frame) (Value, error) { return e.apply(r, f, nil) }

// apply runs the filters; captured is the text of the block that the first of them stands at.
func (e *filterExpr) apply(r *render, f *frame, captured Value) (Value, error) {
	v := captured
	var err error
	if inner, ok := e.value.(*filterExpr); ok {
		v, err = inner.apply(r, f, captured)
	} else if e.value != nil {
		v, err = e.value.eval(r, f)
	}
	if err != nil {
		return nil, err
	}
	if v, err = e.invoke(r, f, v); err != nil {
		return nil, errAt(int(e.at), err)
	}
	return v, nil
}

func (e *filterExpr) invoke(r *render, f *frame, v Value) (Value, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	if e.fn == nil {
		return nil, fmt.Errorf("there is no filter named '%s'", e.name)
	}
	a, err := e.args.eval(r, f)
	if err != nil {
		return nil, err
	}
	return e.fn.call(r, e.name, v, a)
}

func (e *testExpr) eval(r *render, f *frame) (Value, error) {
	v, err := e.value.eval(r, f)
	if err != nil {
		return nil, err
	}
	if v, err = e.invoke(r, f, v); err != nil {
		return nil, errAt(int(e.at), err)
	}
	return v, nil
}

func (e *testExpr) invoke(r *render, f *frame, v Value) (Value, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	if e.fn == nil {
		return nil, fmt.Errorf("there is no test named '%s'", e.name)
	}
	a, err := e.args.eval(r, f)
	if err != nil {
		return nil, err
	}
	return e.fn.call(r, e.name, v, a)
}
