package jinja

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

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

// unescape returns the value of a Python string literal. A backslash that does not begin an escape remains in the text. offset is the
// position of the literal, for errors.
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
			failAt(offset, `the escape \%c in strings is not supported in chat templates; use \x or \u`, c)
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String()
}

// number reads a decimal integer or a float.
func (l *lexer) number() {
	start := l.pos
	afterDot := start > 0 && l.src[start-1] == '.' // x.1.2 has the subscripts 1 and 2, not the float 1.2
	var value Value
	if end := floatEnd(l.src, start); end > 0 && !afterDot {
		l.pos = end
		value, _ = strconv.ParseFloat(l.src[start:end], 64)
	} else {
		l.pos = digitsEnd(l.src, start)
		n, err := strconv.ParseInt(l.src[start:l.pos], 10, 64)
		if err != nil {
			failAt(start, "the integer %s is too large", l.src[start:l.pos])
		}
		value = n
		if l.src[start] == '0' && n != 0 {
			failAt(start, "an integer other than 0 must not start with 0")
		}
	}
	if l.pos < len(l.src) && strings.IndexByte("_xXoObB", l.src[l.pos]) >= 0 {
		failAt(start, "numbers with '%c' are not supported in chat templates; use decimal digits", l.src[l.pos])
	}
	l.tokens = append(l.tokens, token{kind: tokNumber, value: value, offset: start})
}

// floatEnd returns the end of the float that begins at i; 0 if there is none. A float has a fraction or an exponent.
func floatEnd(s string, i int) int {
	end, isFloat := digitsEnd(s, i), false
	if end+1 < len(s) && s[end] == '.' && digitsEnd(s, end+1) > end+1 {
		end, isFloat = digitsEnd(s, end+1), true
	}
	if end < len(s) && s[end]|0x20 == 'e' {
		exp := end + 1
		if exp < len(s) && (s[exp] == '+' || s[exp] == '-') {
			exp++
		}
		if e := digitsEnd(s, exp); e > exp {
			end, isFloat = e, true
		}
	}
	if !isFloat {
		return 0
	}
	return end
}

// digitsEnd returns the end of the digits that begin at i.
func digitsEnd(s string, i int) int {
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}
