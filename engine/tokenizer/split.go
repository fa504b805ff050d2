package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// A matcher tries to match a regular expression at s[i:]. It returns the end of the match and true.
// If there is no match at i, it returns false and a later position. No match begins between i and
// that position.
type matcher func(s string, i int) (end int, ok bool)

// passes splits a text like a chain of splits in Hugging Face's tokenizers that have the behavior
// "isolated". The matches of the first matcher and the text between two matches become pieces. The
// next matcher splits each of these pieces again.
type passes []matcher

// split calls yield with the pieces of s, in order. Concatenated, the pieces are s.
func (p passes) split(s string, yield func(piece string)) {
	if s == "" {
		return
	}
	if len(p) == 0 {
		yield(s)
		return
	}
	start := 0 // start of the text that has not been passed to yield
	for i := 0; i < len(s); {
		end, ok := p[0](s, i)
		if ok {
			p[1:].split(s[start:i], yield)
			p[1:].split(s[i:end], yield)
			start = end
		}
		i = end
	}
	p[1:].split(s[start:], yield)
}

// gpt2 is a matcher for the following expression, which matches at every position:
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func gpt2(s string, i int) (int, bool) {
	t := classes()
	if n := contraction(s[i:], false); n > 0 {
		return i + n, true
	}
	j := i
	if s[i] == ' ' {
		j++
	}
	switch c, width := t.at(s, j); {
	case width == 0 || c&space != 0:
		return spaces(t, s, i), true
	case c&letter != 0:
		return t.run(s, j, letter), true
	case c&number != 0:
		return t.run(s, j, number), true
	default:
		return t.others(s, j), true
	}
}

// llama3 returns a matcher for the following expression, which matches at every position. digits is
// the maximum number of digits in a piece.
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}|
//	 ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func llama3(digits int) matcher { return words(digits, letter) }

// qwen35 is a matcher for llama3(1) with \p{M} as letters, except for the characters that can
// precede them:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|
//	 ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
var qwen35 = words(1, letter|mark)

// words is llama3 for another class of letters.
func words(digits int, letters class) matcher {
	return func(s string, i int) (int, bool) {
		t := classes()
		if n := contraction(s[i:], true); n > 0 {
			return i + n, true
		}
		c, width := t.at(s, i)
		if c&number != 0 {
			return upTo(t, s, i, number, digits), true
		}
		if c&letters != 0 {
			return t.run(s, i, letters), true
		}
		next, nextWidth := t.at(s, i+width)
		if next&letters != 0 && s[i] != '\r' && s[i] != '\n' {
			return t.run(s, i+width, letters), true
		}
		if c&space == 0 {
			return lineEnds(s, t.without(s, i, space|number|letters)), true
		}
		if s[i] == ' ' && nextWidth > 0 && next&(space|number|letters) == 0 {
			return lineEnds(s, t.without(s, i+1, space|number|letters)), true
		}
		return spacesOrLines(t, s, i), true
	}
}

// deepSeek3 is a matcher for
//
//	[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
//	 ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func deepSeek3(s string, i int) (int, bool) {
	t := classes()
	c, width := t.at(s, i)
	if asciiPunct(s[i]) && i+1 < len(s) && asciiLetter(s[i+1]) {
		i += 2
		for i < len(s) && asciiLetter(s[i]) {
			i++
		}
		return i, true
	}
	next, _ := t.at(s, i+width)
	switch {
	case c&(letter|mark) != 0:
		return t.run(s, i, letter|mark), true
	case c&(punct|symbol) == 0 && s[i] != '\r' && s[i] != '\n' && next&(letter|mark) != 0:
		return t.run(s, i+width, letter|mark), true
	case c&(punct|symbol) != 0:
		return lineEnds(s, t.run(s, i, punct|symbol)), true
	case s[i] == ' ' && next&(punct|symbol) != 0:
		return lineEnds(s, t.run(s, i+1, punct|symbol)), true
	case c&space != 0:
		return spacesOrLines(t, s, i), true
	}
	return i + width, false
}

// contraction returns the length of 's, 't, 're, 've, 'm, 'll or 'd at the start of s, or 0 if
// there is none. If fold is true, case is ignored.
func contraction(s string, fold bool) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	if fold && strings.HasPrefix(s[1:], "ſ") { // ſ is equal to s if case is ignored
		return 1 + len("ſ")
	}
	lower := func(i int) byte {
		if fold && s[i]-'A' < 26 {
			return s[i] + 'a' - 'A'
		}
		return s[i]
	}
	switch a := lower(1); a {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v', 'l':
		if len(s) < 3 {
			return 0
		}
		if b := lower(2); b == 'e' && a != 'l' || b == 'l' && a == 'l' {
			return 3
		}
	}
	return 0
}

// spaces returns the end of a match of \s+(?!\S)|\s+ at i, which must be white space. If the white
// space extends to the end of the text, all of it matches. Otherwise, its last character does not
// match, unless it is the only one.
func spaces(t *classTable, s string, i int) int {
	end := t.run(s, i, space)
	if end == len(s) {
		return end
	}
	if _, last := utf8.DecodeLastRuneInString(s[i:end]); end-last > i {
		return end - last
	}
	return end
}

// spacesOrLines returns the end of a match of \s*[\r\n]+|\s+(?!\S)|\s+ at i, which must be white
// space.
func spacesOrLines(t *classTable, s string, i int) int {
	end := t.run(s, i, space)
	if last := strings.LastIndexAny(s[i:end], "\r\n"); last >= 0 {
		return i + last + 1
	}
	return spaces(t, s, i)
}

// lineEnds returns the end of a match of [\r\n]* at i.
func lineEnds(s string, i int) int {
	for i < len(s) && (s[i] == '\r' || s[i] == '\n') {
		i++
	}
	return i
}

// upTo returns the end of the longest part of s[i:] that has at most n characters, each with one of
// the wanted properties.
func upTo(t *classTable, s string, i int, wanted class, n int) int {
	for range n {
		c, width := t.at(s, i)
		if c&wanted == 0 {
			break
		}
		i += width
	}
	return i
}

func asciiLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

func asciiPunct(b byte) bool {
	return b > ' ' && b < 0x7f && !asciiLetter(b) && (b < '0' || b > '9')
}
