package where

import (
	"errors"
	"fmt"
	"slices"

	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser/lexer"
	"github.com/expr-lang/expr/parser/operator"
	"github.com/expr-lang/expr/parser/utils"
)

// expr is a parsed expression with the code that computes it.
type expr struct {
	static
	at      int // place in the source, in runes
	run     func(*frame) any
	literal any              // value of a text or an integer in the source; nil for other expressions
	record  bool             // $env
	open    func(*frame) any // for an expression with ?.: run without the end of the chain
}

// parser compiles an expression in one pass. The grammar and the messages are those of package
// parser and package checker of expr-lang.org.
type parser struct {
	*Condition
	columns  []string
	lexer    *lexer.Lexer
	current  lexer.Token
	after    *lexer.Token // token after current, if it was read already
	scopes   []variable
	loops    []static // lists of the predicates around the current place
	pointers [][]string
	nodes    int
	refused  *syntaxError // first wrong type or unknown name
}

type variable struct {
	name string
	static
	slot int
}

// syntaxError is the panic with which parsing ends.
type syntaxError struct {
	at      int
	message string
}

func (p *parser) stop(at int, format string, args ...any) {
	panic(&syntaxError{at, fmt.Sprintf(format, args...)})
}

// refuse records the first error of types or names. An error of the syntax has priority over it.
func (p *parser) refuse(at int, format string, args ...any) expr {
	if p.refused == nil {
		p.refused = &syntaxError{at, fmt.Sprintf(format, args...)}
	}
	return expr{at: at} // it never runs
}

func (p *parser) node() {
	if p.nodes++; p.nodes > maxNodes {
		p.stop(p.current.From, "compilation failed: expression exceeds maximum allowed nodes")
	}
}

func (p *parser) next() {
	if p.after != nil {
		p.current, p.after = *p.after, nil
		return
	}
	token, err := p.lexer.Next()
	var wrong *file.Error
	switch {
	case errors.As(err, &wrong):
		p.stop(wrong.From, "%s", wrong.Message)
	case err != nil: // io.EOF
		p.stop(p.current.From, "unexpected end of expression")
	}
	p.current = token
}

func (p *parser) is(k lexer.Kind, values ...string) bool { return p.current.Is(k, values...) }

func (p *parser) operator(name string) bool { return p.is(lexer.Operator, name) }

func (p *parser) bracket(name string) bool { return p.is(lexer.Bracket, name) }

func (p *parser) unexpected() { p.stop(p.current.From, "unexpected token %v", p.current) }

func (p *parser) expect(k lexer.Kind, values ...string) lexer.Token {
	if !p.is(k, values...) {
		p.unexpected()
	}
	token := p.current
	if k != lexer.EOF {
		p.next()
	}
	return token
}

// skip reads the operator or bracket if it is next.
func (p *parser) skip(k lexer.Kind, value string) bool {
	if !p.is(k, value) {
		return false
	}
	p.next()
	return true
}

// sequence reads expressions with semicolons between them. The value is that of the last one.
func (p *parser) sequence() expr {
	all := []expr{p.expression(0)}
	for p.skip(lexer.Operator, ";") && !p.is(lexer.EOF) {
		all = append(all, p.expression(0))
	}
	last := all[len(all)-1]
	if len(all) == 1 {
		return last
	}
	return expr{static: last.static, at: all[0].at, run: func(f *frame) (v any) {
		for _, e := range all {
			v = e.run(f)
		}
		return v
	}}
}

func (p *parser) expression(precedence int) expr {
	if precedence == 0 && p.operator("let") {
		return p.declaration()
	}
	if precedence == 0 && p.operator("if") {
		return p.conditional()
	}
	left := p.primary()
	for before := ""; p.is(lexer.Operator); {
		token := p.current
		negated := p.operator("not")
		if negated {
			p.next()
			if !operator.AllowedNegateSuffix(p.current.Value) {
				p.unexpected()
			}
			if follows := p.current; operator.Binary[follows.Value].Precedence < precedence {
				p.current, p.after = token, &follows // the expression ends, since not is no binary operator
			}
			token = p.current
		}
		op, ok := operator.Binary[token.Value]
		if !ok || op.Precedence < precedence {
			break
		}
		p.next()
		switch {
		case token.Value == "|":
			left = p.call(p.expect(lexer.Identifier), []expr{left})
		case before == "??" && token.Value != "??":
			p.stop(token.From, "Operator (%v) and coalesce expressions (??) cannot be mixed. Wrap either by parentheses.", token.Value)
		case operator.IsComparison(token.Value):
			left = p.comparison(left, token, op.Precedence)
		default:
			next := op.Precedence
			if op.Associativity == operator.Left {
				next++
			}
			left = p.binary(token.Value, left, p.expression(next), token.From)
			if negated {
				left = p.unary("not", left, token.From)
			}
		}
		before = token.Value
	}
	if precedence == 0 {
		for p.operator("?") {
			left = p.ternary(left)
		}
	}
	return left
}

// comparison reads a chain of comparisons: 1 < x < 3 is 1 < x and x < 3.
func (p *parser) comparison(left expr, token lexer.Token, precedence int) expr {
	var all *expr
	for {
		right := p.expression(precedence + 1)
		one := p.binary(token.Value, left, right, token.From)
		if all != nil {
			one = p.binary("&&", *all, one, token.From)
		}
		if token = p.current; !token.Is(lexer.Operator) || !operator.IsComparison(token.Value) {
			return one
		}
		all, left = &one, right
		p.next()
	}
}

func (p *parser) declaration() expr {
	p.next()
	name := p.expect(lexer.Identifier)
	p.expect(lexer.Operator, "=")
	value := p.expression(0)
	p.expect(lexer.Operator, ";")
	_, builtin := functions[name.Value]
	switch {
	case slices.Contains(p.columns, name.Value):
		p.refuse(name.From, "cannot redeclare %v", name.Value)
	case builtin || predicates[name.Value] != nil:
		p.refuse(name.From, "cannot redeclare builtin %v", name.Value)
	case slices.ContainsFunc(p.scopes, func(v variable) bool { return v.name == name.Value }):
		p.refuse(name.From, "cannot redeclare variable %v", name.Value)
	}
	slot := p.vars
	p.vars++
	p.scopes = append(p.scopes, variable{name.Value, value.static, slot})
	body := p.sequence()
	p.scopes = p.scopes[:len(p.scopes)-1]
	return expr{static: body.static, at: name.From, run: func(f *frame) any {
		f.vars[slot] = value.run(f)
		return body.run(f)
	}}
}

func (p *parser) block() expr {
	p.expect(lexer.Bracket, "{")
	e := p.sequence()
	p.expect(lexer.Bracket, "}")
	return e
}

func (p *parser) conditional() expr {
	p.next()
	condition := p.expression(0)
	yes := p.block()
	p.expect(lexer.Operator, "else")
	if p.operator("if") {
		return p.choice(condition, yes, p.conditional())
	}
	return p.choice(condition, yes, p.block())
}

// ternary reads what follows a ? or ?:.
func (p *parser) ternary(condition expr) expr {
	p.next()
	if p.skip(lexer.Operator, ":") {
		return p.choice(condition, condition, p.expression(0))
	}
	yes := p.expression(0)
	p.expect(lexer.Operator, ":")
	return p.choice(condition, yes, p.expression(0))
}

func (p *parser) primary() expr {
	p.node()
	token := p.current
	if op, ok := operator.Unary[token.Value]; ok && p.is(lexer.Operator) {
		p.next()
		return p.postfix(p.unary(token.Value, p.expression(op.Precedence), token.From))
	}
	if p.skip(lexer.Bracket, "(") {
		e := p.sequence()
		p.expect(lexer.Bracket, ")")
		return p.postfix(e)
	}
	if len(p.loops) > 0 && (p.operator("#") || p.operator(".")) {
		name := ""
		if p.skip(lexer.Operator, "#") && p.is(lexer.Identifier) {
			name = p.current.Value
			p.next()
		}
		return p.postfix(p.pointer(name, token.From))
	}
	if p.skip(lexer.Operator, "::") {
		return p.postfix(p.call(p.expect(lexer.Identifier), nil))
	}
	switch token.Kind {
	case lexer.Identifier:
		p.next()
		switch value, ok := map[string]any{"true": true, "false": false, "nil": nil}[token.Value]; {
		case ok:
			return constant(value, token.From)
		case p.bracket("("):
			return p.postfix(p.call(token, nil))
		}
		return p.postfix(p.identifier(token))
	case lexer.Number:
		p.next()
		return p.number(token)
	case lexer.String:
		p.next()
		return p.postfix(constant(token.Value, token.From))
	case lexer.Bytes:
		p.next()
		return p.postfix(constant([]byte(token.Value), token.From))
	}
	switch {
	case p.bracket("["):
		return p.postfix(p.array(token.From))
	case p.bracket("{"):
		return p.postfix(p.object(token.From))
	}
	p.unexpected()
	return expr{}
}

// postfix reads members, indices, slices and calls of methods after an expression.
func (p *parser) postfix(e expr) expr {
	for {
		optional := p.operator("?.")
		switch {
		case optional || p.operator("."):
			p.next()
			if optional && p.bracket("[") {
				e = p.index(e, true)
				continue
			}
			e = p.property(e, optional)
		case p.bracket("["):
			e = p.index(e, false)
		default:
			return e
		}
	}
}

// property reads the name after a dot, and the arguments if it is called.
func (p *parser) property(e expr, optional bool) expr {
	name := p.current
	if name.Kind != lexer.Identifier && (name.Kind != lexer.Operator || !utils.IsValidIdentifier(name.Value)) {
		p.next()
		p.stop(p.current.From, "expected name")
	}
	p.next()
	chained := optional || e.open != nil
	if e.open != nil {
		e.run = e.open
	}
	if p.bracket("(") {
		e = p.method(e, name, p.arguments(nil), optional)
	} else {
		e = p.member(e, constant(name.Value, name.From), optional, name.From)
	}
	if chained {
		return closed(e)
	}
	return e
}

// index reads [i] or a slice such as [1:].
func (p *parser) index(e expr, optional bool) expr {
	at := p.current.From
	p.next()
	var from, to *expr
	if !p.operator(":") {
		i := p.expression(0)
		from = &i
	}
	if !p.skip(lexer.Operator, ":") {
		p.expect(lexer.Bracket, "]")
		e = p.member(e, *from, optional, at)
		if optional {
			return closed(e)
		}
		return e
	}
	if !p.bracket("]") {
		i := p.expression(0)
		to = &i
	}
	p.expect(lexer.Bracket, "]")
	return p.slice(e, from, to, at)
}

// arguments reads the arguments of a call after those that come from a pipe.
func (p *parser) arguments(all []expr) []expr {
	p.expect(lexer.Bracket, "(")
	p.separated(")", func() { all = append(all, p.expression(0)) })
	return all
}
