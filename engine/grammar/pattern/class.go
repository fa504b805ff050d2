package pattern

import (
	"strconv"
	"strings"
	"unicode"
)

// escape reads what follows a backslash outside of a class.
func (p *parser) escape(at int) (*node, error) {
	if !p.more() {
		return nil, p.failAt(at, "a backslash ends it")
	}
	switch r := p.peek(); {
	case r == 'b':
		p.next()
		return p.new(node{op: opBoundary})
	case r == 'B':
		p.next()
		return p.new(node{op: opNoBoundary})
	case r == 'A' && p.syntax != ECMA:
		p.next()
		return p.new(node{op: opStart})
	case (r == 'z' || r == 'Z') && p.syntax != ECMA:
		p.next()
		return p.new(node{op: opEnd})
	case r >= '1' && r <= '9', r == 'k':
		return nil, p.failAt(at, "references to groups are not supported")
	}
	set, err := p.escaped(at)
	if err != nil {
		return nil, err
	}
	return p.new(node{op: opSet, set: set})
}

// escaped reads an escape that stands for one character or a class of them, within a class or not.
func (p *parser) escaped(at int) (runeSet, error) {
	if !p.more() {
		return nil, p.failAt(at, "a backslash ends it")
	}
	r := p.next()
	switch r {
	case 'd':
		return digits, nil
	case 'D':
		return digits.negate(), nil
	case 'w':
		return wordRunes, nil
	case 'W':
		return wordRunes.negate(), nil
	case 's':
		return p.spaces(), nil
	case 'S':
		return p.spaces().negate(), nil
	case 'p', 'P':
		return p.property(r == 'P', at)
	}
	c, err := p.escapedRune(r, at)
	if err != nil {
		return nil, err
	}
	if c >= firstSurrogate && c <= lastSurrogate {
		return nil, p.failAt(at, "it has half of a surrogate pair")
	}
	return p.cased(newRuneSet(c, c)), nil
}

func (p *parser) spaces() runeSet {
	if p.syntax == ECMA {
		return ecmaSpaces
	}
	return pythonSpaces
}

// controls are the letters that stand for a control character after a backslash.
var controls = map[rune]rune{'t': '\t', 'n': '\n', 'r': '\r', 'v': '\v', 'f': '\f', 'a': '\a'}

// escapedRune returns the character for an escape that begins with r, which was read.
func (p *parser) escapedRune(r rune, at int) (rune, error) {
	if c, ok := controls[r]; ok && (r != 'a' || p.syntax != ECMA) {
		return c, nil
	}
	switch r {
	case '0':
		if p.more() && p.peek() >= '0' && p.peek() <= '9' {
			return 0, p.failAt(at, "octal escapes are not supported")
		}
		return 0, nil
	case 'c':
		if p.more() {
			if c := p.next() | 0x20; c >= 'a' && c <= 'z' {
				return c - 'a' + 1, nil
			}
		}
		return 0, p.failAt(at, "a letter must follow \\c")
	case 'x':
		return p.hex(2, at)
	case 'u':
		c, err := p.hex(4, at)
		if c >= 0xD800 && c < 0xDC00 && err == nil && p.take(`\u`) {
			low, err := p.hex(4, at)
			if err != nil || low < 0xDC00 || low > lastSurrogate {
				return 0, p.failAt(at, "it has half of a surrogate pair")
			}
			return (c-0xD800)<<10 + low - 0xDC00 + 0x10000, nil
		}
		return c, err
	case 'U':
		return p.hex(8, at)
	}
	if r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
		return 0, p.failAt(at, "the escape \\%c is not supported", r)
	}
	return r, nil
}

// hex reads digits hexadecimal digits, or any number of them in braces.
func (p *parser) hex(digits, at int) (rune, error) {
	text := p.text[p.pos:]
	if strings.HasPrefix(text, "{") {
		end := strings.IndexByte(text, '}')
		if end < 0 {
			return 0, p.failAt(at, "a brace is not closed")
		}
		text = text[1:end]
		p.pos += end + 1
	} else {
		if len(text) < digits {
			return 0, p.failAt(at, "%d hexadecimal digits are expected", digits)
		}
		text = text[:digits]
		p.pos += digits
	}
	c, err := strconv.ParseUint(text, 16, 32)
	if err != nil || c > unicode.MaxRune {
		return 0, p.failAt(at, "%q is not the number of a character in hexadecimal digits", text)
	}
	return rune(c), nil
}

// property reads the name of a Unicode property: {Lu}, {Script=Greek} or the letter of a category.
func (p *parser) property(negated bool, at int) (runeSet, error) {
	if !p.more() {
		return nil, p.failAt(at, "the name of a property is missing")
	}
	name := string(p.next())
	if name == "{" {
		end := strings.IndexByte(p.text[p.pos:], '}')
		if end < 0 {
			return nil, p.failAt(at, "a brace is not closed")
		}
		name = p.text[p.pos : p.pos+end]
		p.pos += end + 1
		if rest, ok := strings.CutPrefix(name, "^"); ok {
			name, negated = rest, !negated
		}
	}
	key := propertyKey{name, negated, p.fold}
	if set, ok := p.properties[key]; ok {
		return set, nil
	}
	set, ok := propertySet(name)
	if !ok {
		return nil, p.failAt(at, "the property %q is not known", name)
	}
	if negated {
		set = set.negate()
	}
	set = p.cased(set)
	if p.properties == nil {
		p.properties = map[propertyKey]runeSet{}
	}
	p.properties[key] = set
	return set, p.count(set)
}

// propertyKey is what the set of a property depends on.
type propertyKey struct {
	name          string
	negated, fold bool
}

// count adds the ranges of a set to those of the whole expression, which are limited.
func (p *parser) count(set runeSet) error {
	if p.ranges += len(set) / 2; p.ranges > maxRanges {
		return p.fail("its classes have more than %d ranges of characters", maxRanges)
	}
	return nil
}

func propertySet(name string) (runeSet, bool) {
	key, value, ok := strings.Cut(name, "=")
	if ok {
		switch key {
		case "Script", "sc", "Script_Extensions", "scx":
			table, ok := unicode.Scripts[value]
			if !ok || key[len(key)-1] == 'x' || key == "Script_Extensions" {
				return nil, false
			}
			return fromTable(table), true
		case "General_Category", "gc":
			name = value
		default:
			return nil, false
		}
	}
	if alias, ok := unicode.CategoryAliases[name]; ok {
		name = alias
	}
	switch name {
	case "Any":
		return anyRune, true
	case "ASCII":
		return newRuneSet(0, 0x7F), true
	case "Alphabetic", "Alpha":
		return fromTable(unicode.L).union(fromTable(unicode.Nl)).union(fromTable(unicode.Other_Alphabetic)), true
	case "Uppercase", "Upper":
		return fromTable(unicode.Lu).union(fromTable(unicode.Other_Uppercase)), true
	case "Lowercase", "Lower":
		return fromTable(unicode.Ll).union(fromTable(unicode.Other_Lowercase)), true
	}
	for _, tables := range []map[string]*unicode.RangeTable{unicode.Categories, unicode.Scripts, unicode.Properties} {
		if table, ok := tables[name]; ok {
			return fromTable(table), true
		}
	}
	return nil, false
}

// posixClasses are the classes of RE2 and Python's regex module that stand in a class.
var posixClasses = map[string]runeSet{
	"alnum": newRuneSet('0', '9', 'A', 'Z', 'a', 'z'), "alpha": newRuneSet('A', 'Z', 'a', 'z'),
	"ascii": newRuneSet(0, 0x7F), "blank": newRuneSet('\t', '\t', ' ', ' '), "cntrl": newRuneSet(0, 0x1F, 0x7F, 0x7F),
	"digit": digits, "graph": newRuneSet('!', '~'), "lower": newRuneSet('a', 'z'), "print": newRuneSet(' ', '~'),
	"punct": newRuneSet('!', '/', ':', '@', '[', '`', '{', '~'), "space": newRuneSet('\t', '\r', ' ', ' '),
	"upper": newRuneSet('A', 'Z'), "word": wordRunes, "xdigit": newRuneSet('0', '9', 'A', 'F', 'a', 'f'),
}

// class reads the rest of a class in brackets, which begins at offset at.
func (p *parser) class(at int) (runeSet, error) {
	negated := p.take("^")
	var pairs []rune
	for first := true; ; first = false {
		if !p.more() {
			return nil, p.failAt(at, "a bracket is not closed")
		}
		if p.text[p.pos] == ']' && (!first || p.syntax == ECMA) {
			p.pos++
			break
		}
		start := p.pos
		lo, set, err := p.classItem()
		if err != nil {
			return nil, err
		}
		if set != nil || !p.rangeFollows() {
			pairs = append(append(pairs, set...), single(lo, set == nil)...)
			continue
		}
		p.pos++ // the hyphen
		hi, set, err := p.classItem()
		switch {
		case err != nil:
			return nil, err
		case set != nil: // [a-\d] is a, a hyphen and \d
			pairs = append(append(pairs, lo, lo, '-', '-'), set...)
		case hi < lo:
			return nil, p.failAt(start, "the range %q-%q is empty", lo, hi)
		default:
			pairs = append(pairs, lo, hi)
		}
	}
	set := p.cased(newRuneSet(pairs...))
	if negated {
		set = set.negate()
	}
	return set, p.count(set)
}

func single(r rune, ok bool) []rune {
	if !ok {
		return nil
	}
	return []rune{r, r}
}

// rangeFollows reports whether a hyphen and the end of a range follow.
func (p *parser) rangeFollows() bool {
	rest := p.text[p.pos:]
	return len(rest) >= 2 && rest[0] == '-' && rest[1] != ']'
}

// classItem reads one character of a class, or a set: an escape such as \d, or [:alpha:].
func (p *parser) classItem() (rune, runeSet, error) {
	at := p.pos
	if p.syntax != ECMA && p.take("[:") {
		name, _, ok := strings.Cut(p.text[p.pos:], ":]")
		name, negated := strings.CutPrefix(name, "^")
		set, known := posixClasses[name]
		if !ok || !known {
			return 0, nil, p.failAt(at, "%q is not a class", "[:"+name+":]")
		}
		p.pos += strings.Index(p.text[p.pos:], ":]") + 2
		if negated {
			set = set.negate()
		}
		return 0, set, nil
	}
	r := p.next()
	if r != '\\' || !p.more() {
		return r, nil, nil
	}
	switch c := p.peek(); {
	case strings.ContainsRune("dDwWsSpP", c):
		set, err := p.escaped(at)
		if set == nil {
			set = runeSet{}
		}
		return 0, set, err
	case c == 'b':
		p.next()
		return '\b', nil, nil
	case c >= '1' && c <= '9':
		return 0, nil, p.failAt(at, "octal escapes are not supported")
	}
	c, err := p.escapedRune(p.next(), at)
	return c, nil, err
}
