package where

import (
	"slices"

	"github.com/expr-lang/expr/parser/lexer"
)

// predicate is a function that computes an expression for each element of a list.
type predicate struct {
	optional bool     // the predicate can be left out
	last     bool     // an argument can follow the predicate
	pointers []string // names after # besides the element
	boolean  bool     // the expression must be a condition
	result   func(list, each static) static
	run      func(f *frame, all []any, each func(i int) any, last any) any
}

func of(k kind) func(_, _ static) static { return func(_, _ static) static { return static{kind: k} } }

func element(l, _ static) static { return static{kind: l.elem} }

var predicates map[string]*predicate

func init() { // the functions refer to one another
	predicates = map[string]*predicate{
		"all":           {boolean: true, result: of(boolean), run: quantifier(func(n, all int) bool { return n == all }, false)},
		"none":          {boolean: true, result: of(boolean), run: quantifier(func(n, _ int) bool { return n == 0 }, true)},
		"any":           {boolean: true, result: of(boolean), run: quantifier(func(n, _ int) bool { return n > 0 }, true)},
		"one":           {boolean: true, result: of(boolean), run: quantifier(func(n, _ int) bool { return n == 1 }, nil)},
		"filter":        {boolean: true, result: func(l, _ static) static { return static{list, l.elem} }, run: filter},
		"map":           {pointers: []string{"index"}, result: func(_, e static) static { return static{list, e.kind} }, run: mapped},
		"count":         {boolean: true, optional: true, result: of(integer), run: count},
		"sum":           {optional: true, result: summed, run: sum},
		"find":          {boolean: true, result: element, run: finder(false, false)},
		"findIndex":     {boolean: true, result: of(integer), run: finder(false, true)},
		"findLast":      {boolean: true, result: element, run: finder(true, false)},
		"findLastIndex": {boolean: true, result: of(integer), run: finder(true, true)},
		"groupBy":       {result: func(_, _ static) static { return static{mapping, list} }, run: groupBy},
		"sortBy":        {last: true, result: func(l, _ static) static { return static{list, l.elem} }, run: sortBy},
		"reduce":        {last: true, pointers: []string{"index", "acc"}, result: func(_, e static) static { return e }, run: nil},
	}
}

// predicated reads the arguments of such a function. args has the list if it comes from a pipe.
func (p *parser) predicated(name string, d *predicate, args []expr, at int) expr {
	p.node()
	p.expect(lexer.Bracket, "(")
	missing := func() {
		if p.bracket(")") {
			p.stop(p.current.From, "expected at least %d arguments", 2-len(args))
		}
	}
	if len(args) == 0 {
		missing()
		args = append(args, p.expression(0))
		if !d.optional || p.operator(",") {
			missing()
			p.expect(lexer.Operator, ",")
		}
	}
	var each, last *expr
	if !d.optional || !p.bracket(")") {
		missing()
		e := p.each(args[0], d.pointers)
		each = &e
	}
	if d.last && p.skip(lexer.Operator, ",") && !p.bracket(")") {
		e := p.expression(0)
		last = &e
	}
	p.skip(lexer.Operator, ",")
	p.expect(lexer.Bracket, ")")
	over := args[0]
	switch {
	case over.kind != list && over.kind != unknown:
		return p.refuse(over.at, "builtin %v takes only array (got %v)", name, over.static)
	case each != nil && d.boolean && each.kind != boolean && each.kind != unknown:
		return p.refuse(each.at, "predicate should return boolean (got %s)", each.static)
	case name == "sortBy" && last != nil && last.kind != text && last.kind != unknown:
		return p.refuse(last.at, "sortBy order argument must be a string (got %v)", last.static)
	}
	result := static{kind: over.elem}
	if each != nil {
		result = each.static
	}
	return expr{static: d.result(over.static, result), at: at, run: func(f *frame) any { return p.overList(f, name, d, over, each, last, at) }}
}

// each reads a predicate: an expression, or several in braces.
func (p *parser) each(over expr, pointers []string) expr {
	of := over.static
	if of.kind != list {
		of = static{}
	}
	p.loops, p.pointers = append(p.loops, of), append(p.pointers, pointers)
	defer func() {
		p.loops, p.pointers = p.loops[:len(p.loops)-1], p.pointers[:len(p.pointers)-1]
	}()
	at := p.current.From
	if p.bracket("{") {
		e := p.block()
		e.at = at
		return e
	}
	e := p.expression(0)
	if p.operator(";") {
		p.stop(p.current.From, "wrap predicate with brackets { and }")
	}
	e.at = at
	return e
}

// overList computes such a function for a record.
func (p *parser) overList(f *frame, name string, d *predicate, over expr, each, last *expr, at int) any {
	v := over.run(f)
	f.at = at
	all, ok := elements(v)
	if !ok {
		fail("builtin %v takes only array (got %T)", name, v)
	}
	var after any
	if last != nil {
		after = last.run(f)
	}
	depth := len(f.loops)
	f.loops = append(f.loops, loop{})
	defer func() { f.loops = f.loops[:depth] }()
	compute := func(i int) any {
		f.loops[depth].item, f.loops[depth].index = all[i], i
		if each == nil {
			return all[i]
		}
		v := each.run(f)
		f.at = at
		return v
	}
	if name == "reduce" {
		return reduce(f, all, compute, after, last != nil)
	}
	return d.run(f, all, compute, after)
}

// quantifier counts the elements that satisfy a predicate. If an element's truth is stop, the rest
// is not computed.
func quantifier(holds func(n, all int) bool, stop any) func(*frame, []any, func(int) any, any) any {
	return func(_ *frame, all []any, each func(int) any, _ any) any {
		n := 0
		for i := range all {
			yes := truth(each(i), "a predicate")
			if yes {
				n++
			}
			if yes == stop {
				break
			}
		}
		return holds(n, len(all))
	}
}

func filter(f *frame, all []any, each func(int) any, _ any) any {
	made := []any{}
	for i, v := range all {
		if truth(each(i), "a predicate") {
			made = append(made, v)
		}
	}
	f.use(len(made))
	return made
}

func mapped(f *frame, all []any, each func(int) any, _ any) any {
	f.use(len(all))
	made := make([]any, len(all))
	for i := range all {
		made[i] = each(i)
	}
	return made
}

func count(_ *frame, all []any, each func(int) any, _ any) any {
	n := 0
	for i := range all {
		if truth(each(i), "a predicate") {
			n++
		}
	}
	return n
}

func summed(_, each static) static {
	if numbers.has(each.kind) || each.kind == duration {
		return each
	}
	return static{}
}

func sum(f *frame, all []any, each func(int) any, _ any) any {
	var total any = 0
	for i := range all {
		total = add(f, each(i), total)
	}
	return total
}

func finder(fromEnd, index bool) func(*frame, []any, func(int) any, any) any {
	return func(_ *frame, all []any, each func(int) any, _ any) any {
		for i := range all {
			if fromEnd {
				i = len(all) - 1 - i
			}
			switch {
			case !truth(each(i), "a predicate"):
			case index:
				return i
			default:
				return all[i]
			}
		}
		return nil
	}
}

func groupBy(f *frame, all []any, each func(int) any, _ any) any {
	groups := map[any]any{}
	for i, v := range all {
		key := hashable(each(i))
		members, _ := groups[key].([]any)
		groups[key] = append(members, v)
	}
	f.use(len(all))
	return groups
}

func sortBy(f *frame, all []any, each func(int) any, last any) any {
	type row struct{ value, key any }
	rows := make([]row, len(all))
	for i, v := range all {
		rows[i] = row{v, each(i)}
	}
	f.use(len(all))
	compare := inOrder(last)
	slices.SortStableFunc(rows, func(a, b row) int { return compare(a.key, b.key) })
	made := make([]any, len(rows))
	for i, r := range rows {
		made[i] = r.value
	}
	return made
}

// inOrder returns the comparison of an order: "asc", nil for the same, or "desc".
func inOrder(order any) func(a, b any) int {
	switch order {
	case nil, "asc":
		return func(a, b any) int { return ordered("<", a, b) }
	case "desc":
		return func(a, b any) int { return -ordered("<", a, b) }
	}
	if _, ok := order.(string); !ok {
		fail("sort order argument must be a string (got %T)", order)
	}
	fail("invalid order %s, expected asc or desc", order)
	return nil
}

func reduce(f *frame, all []any, each func(int) any, start any, started bool) any {
	first := 0
	if !started {
		if len(all) == 0 {
			fail("reduce of empty array with no initial value")
		}
		start, first = all[0], 1
	}
	inner := f.inner()
	inner.total = start
	for i := first; i < len(all); i++ {
		v := each(i)
		f.loops[len(f.loops)-1].total = v
	}
	return f.inner().total
}
