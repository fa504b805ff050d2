package jinja

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokText
	tokName
	tokString
	tokNumber
	tokOp // an operator or the delimiter of a tag
)

type token struct {
	kind   tokenKind
	text   string // a name, an operator, a delimiter, the value of a string, or text of the template
	value  Value  // value of a number: int64 or float64
	offset int
}

func (t token) describe() string {
	switch t.kind {
	case tokEOF:
		return "the end of the template"
	case tokText:
		return "text"
	case tokString:
		return "a string"
	case tokNumber:
		return "a number"
	}
	return "'" + t.text + "'"
}

// The patterns of tokens. spaces matches what Python's str.isspace accepts, as isSpace does. A - in
// a delimiter removes the white space beside it. The end of a block or a comment also removes a
// newline, unless it has a +.
const (
	spaces   = `[\t-\r\x1c-\x1f\x{85}\pZ]*`
	endBlock = `(?:\+%\}|-%\}` + spaces + `|%\}\n?)`
	digits   = `\d+`
	exponent = `[eE][-+]?` + digits
)

var (
	blockEnd        = regexp.MustCompile(`^` + endBlock)
	printEnd        = regexp.MustCompile(`^(?:-\}\}` + spaces + `|\}\})`)
	commentEnd      = regexp.MustCompile(`\+#\}|-#\}` + spaces + `|#\}\n?`)
	rawBegin        = regexp.MustCompile(`^\{%([-+]?)` + spaces + `raw` + spaces + `(?:-%\}` + spaces + `|%\})`)
	rawEnd          = regexp.MustCompile(`\{%([-+]?)` + spaces + `endraw` + spaces + endBlock)
	newlineAfterEnd = regexp.MustCompile(`[^-][%#]\}\n$|^[%#]\}\n$`)
	leadingSpace    = regexp.MustCompile(`^` + spaces)
	leadingName     = regexp.MustCompile(`^[_\pL][_\pL\p{Nd}\p{Mn}·]*`)
	leadingInt      = regexp.MustCompile(`^` + digits)
	leadingFloat    = regexp.MustCompile(`^` + digits + `(?:\.` + digits + `(?:` + exponent + `)?|` + exponent + `)`)
)

// operators has all operators. Longer operators are first, because the first match is used.
var operators = []string{
	"//", "**", "==", "!=", ">=", "<=",
	"+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";",
}

type lexer struct {
	src    string
	keep   bool // tags remove white space only if they have a -
	pos    int
	tokens []token
}

// lex splits a whole template into tokens. It removes white space around tags by the rules of the
// signs - and + in tags and, unless keep is true, of trim_blocks (the newline after a block or
// comment) and of lstrip_blocks (spaces between the start of a line and a block or comment).
func lex(src string, keep bool) []token {
	l := lexer{src: src, keep: keep}
	for l.pos < len(src) {
		l.text()
	}
	return append(l.tokens, token{kind: tokEOF, offset: len(src)})
}

func (l *lexer) add(kind tokenKind, text string, offset int) {
	l.tokens = append(l.tokens, token{kind: kind, text: text, offset: offset})
}

func (l *lexer) text() {
	start := l.pos
	open := l.nextTag()
	if open < 0 {
		l.add(tokText, l.src[start:], start)
		l.pos = len(l.src)
		return
	}
	if m := rawBegin.FindStringSubmatch(l.src[open:]); m != nil {
		l.textBefore(start, open, m[1], true)
		l.pos = open + len(m[0])
		l.raw(open)
		return
	}
	delimiter := l.src[open : open+2]
	l.pos = open + 2
	sign := ""
	if rest := l.src[l.pos:]; rest != "" && (rest[0] == '-' || rest[0] == '+') {
		sign = rest[:1]
		l.pos++
	}
	l.textBefore(start, open, sign, delimiter != "{{")
	switch delimiter {
	case "{#":
		l.comment(open)
	case "{%":
		l.add(tokOp, delimiter, open)
		l.tag("%}", blockEnd)
	default:
		l.add(tokOp, delimiter, open)
		l.tag("}}", printEnd)
	}
}

func (l *lexer) nextTag() int {
	for i := l.pos; ; i++ {
		n := strings.IndexByte(l.src[i:], '{')
		if n < 0 || i+n+1 >= len(l.src) {
			return -1
		}
		i += n
		switch l.src[i+1] {
		case '{', '%', '#':
			return i
		}
	}
}

// textBefore adds the text between the offsets start and open as a token. A tag begins at offset
// open, and the white space that this tag removes is left out. sign is the sign after the opening
// of the tag. isBlock is false for {{, before which lstrip_blocks removes nothing.
func (l *lexer) textBefore(start, open int, sign string, isBlock bool) {
	s := l.src[start:open]
	switch {
	case sign == "-":
		s = strings.TrimRightFunc(s, isSpace)
	case sign == "" && isBlock && !l.keep:
		line := strings.LastIndexByte(s, '\n') + 1
		atLineStart := line > 0 || start == 0 || l.src[start-1] == '\n'
		if atLineStart && strings.TrimLeftFunc(s[line:], isSpace) == "" {
			s = s[:line]
		}
	}
	if s != "" {
		l.add(tokText, s, start)
	}
}

func (l *lexer) raw(open int) {
	if l.pos == len(l.src) {
		return // as in Jinja, an opening tag at the end of the template needs no closing tag
	}
	start, rest := l.pos, l.src[l.pos:]
	m := rawEnd.FindStringSubmatchIndex(rest)
	if m == nil {
		failAt(open, "the statement 'raw' has no end: {%% endraw %%} is missing")
	}
	l.textBefore(start, start+m[0], rest[m[2]:m[3]], true)
	l.passEnd(rest[m[0]:m[1]], m[0])
}

func (l *lexer) comment(open int) {
	if l.pos == len(l.src) {
		return // as in Jinja, an opening {# at the end of the template needs no #}
	}
	m := commentEnd.FindStringIndex(l.src[l.pos:])
	if m == nil {
		failAt(open, "the comment has no end: #} is missing")
	}
	l.passEnd(l.src[l.pos:][m[0]:m[1]], m[0])
}

// passEnd moves past the end of a block or comment, which begins after so many bytes. The patterns
// of ends include a newline, which may have to be kept.
func (l *lexer) passEnd(end string, after int) {
	l.pos += after + len(end)
	if l.keep && newlineAfterEnd.MatchString(end) {
		l.pos--
	}
}

// take moves past the text that a pattern matches at the current position, and returns it.
func (l *lexer) take(pattern *regexp.Regexp) string {
	s := pattern.FindString(l.src[l.pos:])
	l.pos += len(s)
	return s
}

func (l *lexer) tag(end string, pattern *regexp.Regexp) {
	var open []string // the closing brackets of all open brackets
	for {
		l.take(leadingSpace)
		start := l.pos
		if at := pattern.FindString(l.src[start:]); len(open) == 0 && at != "" {
			l.passEnd(at, 0)
			l.add(tokOp, end, start)
			return
		}
		if start >= len(l.src) {
			return // the parser reports the missing end of the tag
		}
		l.one()
		last := l.tokens[len(l.tokens)-1]
		if last.kind != tokOp {
			continue
		}
		switch last.text {
		case "{":
			open = append(open, "}")
		case "(":
			open = append(open, ")")
		case "[":
			open = append(open, "]")
		case "}", ")", "]":
			if len(open) == 0 {
				failAt(start, "unexpected '%s'", last.text)
			}
			if want := open[len(open)-1]; want != last.text {
				failAt(start, "unexpected '%s', expected '%s'", last.text, want)
			}
			open = open[:len(open)-1]
		}
	}
}

func (l *lexer) one() {
	start := l.pos
	rest := l.src[start:]
	if c := rest[0]; c == '\'' || c == '"' {
		l.quoted(c)
		return
	}
	if name := l.take(leadingName); name != "" {
		l.add(tokName, name, start)
		return
	}
	if leadingInt.MatchString(rest) {
		l.number()
		return
	}
	i := slices.IndexFunc(operators, func(op string) bool { return strings.HasPrefix(rest, op) })
	if i < 0 {
		r, _ := utf8.DecodeRuneInString(rest)
		failAt(start, "unexpected character %q", r)
	}
	l.pos += len(operators[i])
	l.add(tokOp, operators[i], start)
}

func (l *lexer) number() {
	start := l.pos
	afterDot := start > 0 && l.src[start-1] == '.' // x.1.2 has the subscripts 1 and 2, not the float 1.2
	var value Value
	if leadingFloat.MatchString(l.src[start:]) && !afterDot {
		value, _ = strconv.ParseFloat(l.take(leadingFloat), 64)
	} else {
		text := l.take(leadingInt)
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			failAt(start, "the integer %s is too large", text)
		}
		value = n
		if text[0] == '0' && n != 0 {
			failAt(start, "an integer other than 0 must not start with 0")
		}
	}
	if l.pos < len(l.src) && strings.IndexByte("_xXoObB", l.src[l.pos]) >= 0 {
		panic(failure{unsupported(fmt.Sprintf("numbers with '%c' are", l.src[l.pos]), "decimal digits"), start})
	}
	l.tokens = append(l.tokens, token{kind: tokNumber, value: value, offset: start})
}

// quoted reads a string literal, which may span lines.
func (l *lexer) quoted(quote byte) {
	start := l.pos
	for i := start + 1; i < len(l.src); i++ {
		switch l.src[i] {
		case '\\':
			i++
		case quote:
			l.pos = i + 1
			l.add(tokString, unescape(l.src[start+1:i], start), start)
			return
		}
	}
	failAt(start, "the string has no closing quote")
}

// unescape returns the value of a Python string literal. A backslash that does not begin an escape
// remains in the text. offset is the position of the literal, for errors.
func unescape(s string, offset int) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	const escaped, meant = `\'"abfnrtv`, "\\'\"\a\b\f\n\r\t\v"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++ // a backslash is never the last character of a literal
		c := s[i]
		if k := strings.IndexByte(escaped, c); k >= 0 {
			b.WriteByte(meant[k])
			continue
		}
		switch digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]; {
		case c == '\n': // a backslash at the end of a line removes the line break
		case digits > 0:
			end := min(i+1+digits, len(s))
			code, err := strconv.ParseUint(s[i+1:end], 16, 32)
			if end < i+1+digits || err != nil || code > utf8.MaxRune {
				failAt(offset, `the string has an escape \%c that does not represent a character`, c)
			}
			b.WriteRune(rune(code)) // U+FFFD for half a surrogate pair
			i += digits
		case c == 'N' || c >= '0' && c <= '7':
			panic(failure{unsupported(fmt.Sprintf(`the escape \%c in strings is`, c), `\x or \u`), offset})
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String()
}
