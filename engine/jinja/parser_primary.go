package jinja

import (
	"slices"
	"strings"
)

// filter parses the name and arguments of a filter.
func (p *parser) filter(value expr) *filterExpr {
	name := p.expectName()
	refuseFilter(name)
	f := &filterExpr{at: at(name.offset), value: value, name: name.text}
	if p.isOp("(") {
		f.args = p.args()
	}
	return f
}

// test parses what follows "is". An argument may stand without parentheses: x is divisibleby 3.
func (p *parser) test(where at, value expr) expr {
	negated := p.takeWord("not")
	name := p.expectName()
	refuseTest(name)
	t := &testExpr{at: where, value: value, name: name.text}
	switch next := p.cur(); {
	case p.isOp("("):
		t.args = p.args()
	case p.isWord("is"):
		failAt(next.offset, "tests cannot be chained with is")
	case next.kind == tokName && (next.text == "else" || next.text == "or" || next.text == "and"):
	case next.kind == tokName || next.kind == tokString || next.kind == tokNumber || p.isOp("[") || p.isOp("{"):
		t.args.pos = []expr{p.unary(false)}
	}
	if negated {
		return &notExpr{t}
	}
	return t
}

func (p *parser) attribute(where at, object expr) expr {
	t := p.cur()
	if n, ok := t.value.(int64); ok && t.kind == tokNumber {
		p.pos++
		return &itemExpr{where, object, &constExpr{n}}
	}
	name := p.expectName()
	refuseLoopAttribute(object, name)
	return &attrExpr{where, object, t.text, isPlainKey(t.text)}
}

func (p *parser) subscript(where at, object expr) expr {
	p.next()
	var key expr
	if !p.isOp(":") {
		key = p.expression()
	}
	switch {
	case p.isOp(","):
		refuse(p.cur().offset, "a tuple as a key is")
	case !p.takeOp(":"):
		p.expectOp("]")
		return &itemExpr{where, object, key}
	}
	s := &sliceExpr{at: where, object: object}
	s.bounds[0] = key
	if !p.isOp(":") && !p.isOp("]") {
		s.bounds[1] = p.expression()
	}
	if p.takeOp(":") && !p.isOp("]") {
		s.bounds[2] = p.expression()
	}
	p.expectOp("]")
	return s
}

func (p *parser) primary() expr {
	t := p.cur()
	switch {
	case t.kind == tokName:
		p.pos++
		switch t.text {
		case "true", "True":
			return &constExpr{true}
		case "false", "False":
			return &constExpr{false}
		case "none", "None":
			return &constExpr{nil}
		}
		return &nameExpr{at: at(t.offset), name: t.text}
	case t.kind == tokString:
		return &constExpr{p.strings()}
	case t.kind == tokNumber:
		p.pos++
		return &constExpr{t.value}
	case p.takeOp("("):
		items, isTuple := p.items(p.expression, "")
		p.expectOp(")")
		if isTuple || len(items) == 0 {
			return &tupleExpr{items}
		}
		return items[0]
	case p.takeOp("["):
		l := &listExpr{}
		p.separated("]", func() { l.items = append(l.items, p.expression()) })
		return l
	case p.takeOp("{"):
		d := &dictExpr{at: at(t.offset)}
		p.separated("}", func() {
			d.keys = append(d.keys, p.expression())
			p.expectOp(":")
			d.values = append(d.values, p.expression())
		})
		return d
	}
	p.fail("an expression")
	return nil
}

// separated parses items with commas between them up to a closing bracket, which a comma may precede.
func (p *parser) separated(end string, item func()) {
	for first := true; !p.takeOp(end); first = false {
		if !first {
			p.expectOp(",")
			if p.takeOp(end) {
				return
			}
		}
		item()
	}
}

// strings joins string literals that stand side by side.
func (p *parser) strings() string {
	var parts []string
	for p.cur().kind == tokString {
		parts = append(parts, p.next().text)
	}
	return strings.Join(parts, "")
}

func (p *parser) call(where at, fn expr) expr {
	refuseMethod(fn)
	return &callExpr{where, fn, p.args()}
}

// args parses the arguments of a call, with their parentheses.
func (p *parser) args() argExprs {
	var a argExprs
	p.next()
	p.separated(")", func() { p.arg(&a) })
	return a
}

func (p *parser) arg(a *argExprs) {
	t := p.cur()
	if a.starNamed != nil {
		failAt(t.offset, "arguments of a call are in the wrong order")
	}
	switch {
	case p.takeOp("**"):
		a.starNamed = p.expression()
	case p.takeOp("*"):
		if a.star != nil {
			failAt(t.offset, "arguments of a call are in the wrong order")
		}
		a.star = p.expression()
	case t.kind == tokName && p.ahead().kind == tokOp && p.ahead().text == "=":
		if slices.Contains(a.names, t.text) {
			failAt(t.offset, "the argument '%s' is given twice", t.text)
		}
		p.pos += 2
		a.names = append(a.names, t.text)
		a.named = append(a.named, p.expression())
	default:
		if a.star != nil || len(a.names) > 0 {
			failAt(t.offset, "arguments of a call are in the wrong order")
		}
		a.pos = append(a.pos, p.expression())
	}
}
