package jinja

import (
	"errors"
	"fmt"
	"slices"
)

func (p *parser) print(start at) ([]stmt, error) {
	var out []stmt
	for p.cur().kind != tokBlockEnd {
		if len(out) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		out = append(out, &printStmt{start, e})
	}
	return out, nil
}

func (p *parser) ifChain(start at) (*ifStmt, error) {
	first := &ifStmt{at: start}
	for s := first; ; {
		var err error
		if s.test, err = p.tuple(false, ""); err != nil {
			return nil, err
		}
		var end string
		if s.body, end, err = p.body("if", "elif", "else", "endif"); err != nil {
			return nil, err
		}
		switch end {
		case "elif":
			s = &ifStmt{at: p.at()}
			first.elifs = append(first.elifs, s)
		case "else":
			first.other, _, err = p.body("if", "endif")
			return first, err
		default:
			return first, nil
		}
	}
}

func (p *parser) forLoop(start at) (*forStmt, error) {
	s := &forStmt{at: start}
	var err error
	if s.target, err = p.target(p.primary, "in"); err != nil {
		return nil, err
	}
	if err := p.expectWord("in"); err != nil {
		return nil, err
	}
	if s.seq, err = p.tuple(false, "recursive"); err != nil {
		return nil, err
	}
	if p.takeWord("if") {
		if s.test, err = p.expression(); err != nil {
			return nil, err
		}
	}
	s.recursive = p.takeWord("recursive")
	p.loops++
	var end string
	s.body, end, err = p.body("for", "endfor", "else")
	p.loops--
	if err == nil && end == "else" {
		s.other, _, err = p.body("for", "endfor")
	}
	return s, err
}

func (p *parser) set(start at) (stmt, error) {
	target, err := p.target(p.setItem, "")
	if err != nil {
		return nil, err
	}
	if p.takeOp("=") {
		value, err := p.tuple(true, "")
		return &setStmt{start, target, value}, err
	}
	s := &setBlockStmt{at: start, target: target}
	if p.isOp("|") {
		if s.filter, err = p.blockFilter(); err != nil {
			return nil, err
		}
	}
	s.body, _, err = p.body("set", "endset")
	return s, err
}

// blockFilter parses | filter | filter, where the first | may be missing.
func (p *parser) blockFilter() (*filterExpr, error) {
	p.takeOp("|")
	var f *filterExpr
	for n := 0; ; n++ {
		if n > maxChain {
			return nil, p.tooLong()
		}
		next, err := p.filter(nil)
		if err != nil {
			return nil, err
		}
		if f != nil {
			next.value = f
		}
		f = next
		if !p.takeOp("|") {
			return f, nil
		}
	}
}

func (p *parser) filterBlock(start at) (*filterStmt, error) {
	s := &filterStmt{at: start}
	var err error
	if s.filter, err = p.blockFilter(); err != nil {
		return nil, err
	}
	s.body, _, err = p.body("filter", "endfilter")
	return s, err
}

func (p *parser) with(start at) (*withStmt, error) {
	s := &withStmt{at: start}
	for p.cur().kind != tokBlockEnd {
		if len(s.targets) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		target, err := p.target(p.primary, "")
		if err != nil {
			return nil, err
		}
		if err := setUse(target, useParam); err != nil {
			return nil, err
		}
		if err := p.expectOp("="); err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		s.targets = append(s.targets, target)
		s.values = append(s.values, value)
	}
	var err error
	s.body, _, err = p.body("with", "endwith")
	return s, err
}

func (p *parser) macro(start at) (*macroStmt, error) {
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	s := &macroStmt{at: start, def: &macroDef{name: name.text}}
	s.target = &nameExpr{at: at(name.offset), name: name.text, use: useStore}
	if reserved(name.text) {
		return nil, errAt(name.offset, fmt.Errorf("can't assign to '%s'", name.text))
	}
	if err := p.signature(s.def); err != nil {
		return nil, err
	}
	s.def.body, err = p.macroBody("macro")
	return s, err
}

// macroBody parses the body of a macro or of a block that is called like one: loops outside of it are not its own.
func (p *parser) macroBody(word string) ([]stmt, error) {
	outside := p.loops
	p.loops = 0
	body, _, err := p.body(word, "end"+word)
	p.loops = outside
	return body, err
}

func (p *parser) signature(d *macroDef) error {
	if err := p.expectOp("("); err != nil {
		return err
	}
	for !p.takeOp(")") {
		if len(d.params) > 0 {
			if err := p.expectOp(","); err != nil {
				return err
			}
		}
		name, err := p.expectName()
		if err != nil {
			return err
		}
		param := &nameExpr{at: at(name.offset), name: name.text, use: useParam}
		if reserved(name.text) || slices.ContainsFunc(d.params, func(n *nameExpr) bool { return n.name == name.text }) {
			return errAt(name.offset, fmt.Errorf("'%s' cannot be a parameter here", name.text))
		}
		d.params = append(d.params, param)
		switch {
		case p.takeOp("="):
			value, err := p.expression()
			if err != nil {
				return err
			}
			d.defaults = append(d.defaults, value)
		case len(d.defaults) > 0:
			return errAt(name.offset, errors.New("a parameter without default follows one with a default"))
		}
	}
	return nil
}

func (p *parser) callBlock(start at) (*callStmt, error) {
	s := &callStmt{at: start, def: &macroDef{}}
	if p.isOp("(") {
		if err := p.signature(s.def); err != nil {
			return nil, err
		}
	}
	e, err := p.expression()
	if err != nil {
		return nil, err
	}
	var ok bool
	if s.call, ok = e.(*callExpr); !ok {
		return nil, errAt(int(start), errors.New("a call block needs a call"))
	}
	s.def.body, err = p.macroBody("call")
	return s, err
}
