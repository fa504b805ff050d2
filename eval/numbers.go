package eval

import (
	"math/big"

	"github.com/ingot-run/ingot/internal/ordered"
)

// unifyNumbers makes numbers of the same column of one type, as the package datasets does, with
// which the harness reads rows: if a column has a number with a point, 1 becomes 1.0, which is what
// templates write. An integer that int64 cannot hold counts as such a number. The same holds for
// fields of objects and for elements of lists. Columns are left as they are if they have values of
// other types, or objects with different fields.
func unifyNumbers(rows []*ordered.Object) {
	byColumn := map[string][]place{}
	for _, row := range rows {
		for _, name := range row.Keys() {
			byColumn[name] = append(byColumn[name], fieldOf(row, name))
		}
	}
	for _, places := range byColumn {
		unify(places)
	}
}

// place is where a value is, with a function that replaces it.
type place struct {
	value ordered.Value
	set   func(ordered.Value)
}

func fieldOf(o *ordered.Object, name string) place {
	v, _ := o.Get(name)
	return place{v, func(v ordered.Value) { o.Set(name, v) }}
}

// unify makes the numbers among values of the same field of one type.
func unify(places []place) {
	var objects, lists, whole, points []place
	for _, p := range places {
		switch p.value.(type) {
		case nil:
		case *ordered.Object:
			objects = append(objects, p)
		case []ordered.Value:
			lists = append(lists, p)
		case int64:
			whole = append(whole, p)
		case float64, *big.Int:
			points = append(points, p)
		default:
			return
		}
	}
	kinds := 0
	for _, n := range []int{len(objects), len(lists), len(whole) + len(points)} {
		if n > 0 {
			kinds++
		}
	}
	if kinds != 1 {
		return
	}
	for _, p := range points {
		if n, ok := p.value.(*big.Int); ok {
			f, _ := new(big.Float).SetInt(n).Float64()
			p.set(f)
		}
	}
	for _, p := range whole {
		if n, ok := p.value.(int64); ok && len(points) > 0 {
			p.set(float64(n))
		}
	}
	unifyFields(objects)
	unifyElements(lists)
}

func unifyFields(objects []place) {
	fields := map[string][]place{}
	for _, p := range objects {
		o := p.value.(*ordered.Object) //nolint:forcetypeassert // see unify
		for _, name := range o.Keys() {
			fields[name] = append(fields[name], fieldOf(o, name))
		}
	}
	for _, places := range fields {
		if len(places) != len(objects) {
			return // not all objects have the field
		}
	}
	for _, places := range fields {
		unify(places)
	}
}

func unifyElements(lists []place) {
	var elements []place
	for _, p := range lists {
		list := p.value.([]ordered.Value) //nolint:forcetypeassert // see unify
		for i := range list {
			elements = append(elements, place{list[i], func(v ordered.Value) { list[i] = v }})
		}
	}
	unify(elements)
}
