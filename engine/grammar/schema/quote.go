package schema

import (
	"fmt"
	"strings"

	"github.com/ingot-run/ingot/engine/grammar/regex"
)

// A string has one canonical spelling: characters stand for themselves, except the quote, the
// backslash and control characters, which have the shortest escape. Whatever depends on the text of
// a string (pattern, format, enum, keys) is about its canonical spelling, so that complements and
// intersections of spellings are those of texts.

// Quoted is the alphabet of characters as they are spelled within a JSON string.
type Quoted struct{}

var escapes = map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

func escaped(r rune) (string, bool) {
	if s, ok := escapes[r]; ok {
		return s, true
	}
	if r < ' ' {
		return fmt.Sprintf(`\u%04x`, r), true
	}
	return "", false
}

// Runes returns one character of ranges in its canonical spelling.
func (Quoted) Runes(b *regex.Builder, ranges []regex.RuneRange) regex.Node {
	var plain []regex.RuneRange
	var list []regex.Node
	for _, r := range ranges {
		lo := r.Lo
		for _, c := range special {
			if c < r.Lo || c > r.Hi {
				continue
			}
			s, _ := escaped(c)
			list = append(list, b.Literal(s))
			if c > lo {
				plain = append(plain, regex.RuneRange{Lo: lo, Hi: c - 1})
			}
			lo = c + 1
		}
		if lo <= r.Hi {
			plain = append(plain, regex.RuneRange{Lo: lo, Hi: r.Hi})
		}
	}
	if len(plain) > 0 {
		list = append(list, b.Runes(plain...))
	}
	return b.Or(list...)
}

// special are the characters that have to be escaped, in order.
var special = func() []rune {
	var list []rune
	for r := rune(0); r < 0x80; r++ {
		if _, ok := escaped(r); ok {
			list = append(list, r)
		}
	}
	return list
}()

// quoteBody returns the canonical spelling of a text, without the quotes around it.
func quoteBody(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { _, ok := escaped(r); return ok }) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if s, ok := escaped(r); ok {
			b.WriteString(s)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Quote returns a text as a JSON string in its canonical spelling.
func Quote(text string) string { return `"` + quoteBody(text) + `"` }
