package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokText
	tokPrintBegin // {{
	tokPrintEnd   // }}
	tokBlockBegin // {%
	tokBlockEnd   // %}
	tokName
	tokString
	tokNumber
	tokOp
)

type token struct {
	kind   tokenKind
	text   string // a name, an operator, the value of a string, or text of the template
	value  Value  // value of a number: int64 or float64
	offset int
}

// describe returns the name of a token for an error message.
func (t token) describe() string {
	switch t.kind {
	case tokEOF:
		return "the end of the template"
	case tokText:
		return "text"
	case tokPrintBegin:
		return "'{{'"
	case tokPrintEnd:
		return "'}}'"
	case tokBlockBegin:
		return "'{%'"
	case tokBlockEnd:
		return "'%}'"
	case tokString:
		return "a string"
	case tokNumber:
		return "a number"
	}
	return "'" + t.text + "'"
}

type lexer struct {
	src    string
	pos    int
	tokens []token
}

// lex splits a whole template into tokens. It removes white space around tags by the rules of trim_blocks (the newline after a block or
// comment), of lstrip_blocks (spaces between the start of a line and a block or comment) and of the signs - and + in tags.
func lex(src string) []token {
	l := lexer{src: src}
	for l.pos < len(src) {
		l.text()
	}
	return append(l.tokens, token{kind: tokEOF, offset: len(src)})
}

func (l *lexer) add(kind tokenKind, text string, offset int) {
	l.tokens = append(l.tokens, token{kind: kind, text: text, offset: offset})
}

// text reads the text up to the next tag, and then the tag.
func (l *lexer) text() {
	start := l.pos
	open := l.nextTag()
	if open < 0 {
		l.add(tokText, l.src[start:], start)
		l.pos = len(l.src)
		return
	}
	if rest, sign, ok := rawBegin(l.src[open:]); ok {
		l.textBefore(start, open, sign, true)
		l.pos = len(l.src) - len(rest)
		l.raw(open)
		return
	}
	kind := l.src[open+1]
	l.pos = open + 2
	sign := l.sign()
	l.textBefore(start, open, sign, kind != '{')
	switch kind {
	case '#':
		l.comment(open)
	case '%':
		l.add(tokBlockBegin, "", open)
		l.tag(true)
	default:
		l.add(tokPrintBegin, "", open)
		l.tag(false)
	}
}

// nextTag returns the offset of the next {{, {% or {#, or -1.
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

// sign reads a - or + after the opening of a tag. It returns 0 if there is none.
func (l *lexer) sign() byte {
	if l.pos < len(l.src) && (l.src[l.pos] == '-' || l.src[l.pos] == '+') {
		l.pos++
		return l.src[l.pos-1]
	}
	return 0
}

// textBefore adds the text between the offsets start and open as a token. A tag begins at offset open, and the white space that this tag
// removes is left out. sign is the sign after the opening of the tag. isBlock is false for {{, before which lstrip_blocks removes nothing.
func (l *lexer) textBefore(start, open int, sign byte, isBlock bool) {
	s := l.src[start:open]
	switch {
	case sign == '-':
		s = strings.TrimRightFunc(s, isSpace)
	case sign == 0 && isBlock:
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

// rawBegin reports whether s begins with a {% raw %} tag. It also returns the text after the tag and the sign after its {%: -, + or 0 for
// none.
func rawBegin(s string) (rest string, sign byte, ok bool) {
	s, ok = strings.CutPrefix(s, "{%")
	if !ok {
		return "", 0, false
	}
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[0], s[1:]
	}
	s, ok = strings.CutPrefix(strings.TrimLeftFunc(s, isSpace), "raw")
	if !ok {
		return "", 0, false
	}
	s = strings.TrimLeftFunc(s, isSpace)
	if rest, ok := strings.CutPrefix(s, "-%}"); ok {
		return strings.TrimLeftFunc(rest, isSpace), sign, true
	}
	rest, ok = strings.CutPrefix(s, "%}")
	return rest, sign, ok
}

// raw reads the text up to {% endraw %}.
func (l *lexer) raw(open int) {
	start := l.pos
	if start == len(l.src) {
		return // as in Jinja, an opening tag at the end of the template needs no closing tag
	}
	for i := start; ; i++ {
		n := strings.Index(l.src[i:], "{%")
		if n < 0 {
			failAt(open, "the statement 'raw' has no end: {%% endraw %%} is missing")
		}
		i += n
		l.pos = i + 2
		sign := l.sign()
		l.skipSpace()
		if !strings.HasPrefix(l.src[l.pos:], "endraw") {
			continue
		}
		l.pos += len("endraw")
		l.skipSpace()
		if l.close("%}", true) {
			l.textBefore(start, i, sign, true)
			return
		}
	}
}

func (l *lexer) comment(open int) {
	if l.pos == len(l.src) {
		return // as in Jinja, an opening {# at the end of the template needs no #}
	}
	n := strings.Index(l.src[l.pos:], "#}")
	if n < 0 {
		failAt(open, "the comment has no end: #} is missing")
	}
	l.pos += n
	if n > 0 && (l.src[l.pos-1] == '-' || l.src[l.pos-1] == '+') {
		l.pos--
	}
	l.close("#}", true)
}

// close reads the end of a tag, with or without a sign, and reports whether it was there. After an end with -, it also skips the white
// space. After an end without a sign, it skips a newline if trim is set.
func (l *lexer) close(end string, trim bool) bool {
	rest := l.src[l.pos:]
	switch {
	case strings.HasPrefix(rest, end):
		l.pos += len(end)
		if trim && strings.HasPrefix(l.src[l.pos:], "\n") {
			l.pos++
		}
	case strings.HasPrefix(rest, "-") && strings.HasPrefix(rest[1:], end):
		l.pos += 1 + len(end)
		l.skipSpace()
	case trim && strings.HasPrefix(rest, "+") && strings.HasPrefix(rest[1:], end):
		l.pos += 1 + len(end)
	default:
		return false
	}
	return true
}

func (l *lexer) skipSpace() {
	l.pos = len(l.src) - len(strings.TrimLeftFunc(l.src[l.pos:], isSpace))
}

// tag reads the tokens inside {{ }} or {% %}.
func (l *lexer) tag(block bool) {
	var open []byte // the closing brackets of all open brackets
	for {
		l.skipSpace()
		start := l.pos
		if len(open) == 0 {
			if block && l.close("%}", true) {
				l.add(tokBlockEnd, "", start)
				return
			}
			if !block && l.close("}}", false) {
				l.add(tokPrintEnd, "", start)
				return
			}
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
			open = append(open, '}')
		case "(":
			open = append(open, ')')
		case "[":
			open = append(open, ']')
		case "}", ")", "]":
			if len(open) == 0 {
				failAt(start, "unexpected '%s'", last.text)
			}
			if want := open[len(open)-1]; want != last.text[0] {
				failAt(start, "unexpected '%s', expected '%c'", last.text, want)
			}
			open = open[:len(open)-1]
		}
	}
}

// operators has all operators. Longer operators are first, because the first match is used.
var operators = []string{
	"//", "**", "==", "!=", ">=", "<=",
	"+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";",
}

// one reads one name, number, string or operator.
func (l *lexer) one() {
	start := l.pos
	rest := l.src[start:]
	c := rest[0]
	switch {
	case c >= '0' && c <= '9':
		l.number()
		return
	case c == '\'' || c == '"':
		l.quoted(c)
		return
	}
	if n := nameLength(rest); n > 0 {
		l.pos += n
		l.add(tokName, rest[:n], start)
		return
	}
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			l.pos += len(op)
			l.add(tokOp, op, start)
			return
		}
	}
	r, _ := utf8.DecodeRuneInString(rest)
	failAt(start, "unexpected character %q", r)
}

// nameLength returns the length in bytes of the identifier at the start of s; 0 if there is none.
func nameLength(s string) int {
	for i, r := range s {
		if r == '_' || unicode.IsLetter(r) || i > 0 && (unicode.IsDigit(r) || unicode.Is(unicode.Mn, r) || r == '·') {
			continue
		}
		return i
	}
	return len(s)
}
