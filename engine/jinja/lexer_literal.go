package jinja

import (
	"errors"
	"fmt"
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

// number reads an integer (decimal, 0x, 0o, 0b) or a float; single underscores may stand between digits.
func (l *lexer) number() error {
	start := l.pos
	afterDot := start > 0 && l.src[start-1] == '.' // x.1.2 is two subscripts
	if end := floatEnd(l.src, start); end > 0 && !afterDot {
		l.pos = end
		f, _ := strconv.ParseFloat(strings.ReplaceAll(l.src[start:end], "_", ""), 64)
		l.tokens = append(l.tokens, token{kind: tokNumber, value: f, offset: start})
		return nil
	}
	base, digits := 10, start
	if l.src[start] == '0' && start+2 < len(l.src) {
		switch l.src[start+1] | 0x20 {
		case 'x':
			base = 16
		case 'o':
			base = 8
		case 'b':
			base = 2
		}
		if base != 10 && digitsEnd(l.src, start+2, base) > start+2 {
			digits = start + 2
		} else {
			base = 10
		}
	}
	l.pos = digitsEnd(l.src, digits, base)
	if base == 10 && l.src[start] == '0' && strings.Trim(l.src[start:l.pos], "0_") != "" {
		return errors.New("an integer other than 0 must not start with 0")
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(l.src[digits:l.pos], "_", ""), base, 64)
	if err != nil {
		return fmt.Errorf("the integer %s is too large", l.src[start:l.pos])
	}
	l.tokens = append(l.tokens, token{kind: tokNumber, value: n, offset: start})
	return nil
}

// floatEnd is where the float ends that starts at i, or 0 if it is none: it needs a fraction or an exponent.
func floatEnd(s string, i int) int {
	end, isFloat := digitsEnd(s, i, 10), false
	if end+1 < len(s) && s[end] == '.' && digitsEnd(s, end+1, 10) > end+1 {
		end, isFloat = digitsEnd(s, end+1, 10), true
	}
	if end < len(s) && s[end]|0x20 == 'e' {
		exp := end + 1
		if exp < len(s) && (s[exp] == '+' || s[exp] == '-') {
			exp++
		}
		if e := digitsEnd(s, exp, 10); e > exp {
			end, isFloat = e, true
		}
	}
	if !isFloat {
		return 0
	}
	return end
}

// digitsEnd is where the digits end that start at i.
func digitsEnd(s string, i, base int) int {
	isDigit := func(i int) bool { return i >= 0 && i < len(s) && digitOf(s[i], base) }
	for i < len(s) && (digitOf(s[i], base) || s[i] == '_' && isDigit(i-1) && isDigit(i+1)) {
		i++
	}
	return i
}

func digitOf(c byte, base int) bool {
	if c >= '0' && c <= '9' {
		return int(c-'0') < base
	}
	return base == 16 && c|0x20 >= 'a' && c|0x20 <= 'f'
}
