package jinja

import (
	"fmt"
	"slices"
)

// expression parses one expression, which may be a conditional one.
func (p *parser) expression() (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	value, err := p.or()
	if err != nil {
		return nil, err
	}
	for n := 0; p.takeWord("if"); n++ {
		if n > maxChain {
			return nil, p.tooLong()
		}
		c := &condExpr{value: value}
		if c.test, err = p.or(); err != nil {
			return nil, err
		}
		if p.takeWord("else") {
			if c.other, err = p.expression(); err != nil {
				return nil, err
			}
		}
		value = c
	}
	return value, nil
}

// tuple parses an expression, or several with commas between them, which are a tuple. Without conditionals, "if" ends
// it, as in the head of a loop. The word end, if not empty, ends it too.
func (p *parser) tuple(conditionals bool, end string) (expr, error) {
	one := p.or
	if conditionals {
		one = p.expression
	}
	items, isTuple, err := p.items(one, end)
	if err != nil {
		return nil, err
	}
	if isTuple {
		return &tupleExpr{items}, nil
	}
	if len(items) == 0 {
		return nil, p.fail("an expression")
	}
	return items[0], nil
}

// items parses expressions with commas between them. It is a tuple if there is a comma.
func (p *parser) items(one func() (expr, error), end string) (items []expr, isTuple bool, err error) {
	for {
		if k := p.cur().kind; k == tokPrintEnd || k == tokBlockEnd || p.isOp(")") || end != "" && p.isWord(end) {
			return items, isTuple, nil
		}
		item, err := one()
		if err != nil {
			return nil, false, err
		}
		items = append(items, item)
		if !p.takeOp(",") {
			return items, isTuple, nil
		}
		isTuple = true
	}
}

func (p *parser) tooLong() error {
	return errAt(p.cur().offset, fmt.Errorf("an expression has more than %d parts in a row", maxChain))
}

// chain parses operands of one precedence from left to right. operator takes an operator, or returns "".
func (p *parser) chain(operand func() (expr, error), operator func() string,
	join func(at at, op string, left, right expr) expr) (expr, error) {
	left, err := operand()
	for n := 0; err == nil; n++ {
		where := p.at()
		op := operator()
		if op == "" {
			return left, nil
		}
		if n > maxChain {
			return nil, p.tooLong()
		}
		var right expr
		if right, err = operand(); err == nil {
			left = join(where, op, left, right)
		}
	}
	return nil, err
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

func (p *parser) logic(word string, operand func() (expr, error)) (expr, error) {
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

func (p *parser) or() (expr, error)  { return p.logic("or", p.and) }
func (p *parser) and() (expr, error) { return p.logic("and", p.not) }

func (p *parser) not() (expr, error) {
	if !p.takeWord("not") {
		return p.compare()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	e, err := p.not()
	return &notExpr{e}, err
}

func (p *parser) compare() (expr, error) {
	first, err := p.sum()
	if err != nil {
		return nil, err
	}
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
			return first, nil
		default:
			return c, nil
		}
		right, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.ops = append(c.ops, op)
		c.rest = append(c.rest, right)
	}
}

func (p *parser) sum() (expr, error) { return p.chain(p.concat, p.oneOf("+", "-"), binary) }

func (p *parser) concat() (expr, error) {
	first, err := p.product()
	if err != nil || !p.isOp("~") {
		return first, err
	}
	c := &concatExpr{p.at(), []expr{first}}
	for p.takeOp("~") {
		item, err := p.product()
		if err != nil {
			return nil, err
		}
		c.items = append(c.items, item)
	}
	return c, nil
}

func (p *parser) product() (expr, error) {
	return p.chain(p.power, p.oneOf("*", "/", "//", "%"), binary)
}

// power associates to the left, unlike Python's.
func (p *parser) power() (expr, error) {
	return p.chain(func() (expr, error) { return p.unary(true) }, p.oneOf("**"), binary)
}

// unary parses a sign or a primary with its postfixes. Filters and tests bind to the signed value: -1|abs is (-1)|abs.
func (p *parser) unary(filters bool) (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	where := p.at()
	var e expr
	var err error
	if op := p.oneOf("-", "+")(); op != "" {
		e, err = p.unary(false)
		e = &unaryExpr{where, op, e}
	} else {
		e, err = p.primary()
	}
	for n := 0; err == nil; n++ {
		if n > maxChain {
			return nil, p.tooLong()
		}
		switch where := p.at(); {
		case p.takeOp("."):
			e, err = p.attribute(where, e)
		case p.isOp("["):
			e, err = p.subscript(where, e)
		case p.isOp("("):
			c := &callExpr{at: where, fn: e}
			c.args, err = p.args()
			e = c
		default:
			if !filters {
				return e, nil
			}
			return p.filters(e)
		}
	}
	return nil, err
}

// filters parses what may follow a value and its postfixes.
func (p *parser) filters(e expr) (expr, error) {
	var err error
	for n := 0; err == nil; n++ {
		if n > maxChain {
			return nil, p.tooLong()
		}
		switch where := p.at(); {
		case p.takeOp("|"):
			e, err = p.filter(e)
		case p.takeWord("is"):
			e, err = p.test(where, e)
		case p.isOp("("):
			c := &callExpr{at: where, fn: e}
			c.args, err = p.args()
			e = c
		default:
			return e, nil
		}
	}
	return nil, err
}
