package ebnf

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ingot-run/ingot/engine/grammar/pattern"
	"github.com/ingot-run/ingot/engine/grammar/source"
)

// parser reads the expressions that both dialects share.
type parser struct {
	text    string
	pos     int
	gbnf    bool
	depth   int // of parentheses
	nesting int
	parts   int
	g       *Grammar
	ordered []*Definition
}

func (p *parser) failAt(offset int, format string, args ...any) error {
	return source.At(p.text, offset, format, args...)
}

func (p *parser) fail(format string, args ...any) error { return p.failAt(p.pos, format, args...) }

func (p *parser) new(e Expr) (*Expr, error) {
	if p.parts++; p.parts > maxParts {
		return nil, p.fail("the grammar has more than %d parts", maxParts)
	}
	return &e, nil
}

func (p *parser) define(d *Definition) error {
	if p.g.Definitions[d.Name] != nil {
		return p.failAt(d.Offset, "%s is defined twice", d.Name)
	}
	p.g.Definitions[d.Name] = d
	p.ordered = append(p.ordered, d)
	return nil
}

// space skips blanks and comments, and line ends too if lines is true.
func (p *parser) space(lines bool) {
	for p.pos < len(p.text) {
		rest := p.text[p.pos:]
		switch {
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r':
			p.pos++
		case rest[0] == '\n' && lines:
			p.pos++
		case rest[0] == '#', !p.gbnf && strings.HasPrefix(rest, "//"):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			p.pos += end
		default:
			return
		}
	}
}

// peek returns the next character after blanks, 0 at the end. Within parentheses, lines do not
// count; elsewhere a line that begins with | goes on with the one before.
func (p *parser) peek() byte {
	p.space(p.depth > 0)
	if p.pos < len(p.text) && p.text[p.pos] == '\n' {
		here := p.pos
		if p.space(true); p.pos >= len(p.text) || p.text[p.pos] != '|' {
			p.pos = here
		}
	}
	if p.pos >= len(p.text) {
		return 0
	}
	return p.text[p.pos]
}

func (p *parser) take(s string) bool {
	if strings.HasPrefix(p.text[p.pos:], s) {
		p.pos += len(s)
		return true
	}
	return false
}

func (p *parser) name() string {
	start := p.pos
	for p.pos < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.pos:])
		if !isNameRune(r) || r == '-' && (p.pos == start || strings.HasPrefix(p.text[p.pos:], "->")) {
			break
		}
		p.pos += n
	}
	return p.text[start:p.pos]
}

// choice reads alternatives.
func (p *parser) choice() (*Expr, error) {
	if p.nesting++; p.nesting > maxNesting {
		return nil, p.fail("parentheses are nested more than %d deep", maxNesting)
	}
	defer func() { p.nesting-- }()
	start := p.pos
	var list []*Expr
	for {
		e, err := p.conjunction()
		if err != nil {
			return nil, err
		}
		list = append(list, e)
		if p.peek() != '|' {
			break
		}
		p.pos++
		p.space(true)
	}
	if len(list) == 1 {
		return list[0], nil
	}
	return p.new(Expr{Kind: Choice, Subs: list, Offset: start})
}

func (p *parser) conjunction() (*Expr, error) {
	start := p.pos
	var list []*Expr
	for {
		e, err := p.sequence()
		if err != nil {
			return nil, err
		}
		list = append(list, e)
		if p.gbnf || p.peek() != '&' {
			break
		}
		p.pos++
	}
	if len(list) == 1 {
		return list[0], nil
	}
	return p.new(Expr{Kind: And, Subs: list, Offset: start})
}

func (p *parser) sequence() (*Expr, error) {
	start := p.pos
	var list []*Expr
	for {
		switch p.peek() {
		case 0, '\n', '|', ')', ']', '&':
			if len(list) == 1 {
				return list[0], nil
			}
			return p.new(Expr{Kind: Sequence, Subs: list, Offset: start})
		case '-':
			if strings.HasPrefix(p.text[p.pos:], "->") && !p.gbnf { // an alias of Lark's trees
				p.pos += 2
				if p.peek(); p.name() == "" {
					return nil, p.fail("a name is expected after ->")
				}
				continue
			}
		}
		e, err := p.repeated()
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
}

// repeated reads an expression and the quantifiers after it.
func (p *parser) repeated() (*Expr, error) {
	if !p.gbnf && p.take("~") {
		start := p.pos - 1
		p.peek()
		e, err := p.item()
		if err != nil {
			return nil, err
		}
		if e, err = p.new(Expr{Kind: Not, Subs: []*Expr{e}, Offset: start}); err != nil {
			return nil, err
		}
		return p.quantifiers(e)
	}
	e, err := p.item()
	if err != nil {
		return nil, err
	}
	return p.quantifiers(e)
}

func (p *parser) quantifiers(e *Expr) (*Expr, error) {
	for range maxNesting {
		lo, hi := 0, -1
		switch c := p.peek(); {
		case c == '*':
			p.pos++
		case c == '+':
			lo = 1
			p.pos++
		case c == '?':
			hi = 1
			p.pos++
		case c == '{':
			var err error
			if lo, hi, err = p.counts(); err != nil {
				return nil, err
			}
		case c == '~' && !p.gbnf && p.isTilde():
			var err error
			if lo, hi, err = p.tilde(); err != nil {
				return nil, err
			}
		default:
			return e, nil
		}
		var err error
		if e, err = p.new(Expr{Kind: Repeat, Subs: []*Expr{e}, Min: lo, Max: hi, Offset: e.Offset}); err != nil {
			return nil, err
		}
	}
	return nil, p.fail("an expression has too many quantifiers")
}

// counts reads {m}, {m,}, {,n} or {m,n}.
func (p *parser) counts() (lo, hi int, err error) {
	start := p.pos
	end := strings.IndexByte(p.text[start:], '}')
	if end < 0 {
		return 0, 0, p.fail("a brace is not closed")
	}
	first, last, ranged := strings.Cut(p.text[start+1:start+end], ",")
	first, last = strings.TrimSpace(first), strings.TrimSpace(last)
	if first == "" && last == "" {
		return 0, 0, p.fail("a count is expected in the braces")
	}
	if lo, err = p.number(first, 0); err != nil {
		return 0, 0, err
	}
	hi = lo
	if ranged {
		if hi, err = p.number(last, -1); err != nil {
			return 0, 0, err
		}
	}
	if hi >= 0 && lo > hi {
		return 0, 0, p.fail("a repetition has a minimum of %d and a maximum of %d", lo, hi)
	}
	p.pos = start + end + 1
	return lo, hi, nil
}

const maxRepeat = 100_000

func (p *parser) number(text string, empty int) (int, error) {
	if text == "" {
		return empty, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxRepeat {
		return 0, p.fail("%q is not a count from 0 to %d", text, maxRepeat)
	}
	return n, nil
}

// isTilde reports whether a count follows a tilde, which otherwise is a negation.
func (p *parser) isTilde() bool {
	rest := strings.TrimLeft(p.text[p.pos+1:], " \t")
	return rest != "" && rest[0] >= '0' && rest[0] <= '9'
}

// tilde reads ~m or ~m..n.
func (p *parser) tilde() (lo, hi int, err error) {
	p.pos++
	p.space(false)
	if lo, err = p.number(p.digits(), 0); err != nil {
		return 0, 0, err
	}
	hi = lo
	if p.take("..") {
		if hi, err = p.number(p.digits(), 0); err != nil {
			return 0, 0, err
		}
	}
	if lo > hi {
		return 0, 0, p.fail("a repetition has a minimum of %d and a maximum of %d", lo, hi)
	}
	return lo, hi, nil
}

func (p *parser) digits() string {
	start := p.pos
	for p.pos < len(p.text) && p.text[p.pos] >= '0' && p.text[p.pos] <= '9' {
		p.pos++
	}
	return p.text[start:p.pos]
}

// item reads one expression without quantifiers.
func (p *parser) item() (*Expr, error) {
	start := p.pos
	switch c := p.peek(); {
	case c == 0 || c == '\n':
		return nil, p.fail("an expression is expected")
	case c == '"':
		return p.literal()
	case c == '(':
		return p.group(')')
	case c == '[' && p.gbnf:
		return p.class()
	case c == '[':
		e, err := p.group(']')
		if err != nil {
			return nil, err
		}
		return p.new(Expr{Kind: Repeat, Subs: []*Expr{e}, Max: 1, Offset: start})
	case c == '.' && p.gbnf:
		p.pos++
		return p.new(Expr{Kind: Regex, Text: "[^]", Syntax: pattern.ECMA, Offset: start})
	case c == '/' && !p.gbnf:
		return p.regex()
	case c == '<':
		return p.special()
	case c == '%' && !p.gbnf:
		return p.embedded()
	case c == '@':
		return nil, p.fail("references to other grammars are not supported; use %%json or rules of this grammar")
	}
	start = p.pos
	if name := p.name(); name != "" {
		return p.new(Expr{Kind: Rule, Text: name, Offset: start})
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.pos:])
	return nil, p.fail("%q is not expected here", r)
}

func (p *parser) group(closing byte) (*Expr, error) {
	start := p.pos
	p.pos++
	p.depth++
	e, err := p.choice()
	if err != nil {
		return nil, err
	}
	if p.peek() != closing {
		return nil, p.failAt(start, "%q is not closed", p.text[start])
	}
	p.depth--
	p.pos++
	return e, nil
}
