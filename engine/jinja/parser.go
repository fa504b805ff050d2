package jinja

import (
	"slices"
	"strings"
)

// parser makes the tree of a template. Its methods are the rules of Jinja's grammar; this file has the tokens and the
// bodies of statements, parser_stmt.go the statements, parser_expr.go operators and parser_primary.go values and calls.
type parser struct {
	tokens []token
	pos    int
	depth  int
	loops  int // loops around the statement, within the innermost macro
}

// template parses a whole template.
func (p *parser) template() []stmt {
	body, end := p.statements("")
	if end.kind != tokEOF {
		failAt(end.offset, "'%s' stands where no statement is open", end.text)
	}
	return body
}

func (p *parser) cur() token { return p.tokens[p.pos] }

// ahead is the token after the current one.
func (p *parser) ahead() token { return p.tokens[min(p.pos+1, len(p.tokens)-1)] }

// next moves to the next token and returns the one before it.
func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != tokEOF {
		p.pos++
	}
	return t
}

func (p *parser) is(kind tokenKind, text string) bool {
	t := p.cur()
	return t.kind == kind && t.text == text
}

func (p *parser) isOp(text string) bool   { return p.is(tokOp, text) }
func (p *parser) isWord(text string) bool { return p.is(tokName, text) }

func (p *parser) takeOp(text string) bool   { return p.take(tokOp, text) }
func (p *parser) takeWord(text string) bool { return p.take(tokName, text) }

// take moves on if the current token is the given one, and reports whether it was.
func (p *parser) take(kind tokenKind, text string) bool {
	if !p.is(kind, text) {
		return false
	}
	p.pos++
	return true
}

func (p *parser) at() at { return at(p.cur().offset) }

// fail stops because the current token is not what is wanted.
func (p *parser) fail(want string) {
	t := p.cur()
	failAt(t.offset, "found %s where %s is expected", t.describe(), want)
}

func (p *parser) expectOp(text string) {
	if !p.takeOp(text) {
		p.fail("'" + text + "'")
	}
}

func (p *parser) expectWord(text string) {
	if !p.takeWord(text) {
		p.fail("'" + text + "'")
	}
}

func (p *parser) expectName() token {
	if p.cur().kind != tokName {
		p.fail("a name")
	}
	return p.next()
}

func (p *parser) expectKind(kind tokenKind) {
	if p.cur().kind != kind {
		p.fail(token{kind: kind}.describe())
	}
	p.pos++
}

// enter counts statements and expressions inside each other. Each call is paired with a leave.
func (p *parser) enter() {
	if p.depth >= maxNesting {
		failAt(p.cur().offset, "statements or expressions are nested more than %d deep", maxNesting)
	}
	p.depth++
}

func (p *parser) leave() { p.depth-- }

// link counts the parts of an expression that follow each other without nesting.
func (p *parser) link(n int) {
	if n > maxChain {
		failAt(p.cur().offset, "an expression has more than %d parts in a row", maxChain)
	}
}

// blockEnds are the words that end a body, of any statement.
var blockEnds = []string{"endfor", "endif", "elif", "else", "endset", "endmacro", "endfilter", "endgeneration"}

// statements parses text and statements up to one of blockEnds, which it takes and returns, or to the end of the
// template. The opener's name is for errors.
func (p *parser) statements(opener string) ([]stmt, token) {
	p.enter()
	defer p.leave()
	opened := p.cur().offset
	var body []stmt
	for {
		switch t := p.next(); t.kind {
		case tokText:
			body = append(body, &textStmt{t.text})
		case tokPrintBegin:
			e := p.tuple(true, "")
			p.expectKind(tokPrintEnd)
			body = append(body, &printStmt{at(t.offset), e})
		case tokBlockBegin:
			if word := p.cur(); word.kind == tokName && slices.Contains(blockEnds, word.text) {
				return body, p.next()
			}
			body = append(body, p.statement())
			p.expectKind(tokBlockEnd)
		case tokEOF:
			if opener != "" {
				failAt(opened, "the '%s' here has no end", opener)
			}
			return body, t
		}
	}
}

// body parses what follows a statement's head up to one of the given ends, and returns the end.
func (p *parser) body(opener string, ends ...string) ([]stmt, string) {
	p.takeOp(":")
	p.expectKind(tokBlockEnd)
	body, end := p.statements(opener)
	if !slices.Contains(ends, end.text) {
		failAt(end.offset, "found '%s' where %s is expected", end.text, strings.Join(ends, " or "))
	}
	return body, end.text
}
