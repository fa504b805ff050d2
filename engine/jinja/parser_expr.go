package jinja

import (
	"slices"
	"strings"
)

func (p *parser) expression() expr {
	p.enter()
	defer p.leave()
	value := p.or()
	for n := 0; p.take("if"); n++ {
		p.link(n)
		c := &condExpr{value: value, test: p.or()}
		if p.take("else") {
			c.other = p.expression()
		}
		value = c
	}
	return value
}

// tuple parses an expression, or several expressions separated by commas, which form a tuple. If
// conditionals is false, the word "if" ends the tuple, as in the head of a loop. The parameter end
// is another word that ends the tuple; "" for none.
func (p *parser) tuple(conditionals bool, end string) expr {
	item := p.or
	if conditionals {
		item = p.expression
	}
	items, isTuple := p.items(item, end)
	if isTuple {
		return &tupleExpr{operands{items}}
	}
	if len(items) == 0 {
		p.fail("an expression")
	}
	return items[0]
}

// items parses expressions that are separated by commas, up to the end of the tag, a closing
// parenthesis or the word that the parameter end gives ("" for none). isTuple reports whether there
// is a comma.
func (p *parser) items(item func() expr, end string) (items []expr, isTuple bool) {
	for {
		if p.is("}}") || p.is("%}") || p.is(")") || end != "" && p.is(end) {
			return items, isTuple
		}
		items = append(items, item())
		if !p.take(",") {
			return items, isTuple
		}
		isTuple = true
	}
}

// chain parses operands with operators of one precedence between them, from left to right. The
// function operator consumes and returns the next operator, or returns "" if there is none. join
// makes the expression of an operator and its two operands.
func (p *parser) chain(operand func() expr, operator func() string, join func(at at, op string, left, right expr) expr) expr {
	left := operand()
	for n := 0; ; n++ {
		where := p.at()
		op := operator()
		if op == "" {
			return left
		}
		p.link(n)
		left = join(where, op, left, operand())
	}
}

func (p *parser) oneOf(ops ...string) func() string {
	return func() string {
		if t := p.cur(); slices.ContainsFunc(ops, p.is) {
			p.pos++
			return t.text
		}
		return ""
	}
}

func binary(at at, op string, left, right expr) expr { return &binaryExpr{at, op, left, right} }

func (p *parser) logic(word string, operand func() expr) expr {
	return p.chain(operand, p.oneOf(word), func(_ at, op string, left, right expr) expr {
		return &logicExpr{op == "and", operands{[]expr{left, right}}}
	})
}

func (p *parser) or() expr  { return p.logic("or", p.and) }
func (p *parser) and() expr { return p.logic("and", p.not) }

func (p *parser) not() expr {
	if !p.take("not") {
		return p.compare()
	}
	p.enter()
	defer p.leave()
	return &notExpr{operands{[]expr{p.not()}}}
}

func (p *parser) compare() expr {
	c := &compareExpr{operands: operands{[]expr{p.sum()}}}
	c.at = p.at()
	for {
		op := p.oneOf("==", "!=", "<", "<=", ">", ">=", "in")()
		switch {
		case op != "":
		case p.is("not") && p.ahead().text == "in" && p.ahead().kind == tokName:
			p.pos += 2
			op = "not in"
		case len(c.ops) == 0:
			return c.items[0]
		default:
			return c
		}
		c.ops = append(c.ops, op)
		c.items = append(c.items, p.sum())
	}
}

func (p *parser) sum() expr { return p.chain(p.concat, p.oneOf("+", "-"), binary) }

func (p *parser) concat() expr {
	first := p.product()
	if !p.is("~") {
		return first
	}
	c := &concatExpr{p.at(), operands{[]expr{first}}}
	for p.take("~") {
		c.items = append(c.items, p.product())
	}
	return c
}

func (p *parser) product() expr {
	e := p.chain(func() expr { return p.unary(true) }, p.oneOf("*", "/", "//", "%"), binary)
	if p.is("**") {
		refuse(p.cur().offset, "the operator ** is")
	}
	return e
}

// unary parses a primary expression with its signs and postfixes. If filters is set, it also parses
// the filters and tests that follow. They apply to the signed value: -1|abs is (-1)|abs.
func (p *parser) unary(filters bool) expr {
	p.enter()
	defer p.leave()
	where := p.at()
	var e expr
	if op := p.oneOf("-", "+")(); op != "" {
		e = &signExpr{where, op, operands{[]expr{p.unary(false)}}}
	} else {
		e = p.primary()
	}
	for n := 0; ; n++ {
		p.link(n)
		switch where := p.at(); {
		case p.take("."):
			e = p.attribute(where, e)
		case p.is("["):
			e = p.subscript(where, e)
		case p.is("("):
			e = p.call(where, e)
		default:
			if !filters {
				return e
			}
			return p.filters(e)
		}
	}
}

func (p *parser) filters(e expr) expr {
	for n := 0; ; n++ {
		p.link(n)
		switch where := p.at(); {
		case p.take("|"):
			e = p.filter(e)
		case p.take("is"):
			e = p.test(where, e)
		case p.is("("):
			e = p.call(where, e)
		default:
			return e
		}
	}
}

func (p *parser) filter(value expr) *filterExpr {
	name := p.expectName()
	refuseName("filter", name, refusedFilters)
	f := &filterExpr{at: at(name.offset), kind: "filter", value: value, name: name.text}
	if p.is("(") {
		f.args = p.args()
	}
	return f
}

// test parses the text after "is". An argument need not be in parentheses: x is divisibleby 3.
func (p *parser) test(where at, value expr) expr {
	negated := p.take("not")
	name := p.expectName()
	refuseName("test", name, refusedTests)
	t := &filterExpr{at: where, kind: "test", value: value, name: name.text}
	switch next := p.cur(); {
	case p.is("("):
		t.args = p.args()
	case p.is("is"):
		failAt(next.offset, "a second 'is' cannot follow a test; join the tests with 'and'")
	case p.is("else") || p.is("or") || p.is("and"):
	case next.kind == tokName || next.kind == tokString || next.kind == tokNumber || p.is("[") || p.is("{"):
		t.args.pos = []expr{p.unary(false)}
	}
	if negated {
		return &notExpr{operands{[]expr{t}}}
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
	if !p.is(":") {
		key = p.expression()
	}
	switch {
	case p.is(","):
		refuse(p.cur().offset, "a tuple as a key is")
	case !p.take(":"):
		p.expect("]")
		return &itemExpr{where, object, key}
	}
	s := &sliceExpr{where, operands{[]expr{object, key, nil, nil}}}
	if !p.is(":") && !p.is("]") {
		s.items[2] = p.expression()
	}
	if p.take(":") && !p.is("]") {
		s.items[3] = p.expression()
	}
	p.expect("]")
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
	case p.take("("):
		items, isTuple := p.items(p.expression, "")
		p.expect(")")
		if isTuple || len(items) == 0 {
			return &tupleExpr{operands{items}}
		}
		return items[0]
	case p.take("["):
		l := &listExpr{}
		p.separated("]", func() { l.items = append(l.items, p.expression()) })
		return l
	case p.take("{"):
		d := &dictExpr{at: at(t.offset)}
		p.separated("}", func() {
			key := p.expression()
			p.expect(":")
			d.items = append(d.items, key, p.expression())
		})
		return d
	}
	p.fail("an expression")
	return nil
}

// separated parses items that are separated by commas, and the closing bracket after them, which
// the parameter end gives. There may be a comma before the bracket.
func (p *parser) separated(end string, item func()) {
	for first := true; !p.take(end); first = false {
		if !first {
			p.expect(",")
			if p.take(end) {
				return
			}
		}
		item()
	}
}

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

func (p *parser) args() argExprs {
	var a argExprs
	p.next()
	p.separated(")", func() { p.arg(&a) })
	return a
}

func (p *parser) arg(a *argExprs) {
	t := p.cur()
	isNamed := t.kind == tokName && p.ahead().kind == tokOp && p.ahead().text == "="
	isPlain := !isNamed && !p.is("*") && !p.is("**")
	if a.starNamed != nil || a.star != nil && (isPlain || p.is("*")) || len(a.names) > 0 && isPlain {
		failAt(t.offset, "this argument is in the wrong position: the order is arguments without names, named arguments, *list, **dictionary")
	}
	switch {
	case p.take("**"):
		a.starNamed = p.expression()
	case p.take("*"):
		a.star = p.expression()
	case isNamed:
		if slices.Contains(a.names, t.text) {
			failAt(t.offset, "the argument '%s' is given twice", t.text)
		}
		p.pos += 2
		a.names = append(a.names, t.text)
		a.named = append(a.named, p.expression())
	default:
		a.pos = append(a.pos, p.expression())
	}
}
