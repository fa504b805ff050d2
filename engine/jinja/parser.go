package jinja

import (
	"fmt"
	"slices"
	"strings"
)

// parser makes the tree of a template. Its methods are the rules of Jinja's grammar and fail with placed errors.
type parser struct {
	tokens []token
	pos    int
	depth  int
	loops  int // loops around the statement, within the innermost macro
}

// template parses a whole template.
func (p *parser) template() ([]stmt, error) {
	body, end, err := p.statements("")
	if err != nil {
		return nil, err
	}
	if end.kind != tokEOF {
		return nil, errAt(end.offset, fmt.Errorf("'%s' stands where no statement is open", end.text))
	}
	return body, nil
}

func (p *parser) cur() token { return p.tokens[p.pos] }

// ahead is the token after the current one.
func (p *parser) ahead() token { return p.tokens[min(p.pos+1, len(p.tokens)-1)] }

// next goes one token on and returns the one that it leaves.
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

func (p *parser) take(kind tokenKind, text string) bool {
	if !p.is(kind, text) {
		return false
	}
	p.pos++
	return true
}

func (p *parser) at() at { return at(p.cur().offset) }

func (p *parser) fail(want string) error {
	t := p.cur()
	return errAt(t.offset, fmt.Errorf("found %s where %s is expected", t.describe(), want))
}

func (p *parser) expectOp(text string) error {
	if !p.takeOp(text) {
		return p.fail("'" + text + "'")
	}
	return nil
}

func (p *parser) expectWord(text string) error {
	if !p.takeWord(text) {
		return p.fail("'" + text + "'")
	}
	return nil
}

func (p *parser) expectName() (token, error) {
	if p.cur().kind != tokName {
		return token{}, p.fail("a name")
	}
	return p.next(), nil
}

func (p *parser) expectKind(kind tokenKind) error {
	if p.cur().kind != kind {
		return p.fail(token{kind: kind}.describe())
	}
	p.pos++
	return nil
}

// enter counts statements and expressions inside each other; each call that succeeds is paired with a leave.
func (p *parser) enter() error {
	if p.depth >= maxNesting {
		return errAt(p.cur().offset, fmt.Errorf("statements or expressions are nested more than %d deep", maxNesting))
	}
	p.depth++
	return nil
}

func (p *parser) leave() { p.depth-- }

// blockEnds are the words that end a body, of whichever statement.
var blockEnds = []string{
	"endfor", "endif", "elif", "else", "endset", "endwith", "endmacro", "endcall", "endfilter", "endgeneration",
}

// statements parses text and statements up to one of blockEnds, which it takes and returns together with its tag's
// opening, or to the end of the template. The opener's name is for errors.
func (p *parser) statements(opener string) ([]stmt, token, error) {
	if err := p.enter(); err != nil {
		return nil, token{}, err
	}
	defer p.leave()
	opened := p.cur().offset
	var body []stmt
	for {
		switch t := p.next(); t.kind {
		case tokText:
			body = append(body, &textStmt{t.text})
		case tokPrintBegin:
			e, err := p.tuple(true, "")
			if err == nil {
				err = p.expectKind(tokPrintEnd)
			}
			if err != nil {
				return nil, token{}, err
			}
			body = append(body, &printStmt{at(t.offset), e})
		case tokBlockBegin:
			if word := p.cur(); word.kind == tokName && slices.Contains(blockEnds, word.text) {
				return body, p.next(), nil
			}
			s, err := p.statement()
			if err == nil {
				err = p.expectKind(tokBlockEnd)
			}
			if err != nil {
				return nil, token{}, err
			}
			if s != nil {
				body = append(body, s...)
			}
		case tokEOF:
			if opener != "" {
				return nil, token{}, errAt(opened, fmt.Errorf("the '%s' here has no end", opener))
			}
			return body, t, nil
		}
	}
}

// body parses what follows a statement's head up to one of the given ends, and returns the end.
func (p *parser) body(opener string, ends ...string) ([]stmt, string, error) {
	p.takeOp(":")
	if err := p.expectKind(tokBlockEnd); err != nil {
		return nil, "", err
	}
	body, end, err := p.statements(opener)
	if err != nil {
		return nil, "", err
	}
	if !slices.Contains(ends, end.text) {
		return nil, "", errAt(end.offset,
			fmt.Errorf("found '%s' where %s is expected", end.text, strings.Join(ends, " or ")))
	}
	return body, end.text, nil
}

// statement parses what stands in {% %}.
func (p *parser) statement() ([]stmt, error) {
	word, err := p.expectName()
	if err != nil {
		return nil, err
	}
	var s stmt
	switch start := at(word.offset); word.text {
	case "for":
		s, err = p.forLoop(start)
	case "if":
		s, err = p.ifChain(start)
	case "set":
		s, err = p.set(start)
	case "with":
		s, err = p.with(start)
	case "macro":
		s, err = p.macro(start)
	case "call":
		s, err = p.callBlock(start)
	case "filter":
		s, err = p.filterBlock(start)
	case "generation":
		def := &macroDef{}
		def.body, err = p.macroBody("generation")
		s = &callStmt{at: start, def: def}
	case "print":
		return p.print(start)
	case "do":
		var e expr
		e, err = p.tuple(true, "")
		s = &doStmt{start, e}
	case "break", "continue":
		if p.loops == 0 {
			return nil, errAt(word.offset, fmt.Errorf("'%s' outside of a loop", word.text))
		}
		s = &loopControl{start, map[string]flow{"break": flowBreak, "continue": flowContinue}[word.text]}
	case "include", "import", "from", "extends", "block", "autoescape":
		return nil, errAt(word.offset, fmt.Errorf("'%s' is not supported in chat templates", word.text))
	default:
		return nil, errAt(word.offset, fmt.Errorf("unknown statement '%s'", word.text))
	}
	return []stmt{s}, err
}
