package tokenizer

import (
	"context"
	"math"
	"sort"
	"strings"
	"unicode/utf8"
)

// MarkControls inserts a mark after the first character of every text that can become a control
// token. At the end, the beginning of such a text is one too, because other text may follow.
func (t *Tokenizer) MarkControls(ctx context.Context, text, mark string) (string, error) {
	p := &pacer{ctx: ctx}
	var out strings.Builder
	from := 0
	for i := range len(text) {
		if p.stop() {
			return "", p.err
		}
		if i >= from && t.control.begins(text[i:]) {
			_, n := utf8.DecodeRuneInString(text[i:])
			out.WriteString(text[from : i+n])
			out.WriteString(mark)
			from = i + n
		}
	}
	if from == 0 {
		return text, nil
	}
	out.WriteString(text[from:])
	return out.String(), nil
}

// begins reports whether a text begins with a token, or is the beginning of one.
func (s *specialTokens) begins(text string) bool {
	node := s.first[text[0]]
	for depth := 1; node != 0; depth++ {
		n := &s.nodes[node]
		rest := text[depth:]
		switch {
		case n.id != none && (strings.HasPrefix(rest, n.rest) || strings.HasPrefix(n.rest, rest)), rest == "":
			return true
		case n.children == 0:
			return false
		}
		i := index(s.bytes[n.child:n.child+n.children], rest[0])
		if i < 0 {
			return false
		}
		node = n.child + int32(i)
	}
	return false
}

// findOutside is like specialTokens.find, but leaves out control tokens that overlap a part of
// EncodeOptions.Literal. The text begins at an offset of the whole text.
func (t *Tokenizer) findOutside(s *specialTokens, text string, offset int, literal [][2]int, p *pacer) (at, length int, id int32) {
	for at < len(text) {
		next, length, id := s.find(text[at:], p)
		at += next
		if length == 0 || t.vocab.kinds[id] == kindUserDefined || length <= room(literal, offset+at) {
			return at, length, id
		}
		if length, id = t.matchWithin(text[at:], room(literal, offset+at)); length > 0 {
			return at, length, id
		}
		at++
	}
	return len(text), 0, none
}

// matchWithin returns the longest token at the beginning of a text that is user-defined, or a
// control token within the first bytes.
func (t *Tokenizer) matchWithin(text string, bytes int) (length int, id int32) {
	if node := t.userDefined.first[text[0]]; node != 0 {
		length, id = t.userDefined.match(node, text)
	}
	if node := t.control.first[text[0]]; node != 0 && bytes > 0 {
		if n, control := t.control.match(node, text[:min(bytes, len(text))]); n > length {
			return n, control
		}
	}
	return length, id
}

// room returns the number of bytes from an offset to the next part; 0 if the offset is in a part.
func room(parts [][2]int, offset int) int {
	i := sort.Search(len(parts), func(i int) bool { return parts[i][1] > offset })
	if i == len(parts) {
		return math.MaxInt
	}
	return max(0, parts[i][0]-offset)
}
