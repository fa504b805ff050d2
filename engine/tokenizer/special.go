package tokenizer

import "slices"

// specialTokens finds tokens that are matched in a text before it is encoded. Of several at one position, the longest is matched.
type specialTokens struct {
	ids     map[string]int32
	lengths [256][]int // by first byte, longest first
}

func newSpecialTokens(v *vocabulary, kinds ...kind) *specialTokens {
	s := &specialTokens{ids: map[string]int32{}}
	for id, text := range v.tokens {
		if text == "" || !slices.Contains(kinds, v.kinds[id]) {
			continue
		}
		s.ids[text] = int32(id)
		lengths := &s.lengths[text[0]]
		if !slices.Contains(*lengths, len(text)) {
			*lengths = append(*lengths, len(text))
		}
	}
	for _, lengths := range &s.lengths {
		slices.SortFunc(lengths, func(a, b int) int { return b - a })
	}
	return s
}

// find returns the position, length and id of the first one in the text. The position is len(text) if there is none.
func (s *specialTokens) find(text string) (at, length int, id int32) {
	if len(s.ids) == 0 {
		return len(text), 0, none
	}
	for i := range len(text) {
		for _, n := range s.lengths[text[i]] {
			if i+n > len(text) {
				continue
			}
			if id, ok := s.ids[text[i:i+n]]; ok {
				return i, n, id
			}
		}
	}
	return len(text), 0, none
}
