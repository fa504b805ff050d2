package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// This file has the methods of Python's str that depend on the properties of characters.

// isSpace reports whether Python's str.isspace is true for r: for Go's white space and for the
// separators U+001C to U+001F.
func isSpace(r rune) bool { return r >= 0x1c && r <= 0x1f || unicode.IsSpace(r) }

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// runeCount returns the length of s as Python's len does: in characters, not bytes.
func runeCount(s string) int { return utf8.RuneCountInString(s) }

// runeOffset returns the offset in bytes of the character with the given index; len(s) for an index
// past the end.
func runeOffset(s string, index int) int {
	if index <= 0 {
		return 0
	}
	for i := range s {
		if index == 0 {
			return i
		}
		index--
	}
	return len(s)
}

// Case mapping follows the full Unicode rules: ß becomes SS, and Σ at the end of a word becomes ς.
// A Caser has state, so each use makes a new one.

func upper(s string) string {
	if isASCII(s) {
		return strings.ToUpper(s)
	}
	return cases.Upper(language.Und).String(s)
}

func lower(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	return cases.Lower(language.Und).String(s)
}

func titleRune(r rune) string {
	if r < utf8.RuneSelf {
		return string(unicode.ToUpper(r))
	}
	if t := unicode.ToTitle(r); t != r || unicode.IsUpper(r) || unicode.IsTitle(r) {
		return string(t)
	}
	up := []rune(cases.Upper(language.Und).String(string(r)))
	return string(up[:1]) + strings.ToLower(string(up[1:]))
}

func capitalize(s string) string {
	if s == "" {
		return s
	}
	r, size := utf8.DecodeRuneInString(s)
	return titleRune(r) + lower(s[size:])
}

// title returns the result of Python's str.title. Every run of letters with case is a word.
func title(s string) string {
	var b strings.Builder
	inWord := false
	for i, r := range s {
		switch {
		case !isCased(r):
			b.WriteRune(r)
		case inWord:
			b.WriteString(lowerAt(s, i, r))
		default:
			b.WriteString(titleRune(r))
		}
		inWord = isCased(r)
	}
	return b.String()
}

// lowerAt returns the lower case of the character r, which begins at byte i of s. The lower case of
// a Σ depends on the next character.
func lowerAt(s string, i int, r rune) string {
	if r != 'Σ' {
		return lower(string(r))
	}
	next, _ := utf8.DecodeRuneInString(s[i+len("Σ"):])
	if isCased(next) {
		return "σ"
	}
	return "ς"
}

func isLowerCase(r rune) bool { return unicode.IsLower(r) || unicode.Is(unicode.Other_Lowercase, r) }
func isUpperCase(r rune) bool { return unicode.IsUpper(r) || unicode.Is(unicode.Other_Uppercase, r) }
func isCased(r rune) bool     { return isLowerCase(r) || isUpperCase(r) || unicode.IsTitle(r) }
func isAlpha(r rune) bool     { return unicode.IsLetter(r) }

func isDigit(r rune) bool {
	return unicode.Is(unicode.Nd, r) || r == '²' || r == '³' || r == '¹' || r == 0x2070 || r >= 0x2074 && r <= 0x2079 ||
		r >= 0x2080 && r <= 0x2089 || r >= 0x2460 && r <= 0x2468
}

// every reports whether s is not empty and in(r) is true for each character r of s.
func every(s string, in func(rune) bool) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return !in(r) }) < 0
}

// hasCase reports whether s has letters with case and in(r) is true for each such letter r.
func hasCase(s string, in func(rune) bool) bool {
	found := false
	for _, r := range s {
		if !isCased(r) {
			continue
		}
		if !in(r) {
			return false
		}
		found = true
	}
	return found
}

func isLineEnd(r rune) bool {
	switch r {
	case '\n', '\r', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		return true
	}
	return false
}

func (r *render) splitLines(s string, keepEnds bool) []string {
	n := 1
	for _, c := range s {
		if isLineEnd(c) {
			n++
		}
	}
	r.list(n)
	var lines []string
	for s != "" {
		i := strings.IndexFunc(s, isLineEnd)
		if i < 0 {
			return append(lines, s)
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			size = 2
		}
		if keepEnds {
			lines = append(lines, s[:i+size])
		} else {
			lines = append(lines, s[:i])
		}
		s = s[i+size:]
	}
	return lines
}

func fields(s string) int {
	n, inside := 0, false
	for _, c := range s {
		space := isSpace(c)
		if !space && !inside {
			n++
		}
		inside = !space
	}
	return n
}

// splitAt splits s at sep, at most limit times. It starts from the end of s if fromEnd is set.
func splitAt(s, sep string, limit int, fromEnd bool) []string {
	if limit >= len(s) {
		return strings.Split(s, sep)
	}
	if !fromEnd {
		return strings.SplitN(s, sep, limit+1)
	}
	var parts []string
	for i := strings.LastIndex(s, sep); i >= 0 && len(parts) < limit; i = strings.LastIndex(s, sep) {
		parts = append(parts, s[i+len(sep):])
		s = s[:i]
	}
	parts = append(parts, s)
	slices.Reverse(parts)
	return parts
}

// splitSpace splits s at white space, at most limit times. It starts from the end of s if fromEnd
// is set.
func splitSpace(s string, limit int, fromEnd bool) []string {
	if limit >= len(s) {
		return strings.FieldsFunc(s, isSpace)
	}
	var parts []string
	if fromEnd {
		for s = strings.TrimRightFunc(s, isSpace); s != ""; s = strings.TrimRightFunc(s, isSpace) {
			start := 0
			if i := strings.LastIndexFunc(s, isSpace); i >= 0 && len(parts) < limit {
				_, size := utf8.DecodeRuneInString(s[i:])
				start = i + size
			}
			parts = append(parts, s[start:])
			s = s[:start]
		}
		slices.Reverse(parts)
		return parts
	}
	for s = strings.TrimLeftFunc(s, isSpace); s != ""; s = strings.TrimLeftFunc(s, isSpace) {
		end := strings.IndexFunc(s, isSpace)
		if end < 0 || len(parts) == limit {
			end = len(s)
		}
		parts = append(parts, s[:end])
		s = s[end:]
	}
	return parts
}
