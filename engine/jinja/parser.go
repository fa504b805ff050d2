package jinja

import (
	"slices"
	"strings"
)

// parser makes the tree of a template. Its methods are the rules of Jinja's grammar. The rules of
// statements are in this file, the rules of expressions in parser_expr.go.
type parser struct {
	tokens []token
	pos    int
	depth  int
	loops  int // number of loops around the current statement, not counting loops outside of its macro
}

func (p *parser) template() []stmt {
	body, end := p.statements("")
	if end.kind != tokEOF {
		failAt(end.offset, "found '%s', but no statement is open here", end.text)
	}
	return body
}

func (p *parser) cur() token { return p.tokens[p.pos] }

func (p *parser) ahead() token { return p.tokens[min(p.pos+1, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != tokEOF {
		p.pos++
	}
	return t
}

func (p *parser) is(text string) bool {
	t := p.cur()
	return t.text == text && (t.kind == tokName || t.kind == tokOp)
}

// take moves to the next token if the current one is the given word, operator or delimiter. It
// reports whether it did.
func (p *parser) take(text string) bool {
	if !p.is(text) {
		return false
	}
	p.pos++
	return true
}

func (p *parser) at() at { return at(p.cur().offset) }

func (p *parser) fail(want string) {
	t := p.cur()
	failAt(t.offset, "found %s where %s is expected", t.describe(), want)
}

func (p *parser) expect(text string) {
	if !p.take(text) {
		p.fail("'" + text + "'")
	}
}

func (p *parser) expectName() token {
	if p.cur().kind != tokName {
		p.fail("a name")
	}
	return p.next()
}

// enter adds a level of nested statements and expressions, and fails if there are too many. Each
// call needs a call of leave.
func (p *parser) enter() {
	if p.depth >= maxNesting {
		failAt(p.cur().offset, "statements or expressions are nested more than %d levels deep", maxNesting)
	}
	p.depth++
}

func (p *parser) leave() { p.depth-- }

// link is called for part n of an expression whose parts follow one another, as in a + b + c or
// x.a.b. It fails if there are too many.
func (p *parser) link(n int) {
	if n > maxChain {
		failAt(p.cur().offset, "an expression has more than %d parts in a row", maxChain)
	}
}

var blockEnds = []string{"endfor", "endif", "elif", "else", "endset", "endmacro", "endfilter", "endgeneration"}

// statements parses text and statements up to one of blockEnds or to the end of the template. It
// also consumes and returns the token of this end. opener is the name of the statement whose body
// is parsed; "" for the whole template.
func (p *parser) statements(opener string) ([]stmt, token) {
	p.enter()
	defer p.leave()
	opened := p.cur().offset
	var body []stmt
	for {
		switch t := p.next(); {
		case t.kind == tokText:
			body = append(body, &textStmt{t.text})
		case t.text == "{{":
			e := p.tuple(true, "")
			p.expect("}}")
			body = append(body, &printStmt{at(t.offset), e})
		case t.text == "{%":
			if word := p.cur(); word.kind == tokName && slices.Contains(blockEnds, word.text) {
				return body, p.next()
			}
			body = append(body, p.statement())
			p.expect("%}")
		default: // the end of the template
			if opener != "" {
				failAt(opened, "the body of '%s' that begins here has no end", opener)
			}
			return body, t
		}
	}
}

// body parses the body of a statement, from the end of the opening tag up to one of the given
// words, such as endif. It also returns this word.
func (p *parser) body(opener string, ends ...string) ([]stmt, string) {
	p.take(":")
	p.expect("%}")
	body, end := p.statements(opener)
	if !slices.Contains(ends, end.text) {
		failAt(end.offset, "found '%s' where %s is expected", end.text, strings.Join(ends, " or "))
	}
	return body, end.text
}

func (p *parser) statement() stmt {
	word := p.expectName()
	switch start := at(word.offset); word.text {
	case "for":
		return p.forLoop(start)
	case "if":
		return p.ifChain(start)
	case "set":
		return p.set(start)
	case "macro":
		return p.macro(start)
	case "filter":
		s := &captureStmt{at: start, filter: p.blockFilter()}
		s.body, _ = p.body("filter", "endfilter")
		return s
	case "generation":
		return &generationStmt{start, &macroDef{name: word.text, body: p.macroBody("generation")}}
	case "break", "continue":
		if p.loops == 0 {
			failAt(word.offset, "'%s' outside of a loop", word.text)
		}
		if word.text == "break" {
			return &loopControl{start, flowBreak}
		}
		return &loopControl{start, flowContinue}
	}
	refuseName("statement", word, refusedStatements)
	failAt(word.offset, "unknown statement '%s'", word.text)
	return nil
}

func (p *parser) ifChain(start at) *ifStmt {
	first := &ifStmt{at: start}
	for s := first; ; {
		s.test = p.tuple(false, "")
		var end string
		s.body, end = p.body("if", "elif", "else", "endif")
		switch end {
		case "elif":
			s = &ifStmt{at: p.at()}
			first.elifs = append(first.elifs, s)
		case "else":
			first.other, _ = p.body("if", "endif")
			return first
		default:
			return first
		}
	}
}

func (p *parser) forLoop(start at) *forStmt {
	s := &forStmt{at: start, target: p.target(p.primary, "in")}
	p.expect("in")
	s.seq = p.tuple(false, "recursive")
	if p.take("if") {
		s.test = p.expression()
	}
	if p.is("recursive") {
		refuse(p.cur().offset, "recursive loops are")
	}
	p.loops++
	var end string
	s.body, end = p.body("for", "endfor", "else")
	p.loops--
	if end == "else" {
		s.other, _ = p.body("for", "endfor")
	}
	return s
}

func (p *parser) set(start at) stmt {
	target := p.target(p.setItem, "")
	if p.take("=") {
		return &setStmt{start, target, p.tuple(true, "")}
	}
	s := &captureStmt{at: start, target: target}
	if p.is("|") {
		s.filter = p.blockFilter()
	}
	s.body, _ = p.body("set", "endset")
	return s
}

// blockFilter parses a chain of filters. The | before the first filter may be missing.
func (p *parser) blockFilter() *filterExpr {
	p.take("|")
	f := p.filter(nil)
	for n := 0; p.take("|"); n++ {
		p.link(n)
		f = p.filter(f)
	}
	return f
}

func (p *parser) macro(start at) *macroStmt {
	name := p.expectName()
	if reserved(name.text) {
		failAt(name.offset, "cannot assign to '%s'", name.text)
	}
	s := &macroStmt{at: start, def: &macroDef{name: name.text}}
	s.target = &nameExpr{at: at(name.offset), name: name.text, use: useStore}
	p.signature(s.def)
	s.def.body = p.macroBody("macro")
	return s
}

// macroBody parses the body of a macro. Loops around the macro do not count as loops around its
// body.
func (p *parser) macroBody(word string) []stmt {
	outside := p.loops
	p.loops = 0
	body, _ := p.body(word, "end"+word)
	p.loops = outside
	return body
}

func (p *parser) signature(d *macroDef) {
	p.expect("(")
	for !p.take(")") {
		if len(d.params) > 0 {
			p.expect(",")
		}
		name := p.expectName()
		param := &nameExpr{at: at(name.offset), name: name.text, use: useParam}
		if reserved(name.text) || slices.ContainsFunc(d.params, func(o *nameExpr) bool { return o.name == name.text }) {
			failAt(name.offset, "'%s' cannot be a parameter: it is a constant or the name of another parameter", name.text)
		}
		d.params = append(d.params, param)
		if p.take("=") {
			d.defaults = append(d.defaults, p.expression())
		} else if len(d.defaults) > 0 {
			failAt(name.offset, "a parameter without a default must not follow one with a default")
		}
	}
}

// target parses the target of a set or for: an item, or a tuple of items. end is the word that ends
// the target; "" for none.
func (p *parser) target(item func() expr, end string) expr {
	start := p.cur().offset
	items, isTuple := p.items(item, end)
	var t expr
	switch {
	case isTuple:
		t = &tupleExpr{operands{items}}
	case len(items) == 0:
		p.fail("a name to assign to")
	default:
		t = items[0]
	}
	markStored(t, start)
	return t
}

// setItem parses an item in the target of a set: a name, or an attribute of a namespace. A for
// statement cannot assign to attributes.
func (p *parser) setItem() expr {
	t, dot := p.cur(), p.ahead()
	if t.kind != tokName || reserved(t.text) || dot.kind != tokOp || dot.text != "." {
		return p.primary()
	}
	p.pos += 2
	return &attrTarget{at(t.offset), &nameExpr{at: at(t.offset), name: t.text}, p.expectName().text}
}

func reserved(name string) bool {
	switch name {
	case "true", "false", "none", "True", "False", "None":
		return true
	}
	return false
}

// markStored marks the names of a target as assigned. It fails for an expression that cannot be a
// target.
func markStored(e expr, offset int) {
	switch e := e.(type) {
	case *nameExpr:
		e.use = useStore
	case *attrTarget:
	case *tupleExpr:
		for _, item := range e.items {
			markStored(item, offset)
		}
	default:
		failAt(offset, "only names, attributes of a namespace and tuples of these can be assigned to")
	}
}
