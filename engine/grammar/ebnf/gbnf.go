package ebnf

import (
	"github.com/ingot-run/ingot/engine/grammar/pattern"
)

// gbnfRules reads rules of the form name ::= expression.
func (p *parser) gbnfRules() error {
	for {
		p.space(true)
		if p.pos >= len(p.text) {
			return nil
		}
		d := &Definition{Offset: p.pos}
		if d.Name = p.name(); d.Name == "" {
			return p.fail("the name of a rule is expected")
		}
		if p.space(true); !p.take("::=") {
			return p.fail("::= is expected after the name of a rule")
		}
		p.space(true)
		var err error
		if d.Body, err = p.choice(); err != nil {
			return err
		}
		if c := p.peek(); c != 0 && c != '\n' {
			return p.fail("%q is not expected here", c)
		}
		if err := p.define(d); err != nil {
			return err
		}
	}
}

// class reads a class of characters, whose escapes are among those of regular expressions.
func (p *parser) class() (*Expr, error) {
	start := p.pos
	for p.pos++; p.pos < len(p.text) && p.text[p.pos] != '\n'; p.pos++ {
		switch p.text[p.pos] {
		case '\\':
			p.pos++
		case ']':
			p.pos++
			return p.new(Expr{Kind: Regex, Text: p.text[start:p.pos], Syntax: pattern.ECMA, Offset: start})
		}
	}
	return nil, p.failAt(start, "a bracket is not closed")
}
