package where

import (
	"regexp"
	"strings"

	"github.com/expr-lang/expr/parser/lexer"
)

func (p *parser) identifier(token lexer.Token) expr {
	name, at := token.Value, token.From
	for i := len(p.scopes) - 1; i >= 0; i-- {
		if v := p.scopes[i]; v.name == name {
			return expr{static: v.static, at: at, run: func(f *frame) any { return f.vars[v.slot] }}
		}
	}
	if name == "$env" {
		p.whole = true
		return expr{at: at, record: true, run: func(f *frame) any { return f.record }}
	}
	if _, ok := functions[name]; ok && !p.known(name) {
		return p.refuse(at, "%s is a function: call it", name)
	}
	return p.column(name, at, true)
}

func (p *parser) known(column string) bool {
	for _, c := range p.columns {
		if c == column {
			return true
		}
	}
	return p.columns == nil
}

func (p *parser) column(name string, at int, strict bool) expr {
	if strict && !p.known(name) {
		return p.refuse(at, "unknown name %s", name)
	}
	p.names = append(p.names, name)
	return expr{at: at, run: func(f *frame) any { return f.record[name] }}
}

// pointer returns # (the element), #index or #acc of the innermost predicate.
func (p *parser) pointer(name string, at int) expr {
	p.node()
	of := p.loops[len(p.loops)-1]
	names := p.pointers[len(p.pointers)-1]
	switch {
	case name == "":
		return expr{static: static{kind: of.elem}, at: at, run: func(f *frame) any { return f.inner().item }}
	case name == "index" && contains(names, name):
		return expr{static: static{kind: integer}, at: at, run: func(f *frame) any { return f.inner().index }}
	case name == "acc" && contains(names, name):
		return expr{at: at, run: func(f *frame) any { return f.inner().total }}
	}
	return p.refuse(at, "unknown pointer #%v", name)
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

func (p *parser) choice(condition, yes, no expr) expr {
	p.node()
	if condition.kind != boolean && condition.kind != unknown {
		return p.refuse(condition.at, "non-bool expression (type %v) used as condition", condition.static)
	}
	of := static{}
	switch {
	case yes.kind == null:
		of = no.static
	case no.kind == null || yes.static == no.static:
		of = yes.static
	case yes.kind == no.kind:
		of.kind = yes.kind
	}
	return expr{static: of, at: condition.at, run: func(f *frame) any {
		v := condition.run(f)
		f.at = condition.at
		if truth(v, "a condition") {
			return yes.run(f)
		}
		return no.run(f)
	}}
}

func truth(v any, of string) bool {
	b, ok := v.(bool)
	if !ok {
		fail("invalid operation: %s needs bool, not %T", of, v)
	}
	return b
}

func (p *parser) unary(op string, e expr, at int) expr {
	p.node()
	switch {
	case (op == "!" || op == "not") && (e.kind == boolean || e.kind == unknown):
		return expr{static: static{kind: boolean}, at: at, run: func(f *frame) any {
			v := e.run(f)
			f.at = at
			return !truth(v, op)
		}}
	case (op == "-" || op == "+") && (numbers.has(e.kind) || e.kind == unknown):
		return expr{static: e.static, at: at, run: func(f *frame) any {
			v := e.run(f)
			f.at = at
			return signed(op, v)
		}}
	}
	return p.refuse(at, "invalid operation: %s (mismatched type %s)", op, e.static)
}

// binary returns an operation on two values. The types that an operator accepts are those of
// expr-lang.org's checker.
func (p *parser) binary(op string, l, r expr, at int) expr {
	p.node()
	of, ok := p.result(op, l, r, at)
	if p.refused != nil {
		return expr{at: at}
	}
	if !ok {
		return p.refuse(at, "invalid operation: %s (mismatched types %s and %s)", op, l.static, r.static)
	}
	e := expr{static: of, at: at}
	switch op {
	case "and", "&&", "or", "||":
		ends := op == "or" || op == "||" // the value of l with which r is not computed
		e.run = func(f *frame) any {
			v := l.run(f)
			if f.at = at; truth(v, op) == ends {
				return ends
			}
			return r.run(f) // nil at the end of a condition is false
		}
	case "??":
		e.run = func(f *frame) any {
			if v := l.run(f); v != nil {
				return v
			}
			return r.run(f)
		}
	case "matches":
		e.run = p.matches(l, r, at)
	default:
		compute := binaries[op]
		e.run = func(f *frame) any {
			a := l.run(f)
			b := r.run(f)
			f.at = at
			return compute(f, a, b)
		}
	}
	return e
}

// result returns the type of a binary operation, and whether the operator accepts the types.
func (p *parser) result(op string, l, r expr, at int) (static, bool) {
	yes := static{kind: boolean}
	switch op {
	case "==", "!=":
		return yes, l.comparable(r.static)
	case "or", "||", "and", "&&":
		return yes, l.maybe(r.static, setOf(boolean))
	case "<", ">", ">=", "<=":
		return yes, l.maybe(r.static, numbers, texts, setOf(instant), setOf(duration))
	case "matches":
		if s, ok := r.literal.(string); ok {
			if _, err := regexp.Compile(s); err != nil {
				p.refuse(at, "%v", err)
			}
		}
		return yes, l.maybe(r.static, texts) || l.kind == binary && texts.has(r.kind)
	case "contains", "startsWith", "endsWith":
		return yes, l.maybe(r.static, texts)
	case "in":
		return yes, p.isIn(l, r, at)
	case "..":
		return static{kind: list, elem: integer}, l.maybe(r.static, integers)
	case "??":
		return coalesced(l.static, r.static), true
	}
	return arithmetic(op, l.static, r.static)
}

// isIn checks the types of "in".
func (p *parser) isIn(l, r expr, at int) bool {
	switch {
	case r.kind == object && l.kind != unknown && l.kind != text:
		p.refuse(at, "cannot use %s as type string in map key", l.static)
	case r.kind == list && !l.comparable(static{kind: r.elem}):
		p.refuse(at, "cannot use %s as type %s in array", l.static, static{kind: r.elem})
	}
	return r.kind == unknown || r.kind == list || objects.has(r.kind) || r.kind == binary
}

func coalesced(l, r static) static {
	switch {
	case l.kind == null:
		return r
	case r.kind == null || r == l:
		return l
	}
	return static{}
}

// arithmetic returns the type of +, -, *, /, % or a power.
func arithmetic(op string, l, r static) (static, bool) {
	either := func(a, b kind) bool { return l.kind == a && r.kind == b || l.kind == b && r.kind == a }
	switch op {
	case "/", "**", "^":
		return static{kind: float}, l.maybe(r, numbers)
	case "%":
		return static{kind: integer}, l.maybe(r, integers)
	case "+":
		switch {
		case l.kind == text && r.kind == text:
			return l, true
		case either(instant, duration):
			return static{kind: instant}, true
		}
	case "-":
		switch {
		case l.kind == instant && r.kind == instant:
			return static{kind: duration}, true
		case l.kind == instant && r.kind == duration:
			return l, true
		}
	case "*":
		if l.kind == duration && numbers.has(r.kind) || numbers.has(l.kind) && r.kind == duration {
			return static{kind: duration}, true
		}
	}
	switch {
	case numbers.has(l.kind) && numbers.has(r.kind):
		if l.kind == float || r.kind == float {
			return static{kind: float}, true
		}
		return static{kind: integer}, true
	case l.kind == duration && r.kind == duration:
		return l, true
	case l.kind != unknown && r.kind != unknown:
		return static{}, false
	}
	sets := map[string][]kinds{
		"+": {numbers, texts, setOf(instant, duration)}, "-": {numbers, setOf(instant, duration)}, "*": {numbers | setOf(duration)},
	}
	return static{}, l.maybe(r, sets[op]...)
}

func (p *parser) matches(l, r expr, at int) func(*frame) any {
	var known *regexp.Regexp
	if s, ok := r.literal.(string); ok {
		known = regexp.MustCompile(s) // result has compiled it
	}
	return func(f *frame) any {
		a := l.run(f)
		b := r.run(f)
		f.at = at
		if a == nil || b == nil {
			return false
		}
		pattern := known
		if pattern == nil {
			var err error
			if pattern, err = regexp.Compile(textOf(b, "as a pattern")); err != nil {
				fail("%v", err)
			}
		}
		if bytes, ok := a.([]byte); ok {
			return pattern.Match(bytes)
		}
		return pattern.MatchString(textOf(a, "with matches"))
	}
}

func textOf(v any, where string) string {
	s, ok := v.(string)
	if !ok {
		fail("invalid operation: cannot use %T %s: it must be string", v, where)
	}
	return s
}

// onTexts returns an operator on texts. It is false if one of them is nil.
func onTexts(op string, holds func(a, b string) bool) func(*frame, any, any) any {
	return func(_ *frame, a, b any) any {
		if a == nil || b == nil {
			return false
		}
		return holds(textOf(a, "with "+op), textOf(b, "with "+op))
	}
}

var binaries = map[string]func(f *frame, a, b any) any{
	"==":         func(_ *frame, a, b any) any { return equal(a, b) },
	"!=":         func(_ *frame, a, b any) any { return !equal(a, b) },
	"<":          func(_ *frame, a, b any) any { return ordered("<", a, b) < 0 },
	">":          func(_ *frame, a, b any) any { return ordered(">", a, b) > 0 && !isNaN(a, b) },
	"<=":         func(_ *frame, a, b any) any { return ordered("<=", a, b) <= 0 && !isNaN(a, b) },
	">=":         func(_ *frame, a, b any) any { return ordered(">=", a, b) >= 0 && !isNaN(a, b) },
	"+":          add,
	"-":          func(_ *frame, a, b any) any { return subtract(a, b) },
	"*":          func(_ *frame, a, b any) any { return multiply(a, b) },
	"/":          func(_ *frame, a, b any) any { return divide(a, b) },
	"%":          func(_ *frame, a, b any) any { return modulo(a, b) },
	"**":         func(_ *frame, a, b any) any { return power(a, b) },
	"^":          func(_ *frame, a, b any) any { return power(a, b) },
	"..":         span,
	"in":         func(_ *frame, a, b any) any { return isIn(a, b) },
	"contains":   onTexts("contains", strings.Contains),
	"startsWith": onTexts("startsWith", strings.HasPrefix),
	"endsWith":   onTexts("endsWith", strings.HasSuffix),
}
