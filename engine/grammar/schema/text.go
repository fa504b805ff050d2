package schema

import (
	"github.com/ingot-run/ingot/engine/grammar/regex"
)

// stringSet is a set of strings: those with a length in characters from min to max (-1 for no
// limit), whose canonical spelling, without the quotes, body matches.
type stringSet struct {
	none     bool
	min, max int
	body     regex.Node // regex.All for any
}

var (
	anyString = stringSet{max: -1, body: regex.All}
	noString  = stringSet{none: true}
)

func bodyStrings(body regex.Node) stringSet {
	if body == regex.Nothing {
		return noString
	}
	return stringSet{max: -1, body: body}
}

func (s *Schema) meetStrings(a, b stringSet) stringSet {
	if a.none || b.none {
		return noString
	}
	out := stringSet{min: max(a.min, b.min), max: meetMax(a.max, b.max), body: s.meetNodes(a.body, b.body, regex.All)}
	if out.max >= 0 && out.min > out.max || out.body == regex.Nothing {
		return noString
	}
	return out
}

// meetMax returns the smaller of two maxima, of which -1 is none.
func meetMax(a, b int) int {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// meetNodes is And, with an expression that matches everything in question.
func (s *Schema) meetNodes(a, b, all regex.Node) regex.Node {
	switch {
	case a == b || b == all:
		return a
	case a == all:
		return b
	}
	return s.re.And(a, b)
}

// bodyOf returns the expression of the canonical spellings, without quotes.
func (s *Schema) bodyOf(a stringSet) regex.Node {
	if a.none {
		return regex.Nothing
	}
	lengths := s.re.Repeat(s.char, a.min, a.max)
	switch {
	case a.body == regex.All:
		return lengths
	case a.min == 0 && a.max < 0:
		return a.body
	}
	return s.re.And(a.body, lengths)
}

func (s *Schema) joinStrings(sets []*Set) stringSet {
	out, equal := noString, true
	for _, set := range sets {
		switch a := set.strings; {
		case a == anyString:
			return a
		case a.none:
		case out.none:
			out = a
		default:
			equal = equal && a == out
		}
	}
	if equal {
		return out
	}
	var list []regex.Node
	for _, set := range sets {
		list = append(list, s.bodyOf(set.strings))
	}
	return bodyStrings(s.re.Or(list...))
}

func (s *Schema) notStrings(a stringSet) stringSet {
	switch {
	case a.none:
		return anyString
	case a == anyString:
		return noString
	case a.body == regex.All && a.min == 0:
		return stringSet{min: a.max + 1, max: -1, body: regex.All}
	case a.body == regex.All && a.max < 0:
		return stringSet{max: a.min - 1, body: regex.All}
	}
	return bodyStrings(s.re.Minus(s.re.Repeat(s.char, 0, regex.Unbounded), s.bodyOf(a)))
}

// spellStrings returns the expression of the strings with their quotes. Where only the length
// matters, characters may be escaped in any way that JSON has; elsewhere, spellings are canonical.
func (s *Schema) spellStrings(a stringSet) regex.Node {
	if a.none {
		return regex.Nothing
	}
	body := s.bodyOf(a)
	if a.body == regex.All {
		body = s.re.Repeat(s.anyChar, a.min, a.max)
	}
	quote := s.re.Literal(`"`)
	return s.re.Concat(quote, body, quote)
}

// anyCharacter returns one character of a JSON string, escaped or not. Halves of surrogate pairs
// are left out: they are no characters.
func anyCharacter(b *regex.Builder) regex.Node {
	plain := b.Runes(regex.RuneRange{Lo: ' ', Hi: '!'}, regex.RuneRange{Lo: '#', Hi: '['}, regex.RuneRange{Lo: ']', Hi: 0x10FFFF})
	hex := func(pairs ...string) regex.Node {
		var set regex.ByteSet
		for _, p := range pairs {
			set.AddRange(p[0], p[1])
		}
		return b.Bytes(set)
	}
	digit := hex("09", "af", "AF")
	noSurrogate := b.Or(
		b.Concat(hex("09", "ac", "AC", "ef", "EF"), digit, digit, digit),
		b.Concat(hex("dd", "DD"), hex("07"), digit, digit),
	)
	pair := b.Concat(hex("dd", "DD"), hex("89", "ab", "AB"), digit, digit, b.Literal(`\u`), hex("dd", "DD"), hex("cf", "CF"), digit, digit)
	return b.Or(plain,
		b.Concat(b.Literal(`\`), hex(`""`, `\\`, "//", "bb", "ff", "nn", "rr", "tt")),
		b.Concat(b.Literal(`\u`), b.Or(noSurrogate, pair)),
	)
}
