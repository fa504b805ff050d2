package jinja

import "slices"

// expression parses one expression, which may be a conditional one.
func (p *parser) expression() expr {
	p.enter()
	defer p.leave()
	value := p.or()
	for n := 0; p.takeWord("if"); n++ {
		p.link(n)
		c := &condExpr{value: value, test: p.or()}
		if p.takeWord("else") {
			c.other = p.expression()
		}
		value = c
	}
	return value
}

// tuple parses an expression, or several with commas between them, which are a tuple. Without conditionals, "if" ends
// it, as in the head of a loop. The word end, if not empty, ends it too.
func (p *parser) tuple(conditionals bool, end string) expr {
	item := p.or
	if conditionals {
		item = p.expression
	}
	items, isTuple := p.items(item, end)
	if isTuple {
		return &tupleExpr{items}
	}
	if len(items) == 0 {
		p.fail("an expression")
	}
	return items[0]
}

// items parses expressions with commas between them. It is a tuple if there is a comma.
func (p *parser) items(item func() expr, end string) (items []expr, isTuple bool) {
	for {
		if k := p.cur().kind; k == tokPrintEnd || k == tokBlockEnd || p.isOp(")") || end != "" && p.isWord(end) {
			return items, isTuple
		}
		items = append(items, item())
		if !p.takeOp(",") {
			return items, isTuple
		}
		isTuple = true
	}
}

// chain parses operands of one precedence from left to right. operator takes an operator, or returns "".
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

// oneOf returns a function that takes one of the given operators.
func (p *parser) oneOf(ops ...string) func() string {
	return func() string {
		if t := p.cur(); t.kind == tokOp && slices.Contains(ops, t.text) {
			p.pos++
			return t.text
		}
		return ""
	}
}

func binary(at at, op string, left, right expr) expr { return &binaryExpr{at, op, left, right} }

func (p *parser) logic(word string, operand func() expr) expr {
	take := func() string {
		if p.takeWord(word) {
			return word
		}
		return ""
	}
	return p.chain(operand, take, func(_ at, op string, left, right expr) expr {
		return &logicExpr{op == "and", left, right}
	})
}

func (p *parser) or() expr  { return p.logic("or", p.and) }
func (p *parser) and() expr { return p.logic("and", p.not) }

func (p *parser) not() expr {
	if !p.takeWord("not") {
		return p.compare()
	}
	p.enter()
	defer p.leave()
	return &notExpr{p.not()}
}

func (p *parser) compare() expr {
	first := p.sum()
	c := &compareExpr{at: p.at(), first: first}
	for {
		op := p.oneOf("==", "!=", "<", "<=", ">", ">=")()
		switch {
		case op != "":
		case p.takeWord("in"):
			op = "in"
		case p.isWord("not") && p.ahead().kind == tokName && p.ahead().text == "in":
			p.pos += 2
			op = "not in"
		case len(c.ops) == 0:
			return first
		default:
			return c
		}
		c.ops = append(c.ops, op)
		c.rest = append(c.rest, p.sum())
	}
}

func (p *parser) sum() expr { return p.chain(p.concat, p.oneOf("+", "-"), binary) }

func (p *parser) concat() expr {
	first := p.product()
	if !p.isOp("~") {
		return first
	}
	c := &concatExpr{p.at(), []expr{first}}
	for p.takeOp("~") {
		c.items = append(c.items, p.product())
	}
	return c
}

func (p *parser) product() expr {
	e := p.chain(func() expr { return p.unary(true) }, p.oneOf("*", "/", "//", "%"), binary)
	if p.isOp("**") {
		refuse(p.cur().offset, "the operator ** is")
	}
	return e
}

// unary parses a sign or a primary with its postfixes. Filters and tests bind to the signed value: -1|abs is (-1)|abs.
func (p *parser) unary(filters bool) expr {
	p.enter()
	defer p.leave()
	where := p.at()
	var e expr
	if op := p.oneOf("-", "+")(); op != "" {
		e = &unaryExpr{where, op, p.unary(false)}
	} else {
		e = p.primary()
	}
	for n := 0; ; n++ {
		p.link(n)
		switch where := p.at(); {
		case p.takeOp("."):
			e = p.attribute(where, e)
		case p.isOp("["):
			e = p.subscript(where, e)
		case p.isOp("("):
			e = p.call(where, e)
		default:
			if !filters {
				return e
			}
			return p.filters(e)
		}
	}
}

// filters parses what may follow a value and its postfixes.
func (p *parser) filters(e expr) expr {
	for n := 0; ; n++ {
		p.link(n)
		switch where := p.at(); {
		case p.takeOp("|"):
			e = p.filter(e)
		case p.takeWord("is"):
			e = p.test(where, e)
		case p.isOp("("):
			e = p.call(where, e)
		default:
			return e
		}
	}
}
