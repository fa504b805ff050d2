package chat

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// quoted reads a string literal. It may span lines.
func (l *lexer) quoted(quote byte) error {
	start := l.pos
	for i := start + 1; i < len(l.src); i++ {
		switch l.src[i] {
		case '\\':
			i++
		case quote:
			s, err := unescape(l.src[start+1 : i])
			if err != nil {
				return err
			}
			l.pos = i + 1
			l.add(tokString, s, start)
			return nil
		}
	}
	return errors.New("the string has no end")
}

// unescape resolves the escapes of a Python string literal. A backslash that starts none of them stays.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	const escaped, meant = `\'"abfnrtv`, "\\'\"\a\b\f\n\r\t\v"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++ // a literal never ends in a single backslash
		c := s[i]
		if k := strings.IndexByte(escaped, c); k >= 0 {
			b.WriteByte(meant[k])
			continue
		}
		switch {
		case c == '\n': // the line goes on
		case c >= '0' && c <= '7':
			n := 1
			for n < 3 && i+n < len(s) && s[i+n] >= '0' && s[i+n] <= '7' {
				n++
			}
			code, _ := strconv.ParseUint(s[i:i+n], 8, 32)
			b.WriteRune(rune(code))
			i += n - 1
		case c == 'x' || c == 'u' || c == 'U':
			digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			if i+digits >= len(s) {
				return "", errors.New("a string has a truncated escape")
			}
			code, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
			if err != nil || code > utf8.MaxRune {
				return "", errors.New("a string has an escape that is no character")
			}
			b.WriteRune(rune(code)) // U+FFFD for half a surrogate pair
			i += digits
		case c == 'N':
			return "", errors.New(`\N{...} is not supported in strings`)
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}
