package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

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
