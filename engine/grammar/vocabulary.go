package grammar

import "unicode/utf8"

// Vocabulary has the tokens of a model in the form that masks are computed from. It does not change
// and is safe for concurrent use.
type Vocabulary struct {
	size    int
	bytes   [][]byte // of each token, parts of one array; nil for special ones
	special map[string]int32
	ends    []int32
	isEnd   map[int32]bool
	// Tokens of whole characters that need no escape in JSON strings are in plain, all others, and
	// those with more than maxSliceRunes characters, in rest.
	plain, rest trie
	same        [][2]int32 // a token of a trie, and another one with its bytes
	longest     int        // bytes of the longest token in a trie
	slices      []*tokenSet
	order       []int32 // tokens of plain, in its order
	counts      []int32 // of each node of plain, and after the last: tokens before it
	summaries   summaries
}

// NewVocabulary prepares the tokens of a model, whose ids are below size. bytes returns a token's
// bytes, which may be a part of a character, and nil for special tokens, which no text matches.
// special returns a special token's name ("" if it is none). ends are the tokens that end an
// answer: they are allowed exactly where the grammar may end.
func NewVocabulary(size int, bytes func(int32) []byte, special func(int32) string, ends []int32) *Vocabulary {
	size = min(size, maxTokens)
	v := &Vocabulary{
		size: size, bytes: make([][]byte, size), special: map[string]int32{},
		isEnd: map[int32]bool{},
	}
	for _, id := range ends {
		if id >= 0 && int(id) < size && !v.isEnd[id] {
			v.ends = append(v.ends, id)
			v.isEnd[id] = true
		}
	}
	var plain, rest []tokenText
	var all []byte
	lengths := make([]int, size)
	for id := range int32(size) {
		if name := special(id); name != "" {
			if _, ok := v.special[name]; !ok {
				v.special[name] = id
			}
			continue
		}
		b := bytes(id)
		if v.isEnd[id] || len(b) == 0 || len(b) > maxTokenBytes {
			continue
		}
		lengths[id] = len(b)
		all = append(all, b...)
		v.longest = max(v.longest, len(b))
	}
	known := make(map[string]int32, size)
	text := string(all) // the keys of known, and what is sorted
	at := 0
	for id, n := range lengths {
		if n == 0 {
			continue
		}
		v.bytes[id] = all[at : at+n : at+n]
		t := tokenText{text[at : at+n], int32(id)}
		at += n
		if first, ok := known[t.text]; ok {
			v.same = append(v.same, [2]int32{first, t.id})
			continue
		}
		known[t.text] = t.id
		if isPlain(t.text) && utf8.RuneCountInString(t.text) <= maxSliceRunes {
			plain = append(plain, t)
		} else {
			rest = append(rest, t)
		}
	}
	v.plain, v.rest = newTrie(plain), newTrie(rest)
	v.makeSlices(plain)
	for _, n := range v.plain {
		v.counts = append(v.counts, int32(len(v.order)))
		if id := n.token(); id >= 0 {
			v.order = append(v.order, id)
		}
	}
	v.counts = append(v.counts, int32(len(v.order)))
	return v
}

// isPlain reports whether text is whole characters that stand for themselves in a JSON string.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < 0x20 || c == '"' || c == '\\' {
			return false
		}
	}
	return utf8.ValidString(text)
}

// Size is the number of token ids.
func (v *Vocabulary) Size() int { return v.size }

// words is the length of a mask of all tokens.
func (v *Vocabulary) words() int { return (v.size + 31) / 32 }

// tokensBelow returns the tokens of plain below node, without node's own.
func (v *Vocabulary) tokensBelow(node int) []int32 {
	return v.order[v.counts[node+1]:v.counts[node+v.plain[node].size()]]
}
