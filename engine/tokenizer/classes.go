package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is a set of the character properties that split rules use.
type class uint8

const (
	letter class = 1 << iota // \p{L}
	number                   // \p{N}
	space                    // \s: White_Space
	punct                    // \p{P}
	symbol                   // \p{S}
	mark                     // \p{M}
	upper                    // \p{Lu} and \p{Lt}
	lower                    // \p{Ll}
)

// classTable has the class of every code point. A byte that is not part of valid UTF-8 counts as
// U+FFFD, which is a symbol.
type classTable [unicode.MaxRune + 1]class

// classes returns the table, which takes 1.1 MB. The first call makes it.
var classes = sync.OnceValue(func() *classTable {
	t := new(classTable)
	for c, tables := range map[class][]*unicode.RangeTable{
		letter: {unicode.L}, number: {unicode.N}, space: {unicode.White_Space}, punct: {unicode.P}, symbol: {unicode.S}, mark: {unicode.M},
		upper: {unicode.Lu, unicode.Lt}, lower: {unicode.Ll},
	} {
		for _, ranges := range tables {
			for _, r := range ranges.R16 {
				for x := rune(r.Lo); x <= rune(r.Hi); x += rune(r.Stride) {
					t[x] |= c
				}
			}
			for _, r := range ranges.R32 {
				for x := rune(r.Lo); x <= rune(r.Hi); x += rune(r.Stride) {
					t[x] |= c
				}
			}
		}
	}
	return t
})

// at returns the class of the character at s[i:] and its length in bytes. Both are 0 at the end of
// s.
func (t *classTable) at(s string, i int) (c class, width int) {
	if i >= len(s) {
		return 0, 0
	}
	if b := s[i]; b < utf8.RuneSelf {
		return t[b], 1
	}
	r, width := utf8.DecodeRuneInString(s[i:])
	return t[r], width
}

// run returns the end of the longest part at the start of s[i:] whose characters all have one of
// the wanted properties.
func (t *classTable) run(s string, i int, wanted class) int {
	for {
		c, width := t.at(s, i)
		if c&wanted == 0 {
			return i
		}
		i += width
	}
}

// others returns the end of the longest part at the start of s[i:] without letters, numbers and
// white space.
func (t *classTable) others(s string, i int) int { return t.without(s, i, space|letter|number) }

// without returns the end of the longest part at the start of s[i:] without characters of the given
// classes.
func (t *classTable) without(s string, i int, classes class) int {
	for {
		c, width := t.at(s, i)
		if width == 0 || c&classes != 0 {
			return i
		}
		i += width
	}
}
