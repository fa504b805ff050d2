// Package pattern reads regular expressions in the syntax that JSON Schema, RE2 and Python share.
package pattern

import (
	"github.com/ingot-run/ingot/engine/grammar/regex"
	"github.com/ingot-run/ingot/engine/grammar/source"
)

// Syntax says which of two readings counts where ECMAScript and Python differ.
type Syntax uint8

const (
	// ECMA is the syntax of JSON Schema's keyword pattern: a dot matches no line terminator (\n,
	// \r, U+2028, U+2029), [^] matches any character, \s matches U+FEFF.
	ECMA Syntax = iota
	// Python is the syntax that RE2, Rust and Python share: a dot matches all but \n, there are \A
	// and \z, classes such as [:alpha:] and a bracket that begins a class, \s matches U+0085 and
	// U+001C to U+001F.
	Python
)

// In both, \d and \w are ASCII, \s matches all other white space of Unicode, and \p{..} is by
// Unicode's tables.

// Alphabet writes characters as bytes: in UTF-8, or as they are written within a JSON string. No
// character's bytes begin those of another.
type Alphabet interface {
	Runes(b *regex.Builder, ranges []regex.RuneRange) regex.Node
}

// UTF8 is the alphabet of plain text.
type UTF8 struct{}

// Runes returns one character of ranges.
func (UTF8) Runes(b *regex.Builder, ranges []regex.RuneRange) regex.Node { return b.Runes(ranges...) }

// Whole returns the expression of the texts that text matches as a whole.
func Whole(b *regex.Builder, text string, syntax Syntax, alphabet Alphabet) (regex.Node, error) {
	return compile(b, text, syntax, alphabet, false)
}

// Search returns the expression of the texts in which text matches somewhere.
func Search(b *regex.Builder, text string, syntax Syntax, alphabet Alphabet) (regex.Node, error) {
	return compile(b, text, syntax, alphabet, true)
}

func compile(b *regex.Builder, text string, syntax Syntax, alphabet Alphabet, search bool) (regex.Node, error) {
	root, err := parse(text, syntax)
	if err != nil {
		return regex.Nothing, err
	}
	c := &compiler{b: b, alphabet: alphabet, text: text, sets: map[*rune]regex.Node{}}
	rest := regex.Empty
	if search {
		rest = c.anyText()
	}
	p, err := c.before(root, plain(rest))
	if err != nil {
		return regex.Nothing, err
	}
	if search {
		p = c.join(plain(c.anyText()), p)
	}
	if err := b.Err(); err != nil {
		return regex.Nothing, &source.Error{Message: "regular expression " + source.Quote(text) + ": " + err.Error()}
	}
	return c.whole(p), nil
}

type compiler struct {
	b        *regex.Builder
	alphabet Alphabet
	text     string
	sets     map[*rune]regex.Node // by the first element of a set
}

// context is a condition on the character beside a match.
type context uint8

const (
	anything context = iota
	edge             // there is none: it is the beginning or the end of the text
	word             // a character of \w
	other            // another character
	contexts
)

// and returns the condition that both hold. ok is false if they cannot.
func (c context) and(d context) (both context, ok bool) {
	switch {
	case c == d || d == anything:
		return c, true
	case c == anything:
		return d, true
	}
	return 0, false
}

// parts are the texts that an expression matches, by the conditions on what is before and after.
type parts [contexts][contexts]regex.Node

func plain(n regex.Node) *parts {
	p := &parts{}
	p[anything][anything] = n
	return p
}

func (p *parts) isPlain() bool {
	for i := range p {
		for j := range p[i] {
			if p[i][j] != regex.Nothing && i+j > 0 {
				return false
			}
		}
	}
	return true
}

func (c *compiler) add(p *parts, before, after context, n regex.Node) {
	p[before][after] = c.b.Or(p[before][after], n)
}

func (c *compiler) runes(set runeSet) regex.Node {
	if len(set) == 0 {
		return regex.Nothing
	}
	if n, ok := c.sets[&set[0]]; ok {
		return n
	}
	ranges := make([]regex.RuneRange, 0, len(set)/2)
	for i := 0; i < len(set); i += 2 {
		ranges = append(ranges, regex.RuneRange{Lo: set[i], Hi: set[i+1]})
	}
	n := c.alphabet.Runes(c.b, ranges)
	c.sets[&set[0]] = n
	return n
}

func (c *compiler) anyText() regex.Node { return c.b.Repeat(c.runes(anyRune), 0, regex.Unbounded) }

func (c *compiler) fail(n *node, reason string) error {
	p := parser{text: c.text}
	return p.failAt(n.at, "%s", reason)
}

// before returns the texts that n matches, followed by rest, which goes on to the end of the text.
// Look-ahead is an intersection with that rest.
func (c *compiler) before(n *node, rest *parts) (*parts, error) {
	switch n.op {
	case opConcat:
		for i := len(n.subs) - 1; i >= 0; i-- {
			var err error
			if rest, err = c.before(n.subs[i], rest); err != nil {
				return nil, err
			}
		}
		return rest, nil
	case opOr:
		if !hasLookAhead(n) {
			break
		}
		all := &parts{}
		for _, sub := range n.subs {
			p, err := c.before(sub, rest)
			if err != nil {
				return nil, err
			}
			c.union(all, p)
		}
		return all, nil
	case opAhead, opNotAhead:
		return c.ahead(n, rest)
	}
	p, err := c.parts(n)
	if err != nil {
		return nil, err
	}
	return c.join(p, rest), nil
}

func (c *compiler) union(p, q *parts) {
	for i := range q {
		for j := range q[i] {
			c.add(p, context(i), context(j), q[i][j])
		}
	}
}

func hasLookAhead(n *node) bool {
	if n.op == opAhead || n.op == opNotAhead {
		return true
	}
	for _, sub := range n.subs {
		if hasLookAhead(sub) {
			return true
		}
	}
	return false
}

func (c *compiler) ahead(n *node, rest *parts) (*parts, error) {
	seen, err := c.before(n.subs[0], plain(c.anyText()))
	if err != nil {
		return nil, err
	}
	rest, seen = c.atEnd(rest), c.atEnd(seen)
	if n.op == opNotAhead {
		seen = c.unseen(seen)
	}
	out := &parts{}
	for i := range rest {
		for j := range seen {
			if before, ok := context(i).and(context(j)); ok {
				c.add(out, before, anything, c.b.And(rest[i][anything], seen[j][anything]))
			}
		}
	}
	return out, nil
}

// unseen returns the texts that are not in seen, by what is before them.
func (c *compiler) unseen(seen *parts) *parts {
	always := seen[anything][anything]
	if seen.isPlain() {
		return plain(c.b.Not(always))
	}
	out := &parts{}
	for _, before := range []context{edge, word, other} {
		out[before][anything] = c.b.Not(c.b.Or(always, seen[before][anything]))
	}
	return out
}

// atEnd resolves the conditions on what is after p, which is followed by the end of the text.
func (c *compiler) atEnd(p *parts) *parts {
	out := &parts{}
	for i := range p {
		c.add(out, context(i), anything, c.b.Or(p[i][anything], p[i][edge]))
	}
	return out
}

func (c *compiler) whole(p *parts) regex.Node {
	p = c.atEnd(p)
	return c.b.Or(p[anything][anything], p[edge][anything])
}

func (c *compiler) parts(n *node) (*parts, error) {
	switch n.op {
	case opEmpty:
		return plain(regex.Empty), nil
	case opSet:
		return plain(c.runes(n.set)), nil
	case opStart:
		p := &parts{}
		p[edge][anything] = regex.Empty
		return p, nil
	case opEnd:
		p := &parts{}
		p[anything][edge] = regex.Empty
		return p, nil
	case opBoundary, opNoBoundary:
		p := &parts{}
		for _, before := range []context{edge, word, other} {
			for _, after := range []context{edge, word, other} {
				if (before == word) != (after == word) == (n.op == opBoundary) {
					p[before][after] = regex.Empty
				}
			}
		}
		return p, nil
	case opConcat:
		p := plain(regex.Empty)
		for i := len(n.subs) - 1; i >= 0; i-- {
			sub, err := c.parts(n.subs[i])
			if err != nil {
				return nil, err
			}
			p = c.join(sub, p)
		}
		return p, nil
	case opOr:
		return c.alternatives(n)
	case opRepeat:
		return c.repeat(n)
	}
	return nil, c.fail(n, "look-ahead within a repetition is not supported")
}

func (c *compiler) alternatives(n *node) (*parts, error) {
	var lists [contexts][contexts][]regex.Node
	for _, sub := range n.subs {
		p, err := c.parts(sub)
		if err != nil {
			return nil, err
		}
		for i := range p {
			for j := range p[i] {
				if p[i][j] != regex.Nothing {
					lists[i][j] = append(lists[i][j], p[i][j])
				}
			}
		}
	}
	out := &parts{}
	for i := range lists {
		for j := range lists[i] {
			out[i][j] = c.b.Or(lists[i][j]...)
		}
	}
	return out, nil
}

// maxUnrolled is how often an expression with anchors is repeated at most.
const maxUnrolled = 8

func (c *compiler) repeat(n *node) (*parts, error) {
	sub, err := c.parts(n.subs[0])
	if err != nil {
		return nil, err
	}
	if sub.isPlain() {
		return plain(c.b.Repeat(sub[anything][anything], n.min, n.max)), nil
	}
	if n.max < 0 || n.max > maxUnrolled {
		return nil, c.fail(n, "a repetition of an anchor or a word boundary is not supported")
	}
	out := plain(regex.Empty)
	for i := n.max; i > 0; i-- {
		out = c.join(sub, out)
		if i > n.min {
			c.add(out, anything, anything, regex.Empty)
		}
	}
	return out, nil
}

// join returns the texts of p followed by those of q.
func (c *compiler) join(p, q *parts) *parts {
	out := &parts{}
	for i := range p {
		for j := range p[i] {
			if p[i][j] == regex.Nothing {
				continue
			}
			for k := range q {
				for l := range q[k] {
					if q[k][l] != regex.Nothing {
						c.joinOne(out, context(i), context(j), context(k), context(l), p[i][j], q[k][l])
					}
				}
			}
		}
	}
	return out
}

// joinOne adds p followed by q to out. The condition after p is on the first character of q, or on
// what is after q if q is empty; the condition before q likewise.
func (c *compiler) joinOne(out *parts, beforeP, afterP, beforeQ, afterQ context, p, q regex.Node) {
	if afterP == anything && beforeQ == anything {
		c.add(out, beforeP, afterQ, c.b.Concat(p, q))
		return
	}
	ends, begins := c.ending(p, beforeQ), c.beginning(q, afterP)
	c.add(out, beforeP, afterQ, c.b.Concat(ends, begins))
	before, okBefore := beforeP.and(beforeQ)
	after, okAfter := afterP.and(afterQ)
	if c.b.Nullable(p) && okBefore {
		c.add(out, before, afterQ, begins)
	}
	if c.b.Nullable(q) && okAfter {
		c.add(out, beforeP, after, ends)
	}
	if c.b.Nullable(p) && c.b.Nullable(q) && okBefore && okAfter {
		c.add(out, before, after, regex.Empty)
	}
}

// ending returns the texts of n that are not empty and whose last character fulfils cond.
func (c *compiler) ending(n regex.Node, cond context) regex.Node {
	if cond == edge {
		return regex.Nothing
	}
	return c.b.And(n, c.b.Concat(c.anyText(), c.one(cond)))
}

// beginning is ending for the first character.
func (c *compiler) beginning(n regex.Node, cond context) regex.Node {
	if cond == edge {
		return regex.Nothing
	}
	return c.b.And(n, c.b.Concat(c.one(cond), c.anyText()))
}

func (c *compiler) one(cond context) regex.Node {
	switch cond {
	case word:
		return c.runes(wordRunes)
	case other:
		return c.runes(wordRunes.negate())
	}
	return c.runes(anyRune)
}
