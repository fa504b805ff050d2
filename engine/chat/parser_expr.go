package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

// dotted parses the name of a filter or test.
func (p *parser) dotted() (token, error) {
	name, err := p.expectName()
	for err == nil && p.takeOp(".") {
		var part token
		part, err = p.expectName()
		name.text += "." + part.text
	}
	return name, err
}

func (p *parser) filter(value expr) (*filterExpr, error) {
	name, err := p.dotted()
	if err != nil {
		return nil, err
	}
	f := &filterExpr{at: at(name.offset), value: value, name: name.text}
	if p.isOp("(") {
		f.args, err = p.args()
	}
	return f, err
}

// test parses what follows "is". An argument may stand without parentheses: x is divisibleby 3.
func (p *parser) test(where at, value expr) (expr, error) {
	negated := p.takeWord("not")
	name, err := p.dotted()
	if err != nil {
		return nil, err
	}
	t := &testExpr{at: where, value: value, name: name.text}
	switch next := p.cur(); {
	case p.isOp("("):
		t.args, err = p.args()
	case p.isWord("is"):
		return nil, errAt(next.offset, errors.New("tests cannot be chained with is"))
	case next.kind == tokName && (next.text == "else" || next.text == "or" || next.text == "and"):
	case next.kind == tokName || next.kind == tokString || next.kind == tokNumber || p.isOp("[") || p.isOp("{"):
		var arg expr
		arg, err = p.unary(false)
		t.args.pos = []expr{arg}
	}
	if err != nil {
		return nil, err
	}
	if negated {
		return &notExpr{t}, nil
	}
	return t, nil
}

func (p *parser) attribute(where at, object expr) (expr, error) {
	t := p.cur()
	if t.kind == tokName {
		p.pos++
		return &attrExpr{where, object, t.text, isPlainKey(t.text)}, nil
	}
	if n, ok := t.value.(int64); ok && t.kind == tokNumber {
		p.pos++
		return &itemExpr{where, object, &constExpr{n}}, nil
	}
	return nil, p.fail("a name or a number")
}

func (p *parser) subscript(where at, object expr) (expr, error) {
	p.next()
	s := &sliceExpr{at: where, object: object}
	var key expr
	var err error
	if !p.isOp(":") {
		if key, err = p.expression(); err != nil {
			return nil, err
		}
	}
	switch {
	case p.isOp(","):
		items := []expr{key}
		for p.takeOp(",") && !p.isOp("]") {
			item, err := p.expression()
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		return &itemExpr{where, object, &tupleExpr{items}}, p.expectOp("]")
	case !p.takeOp(":"):
		return &itemExpr{where, object, key}, p.expectOp("]")
	}
	s.start = key
	if !p.isOp(":") && !p.isOp("]") {
		if s.stop, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if p.takeOp(":") && !p.isOp("]") {
		if s.step, err = p.expression(); err != nil {
			return nil, err
		}
	}
	return s, p.expectOp("]")
}

func (p *parser) primary() (expr, error) {
	t := p.cur()
	switch {
	case t.kind == tokName:
		p.pos++
		switch t.text {
		case "true", "True":
			return &constExpr{true}, nil
		case "false", "False":
			return &constExpr{false}, nil
		case "none", "None":
			return &constExpr{nil}, nil
		}
		return &nameExpr{at: at(t.offset), name: t.text}, nil
	case t.kind == tokString:
		return &constExpr{p.strings()}, nil
	case t.kind == tokNumber:
		p.pos++
		return &constExpr{t.value}, nil
	case p.takeOp("("):
		items, isTuple, err := p.items(p.expression, "")
		if err == nil {
			err = p.expectOp(")")
		}
		if isTuple || len(items) == 0 {
			return &tupleExpr{items}, err
		}
		return items[0], err
	case p.takeOp("["):
		return p.list()
	case p.takeOp("{"):
		return p.dict(at(t.offset))
	}
	return nil, p.fail("an expression")
}

// strings joins string literals that stand side by side.
func (p *parser) strings() string {
	s := p.next().text
	if p.cur().kind != tokString {
		return s
	}
	var b strings.Builder
	b.WriteString(s)
	for p.cur().kind == tokString {
		b.WriteString(p.next().text)
	}
	return b.String()
}

func (p *parser) list() (expr, error) {
	l := &listExpr{}
	for !p.takeOp("]") {
		if len(l.items) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.takeOp("]") {
				break
			}
		}
		item, err := p.expression()
		if err != nil {
			return nil, err
		}
		l.items = append(l.items, item)
	}
	return l, nil
}

func (p *parser) dict(where at) (expr, error) {
	d := &dictExpr{at: where}
	for !p.takeOp("}") {
		if len(d.keys) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.takeOp("}") {
				break
			}
		}
		key, err := p.expression()
		if err == nil {
			err = p.expectOp(":")
		}
		if err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		d.keys = append(d.keys, key)
		d.values = append(d.values, value)
	}
	return d, nil
}

// args parses the arguments of a call, with their parentheses.
func (p *parser) args() (argExprs, error) {
	var a argExprs
	p.next()
	for first := true; !p.takeOp(")"); first = false {
		if !first {
			if err := p.expectOp(","); err != nil {
				return a, err
			}
			if p.takeOp(")") {
				break
			}
		}
		if err := p.arg(&a); err != nil {
			return a, err
		}
	}
	return a, nil
}

func (p *parser) arg(a *argExprs) error {
	t := p.cur()
	misplaced := errAt(t.offset, errors.New("arguments of a call are in the wrong order"))
	var err error
	switch {
	case p.takeOp("*"):
		if a.star != nil || a.starNamed != nil {
			return misplaced
		}
		a.star, err = p.expression()
	case p.takeOp("**"):
		if a.starNamed != nil {
			return misplaced
		}
		a.starNamed, err = p.expression()
	case t.kind == tokName && p.ahead().kind == tokOp && p.ahead().text == "=":
		if a.starNamed != nil {
			return misplaced
		}
		if slices.Contains(a.names, t.text) {
			return errAt(t.offset, fmt.Errorf("the argument '%s' is given twice", t.text))
		}
		p.pos += 2
		var value expr
		value, err = p.expression()
		a.names = append(a.names, t.text)
		a.named = append(a.named, value)
	default:
		if a.star != nil || a.starNamed != nil || len(a.names) > 0 {
			return misplaced
		}
		var value expr
		value, err = p.expression()
		a.pos = append(a.pos, value)
	}
	return err
}
