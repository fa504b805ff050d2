package where

import (
	"strconv"
	"strings"

	"github.com/expr-lang/expr/parser/lexer"
)

// constant returns the expression of a value in the source.
func constant(v any, at int) expr {
	e := expr{static: static{kind: kindOf(v)}, at: at, run: func(*frame) any { return v }}
	switch v.(type) {
	case string, int:
		e.literal = v
	}
	return e
}

func (p *parser) number(token lexer.Token) expr {
	value := strings.ReplaceAll(token.Value, "_", "")
	lower, base, name := strings.ToLower(value), 10, "integer"
	switch {
	case strings.HasPrefix(lower, "0x"):
		base, name = 0, "hex"
	case strings.ContainsAny(lower, ".e"):
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			p.stop(p.current.From, "invalid float literal: %v", err)
		}
		return constant(v, token.From)
	case strings.HasPrefix(lower, "0b"):
		base, name = 0, "binary"
	case strings.HasPrefix(lower, "0o"):
		base, name = 0, "octal"
	}
	v, err := strconv.ParseInt(value, base, 64)
	if err != nil {
		p.stop(p.current.From, "invalid %s literal: %v", name, err)
	}
	return constant(int(v), token.From)
}

// separated reads expressions with commas between them, up to a closing bracket.
func (p *parser) separated(end string, read func()) {
	for first := true; !p.bracket(end); first = false {
		if !first {
			if p.expect(lexer.Operator, ","); p.bracket(end) {
				break
			}
		}
		read()
	}
	p.next()
}

func (p *parser) array(at int) expr {
	p.next()
	var all []expr
	p.separated("]", func() { all = append(all, p.expression(0)) })
	of := static{kind: list}
	for i, e := range all {
		if i == 0 {
			of.elem = e.kind
		} else if of.elem != e.kind {
			of.elem = unknown
		}
	}
	return expr{static: of, at: at, run: func(f *frame) any {
		made := make([]any, len(all))
		for i, e := range all {
			made[i] = e.run(f)
		}
		f.at = at
		f.use(len(all))
		return made
	}}
}

func (p *parser) object(at int) expr {
	p.next()
	var keys, values []expr
	p.separated("}", func() {
		var key expr
		switch token := p.current; {
		case p.is(lexer.Number), p.is(lexer.String), p.is(lexer.Identifier):
			key = constant(token.Value, token.From)
			p.next()
		case p.bracket("("):
			key = p.expression(0)
		default:
			p.stop(token.From, "a map key must be a quoted string, a number, a identifier, or an expression enclosed in parentheses (unexpected token %v)", token)
		}
		p.expect(lexer.Operator, ":")
		keys, values = append(keys, key), append(values, p.expression(0))
	})
	return expr{static: static{kind: object}, at: at, run: func(f *frame) any {
		made := make(map[string]any, len(keys))
		for i, key := range keys {
			name := key.run(f)
			value := values[i].run(f)
			f.at = at
			key := textOf(name, "as a map key")
			if _, taken := made[key]; !taken {
				made[key] = value
			}
		}
		f.use(len(keys))
		return made
	}}
}
