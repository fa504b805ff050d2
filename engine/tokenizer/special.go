package tokenizer

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// specialTokens finds special tokens in a text before the text is encoded. If several tokens match
// at one position, the longest is used. The tokens are stored as a trie. A node below which there
// is only one token is a leaf. It stores the rest of the token's text.
type specialTokens struct {
	first [256]int32 // node of a token's first byte; 0 for none
	bytes []byte     // [nodes] last byte on the path to the node
	nodes []specialNode
}

// specialNode represents the tokens that have a beginning in common. Its children, one a byte, are
// nodes child to child+children-1.
type specialNode struct {
	child, children int32
	id              int32  // id of the token that ends here; none if no token does
	rest            string // the text that must follow for this token; empty in nodes with children
}

type specialToken struct {
	text string
	id   int32
}

// maxSpecialBytes is the maximum length of a special token. Those of real models have less than 100
// bytes. The limit bounds the time of a search and the depth of fill's recursion.
const maxSpecialBytes = 4 << 10

func newSpecialTokens(v *vocabulary, kinds ...kind) *specialTokens {
	var tokens []specialToken
	for id, text := range v.tokens {
		if text != "" && slices.Contains(kinds, v.kinds[id]) {
			tokens = append(tokens, specialToken{text, int32(id)})
		}
	}
	slices.SortFunc(tokens, func(a, b specialToken) int { return cmp.Compare(a.text, b.text) })
	s := &specialTokens{bytes: make([]byte, 1), nodes: make([]specialNode, 1)}
	s.fill(0, tokens, 0) // the root
	for i, n := int32(0), s.nodes[0]; i < n.children; i++ {
		s.first[s.bytes[n.child+i]] = n.child + i
	}
	return s
}

// fill sets a node and makes the nodes below it. tokens must be sorted by their texts. depth is the
// number of bytes at the beginning that these texts have in common.
func (s *specialTokens) fill(node int32, tokens []specialToken, depth int) {
	n := specialNode{id: none}
	switch {
	case len(tokens) == 1 && depth > 0:
		n.id, n.rest, tokens = tokens[0].id, tokens[0].text[depth:], nil
	case len(tokens) > 0 && len(tokens[0].text) == depth:
		n.id, tokens = tokens[0].id, tokens[1:]
	}
	n.child = int32(len(s.nodes))
	var groups [][]specialToken
	for len(tokens) > 0 {
		c := tokens[0].text[depth]
		end := slices.IndexFunc(tokens, func(t specialToken) bool { return t.text[depth] != c })
		if end < 0 {
			end = len(tokens)
		}
		s.nodes, s.bytes = append(s.nodes, specialNode{}), append(s.bytes, c)
		groups, tokens = append(groups, tokens[:end]), tokens[end:]
	}
	n.children = int32(len(groups))
	s.nodes[node] = n
	for i, group := range groups {
		s.fill(n.child+int32(i), group, depth+1)
	}
}

// find returns the position, length and id of the first special token in the text. If there is
// none, the position is len(text).
func (s *specialTokens) find(text string, p *pacer) (at, length int, id int32) {
	for i := range len(text) {
		if node := s.first[text[i]]; node != 0 && !p.stop() {
			if length, id := s.match(node, text[i:]); length > 0 {
				return i, length, id
			}
		}
	}
	return len(text), 0, none
}

// match returns the length in bytes and the id of the longest special token at the beginning of a
// text. The length is 0 if there is none. node is the node of the text's first byte.
func (s *specialTokens) match(node int32, text string) (length int, id int32) {
	id = none
	for depth := 1; ; depth++ {
		n := &s.nodes[node]
		if n.id != none && strings.HasPrefix(text[depth:], n.rest) {
			length, id = depth+len(n.rest), n.id
		}
		if n.children == 0 || depth == len(text) {
			return length, id
		}
		i := index(s.bytes[n.child:n.child+n.children], text[depth])
		if i < 0 {
			return length, id
		}
		node = n.child + int32(i)
	}
}

// index returns the same as bytes.IndexByte. It is faster for few bytes, because it can be inlined.
func index(all []byte, b byte) int {
	if len(all) > 8 {
		return bytes.IndexByte(all, b)
	}
	for i, c := range all {
		if c == b {
			return i
		}
	}
	return -1
}
