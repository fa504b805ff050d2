package tokenizer

import "slices"

// specialTokens finds tokens that are matched in the text itself, before it is
// encoded: where several start at one place the longest.
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

// find gives the place, length and id of the first one in the text; at is
// len(text) if there is none.
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
