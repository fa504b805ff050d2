package pattern

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ingot-run/ingot/engine/grammar/source"
)

// Limits of a regular expression.
const (
	maxText   = 64 << 10 // bytes
	maxDepth  = 200      // levels of nested groups
	maxRepeat = 100_000  // of a counted repetition
	maxNodes  = 50_000
	maxRanges = 100_000 // of all classes
)

type op uint8

const (
	opEmpty      op = iota // the empty text
	opSet                  // one character of set
	opConcat               // all of subs, one after another
	opOr                   // one of subs
	opRepeat               // subs[0], min to max times; max is -1 for no limit
	opStart                // the beginning of the text
	opEnd                  // the end of the text
	opBoundary             // \b
	opNoBoundary           // \B
	opAhead                // (?=subs[0])
	opNotAhead             // (?!subs[0])
)

type node struct {
	op       op
	set      runeSet
	subs     []*node
	min, max int
	at       int // offset in the text
}

type parser struct {
	text   string
	pos    int
	depth  int
	nodes  int
	syntax Syntax
	fold   bool // the flag i
	dotAll bool // the flag s
	groups map[string]bool

	properties map[propertyKey]runeSet
	ranges     int // of all classes
}

func parse(text string, syntax Syntax) (*node, error) {
	p := &parser{text: text, syntax: syntax}
	switch {
	case len(text) > maxText:
		return nil, &source.Error{Message: fmt.Sprintf("a regular expression has %d bytes; at most %d are allowed", len(text), maxText)}
	case !utf8.ValidString(text):
		return nil, &source.Error{Message: "a regular expression is not UTF-8"}
	}
	n, err := p.alternatives()
	if err == nil && p.pos < len(text) {
		err = p.fail("an opening parenthesis is missing")
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

func (p *parser) fail(format string, args ...any) error { return p.failAt(p.pos, format, args...) }

func (p *parser) failAt(at int, format string, args ...any) error {
	return &source.Error{
		Offset:  at,
		Message: fmt.Sprintf("regular expression %s: offset %d: %s", source.Quote(p.text), at, fmt.Sprintf(format, args...)),
	}
}

func (p *parser) new(n node) (*node, error) {
	if p.nodes++; p.nodes > maxNodes {
		return nil, p.fail("it has more than %d parts", maxNodes)
	}
	return &n, nil
}

func (p *parser) peek() rune {
	r, _ := utf8.DecodeRuneInString(p.text[p.pos:])
	return r
}

func (p *parser) next() rune {
	r, n := utf8.DecodeRuneInString(p.text[p.pos:])
	p.pos += n
	return r
}

func (p *parser) more() bool { return p.pos < len(p.text) }

func (p *parser) take(s string) bool {
	if strings.HasPrefix(p.text[p.pos:], s) {
		p.pos += len(s)
		return true
	}
	return false
}

// alternatives reads up to a closing parenthesis or the end.
func (p *parser) alternatives() (*node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.fail("groups are nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	fold, dotAll := p.fold, p.dotAll
	defer func() { p.fold, p.dotAll = fold, dotAll }() // flags set within a group end with it
	var list []*node
	for {
		n, err := p.concatenation()
		if err != nil {
			return nil, err
		}
		list = append(list, n)
		if !p.take("|") {
			break
		}
	}
	if len(list) == 1 {
		return list[0], nil
	}
	return p.new(node{op: opOr, subs: list})
}

func (p *parser) concatenation() (*node, error) {
	var list []*node
	for p.more() && p.text[p.pos] != '|' && p.text[p.pos] != ')' {
		at := p.pos
		n, err := p.atom()
		if err != nil {
			return nil, err
		}
		if n == nil {
			continue // flags
		}
		n.at = at
		if n, err = p.repeats(n); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	switch len(list) {
	case 0:
		return p.new(node{op: opEmpty})
	case 1:
		return list[0], nil
	}
	return p.new(node{op: opConcat, subs: list})
}

// repeats reads the quantifiers after an atom. Whether they are greedy does not change the set of
// texts that match.
func (p *parser) repeats(n *node) (*node, error) {
	for count := 0; p.more(); count++ {
		at := p.pos
		lo, hi, ok, err := p.quantifier()
		if err != nil || !ok {
			return n, err
		}
		switch {
		case count > 0:
			return nil, p.failAt(at, "nothing to repeat: a quantifier follows a quantifier")
		case n.op >= opStart:
			return nil, p.failAt(at, "an anchor or a look-around cannot be repeated")
		}
		if p.take("+") {
			return nil, p.failAt(p.pos-1, "possessive quantifiers are not supported")
		}
		p.take("?")
		if n, err = p.new(node{op: opRepeat, subs: []*node{n}, min: lo, max: hi, at: at}); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (p *parser) quantifier() (lo, hi int, ok bool, err error) {
	switch {
	case p.take("*"):
		return 0, -1, true, nil
	case p.take("+"):
		return 1, -1, true, nil
	case p.take("?"):
		return 0, 1, true, nil
	case p.text[p.pos] == '{':
		return p.counts()
	}
	return 0, 0, false, nil
}

// counts reads {m}, {m,} or {m,n}. A brace that begins none of them is a character, as in
// ECMAScript and Python.
func (p *parser) counts() (lo, hi int, ok bool, err error) {
	end := strings.IndexByte(p.text[p.pos:], '}')
	if end < 0 {
		return 0, 0, false, nil
	}
	first, last, ranged := strings.Cut(p.text[p.pos+1:p.pos+end], ",")
	if first == "" && (p.syntax == ECMA || last == "") || !allDigits(first) || !allDigits(last) {
		return 0, 0, false, nil
	}
	if lo, err = p.bound(first, 0); err != nil {
		return 0, 0, false, err
	}
	hi = lo
	if ranged {
		if hi, err = p.bound(last, -1); err != nil {
			return 0, 0, false, err
		}
	}
	if hi >= 0 && hi < lo {
		return 0, 0, false, p.fail("a repetition has a minimum of %d and a maximum of %d", lo, hi)
	}
	p.pos += end + 1
	return lo, hi, true, nil
}

func (p *parser) bound(text string, empty int) (int, error) {
	if text == "" {
		return empty, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n > maxRepeat {
		return 0, p.fail("a repetition has the count %s; at most %d is allowed", text, maxRepeat)
	}
	return n, nil
}

func allDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// atom reads one character, class, group or assertion. It returns nil for flags that apply to the
// rest of the group.
func (p *parser) atom() (*node, error) {
	at := p.pos
	switch r := p.next(); r {
	case '(':
		return p.group(at)
	case '[':
		set, err := p.class(at)
		if err != nil {
			return nil, err
		}
		return p.new(node{op: opSet, set: set})
	case '.':
		return p.new(node{op: opSet, set: p.dot()})
	case '^':
		return p.new(node{op: opStart})
	case '$':
		return p.new(node{op: opEnd})
	case '*', '+', '?':
		return nil, p.failAt(at, "nothing to repeat before %q", r)
	case '\\':
		return p.escape(at)
	case '{':
		p.pos = at
		_, _, ok, err := p.counts()
		if ok || err != nil {
			return nil, p.failAt(at, "nothing to repeat before a count")
		}
		p.pos = at + 1
		return p.char('{')
	default:
		return p.char(r)
	}
}

func (p *parser) dot() runeSet {
	switch {
	case p.dotAll:
		return anyRune
	case p.syntax == ECMA:
		return newlines.negate()
	}
	return newRuneSet('\n', '\n').negate()
}

func (p *parser) char(r rune) (*node, error) {
	return p.new(node{op: opSet, set: p.cased(newRuneSet(r, r))})
}

func (p *parser) cased(set runeSet) runeSet {
	if p.fold {
		return set.fold()
	}
	return set
}

// group reads what follows an opening parenthesis.
func (p *parser) group(at int) (*node, error) {
	kind := opEmpty
	fold, dotAll := p.fold, p.dotAll
	switch {
	case !p.take("?"):
	case p.take(":"):
	case p.take("="):
		kind = opAhead
	case p.take("!"):
		kind = opNotAhead
	case p.take("<="), p.take("<!"):
		return nil, p.failAt(at, "look-behind is not supported")
	case p.take(">"):
		return nil, p.failAt(at, "atomic groups are not supported")
	case p.take("P="), p.take("P>"), p.take("("), p.take("&"), p.take("R"):
		return nil, p.failAt(at, "references to groups are not supported")
	case p.take("#"):
		end := strings.IndexByte(p.text[p.pos:], ')')
		if end < 0 {
			return nil, p.failAt(at, "a comment is not closed")
		}
		p.pos += end + 1
		return nil, nil
	case p.take("P<"), p.take("<"):
		if err := p.name(at); err != nil {
			return nil, err
		}
	default:
		rest, err := p.flags(at)
		if err != nil || rest {
			return nil, err
		}
	}
	n, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	p.fold, p.dotAll = fold, dotAll
	if !p.take(")") {
		return nil, p.failAt(at, "a parenthesis is not closed")
	}
	if kind != opEmpty {
		return p.new(node{op: kind, subs: []*node{n}})
	}
	return n, nil
}

// name reads the name of a group and the > after it.
func (p *parser) name(at int) error {
	name, _, ok := strings.Cut(p.text[p.pos:], ">")
	if !ok || name == "" {
		return p.failAt(at, "the name of a group is missing")
	}
	for i, r := range name {
		if !unicode.IsLetter(r) && r != '_' && r != '$' && (i == 0 || !unicode.IsDigit(r)) {
			return p.failAt(at, "%q is not a name of a group", name)
		}
	}
	if p.groups[name] {
		return p.failAt(at, "two groups have the name %q", name)
	}
	if p.groups == nil {
		p.groups = map[string]bool{}
	}
	p.groups[name] = true
	p.pos += len(name) + 1
	return nil
}

// flags reads flags and the character after them: a colon, if they apply to a group, or a
// parenthesis, if they apply to the rest of the enclosing group.
func (p *parser) flags(at int) (rest bool, err error) {
	on := true
	for p.more() {
		switch r := p.next(); r {
		case '-':
			on = false
		case 'i':
			p.fold = on
		case 's':
			p.dotAll = on
		case 'u', 'a': // classes are Unicode's or ASCII's: see the documentation of Syntax
		case ')':
			return true, nil
		case ':':
			return false, nil
		default:
			return false, p.failAt(at, "the flag %q is not supported; i and s are", r)
		}
	}
	return false, p.failAt(at, "a parenthesis is not closed")
}
