package grammar

import (
	"slices"
	"unicode/utf8"
)

// tokenSet is a set of tokens that does not change: the bits of a mask, or a list where it has few
// tokens.
type tokenSet struct {
	dense []uint32
	list  []int32
}

// newTokenSet returns the set of list, which it owns. A token may be in it more than once.
func newTokenSet(list []int32, words int) *tokenSet {
	if len(list) <= words/2 {
		return &tokenSet{list: slices.Clip(list)}
	}
	s := &tokenSet{dense: make([]uint32, words)}
	for _, id := range list {
		s.dense[id>>5] |= 1 << (id & 31)
	}
	return s
}

func (s *tokenSet) bytes() int { return 48 + 4*len(s.dense) + 4*len(s.list) }

// write makes mask the union of sets. mask has at least the words of the sets.
func write(mask []uint32, sets []*tokenSet) {
	filled := false
	for _, s := range sets {
		switch {
		case s.dense == nil:
		case !filled:
			clear(mask[copy(mask, s.dense):])
			filled = true
		default:
			into := mask[:len(s.dense)]
			for i, w := range s.dense {
				into[i] |= w
			}
		}
	}
	if !filled {
		clear(mask)
	}
	for _, s := range sets {
		for _, id := range s.list {
			mask[id>>5] |= 1 << (id & 31)
		}
	}
}

// maxSliceRunes is the most characters of a plain token.
const maxSliceRunes = 64

// makeSlices computes the sets of plain tokens of at most n characters, for n up to maxSliceRunes.
func (v *Vocabulary) makeSlices(plain []tokenText) {
	byLength := make([][]int32, maxSliceRunes+1)
	for _, t := range plain {
		n := utf8.RuneCountInString(t.text)
		byLength[n] = append(byLength[n], t.id)
	}
	dense := make([]uint32, v.words())
	for n, ids := range byLength {
		for _, id := range ids {
			dense[id>>5] |= 1 << (id & 31)
		}
		if n > 0 && len(ids) == 0 {
			v.slices = append(v.slices, v.slices[n-1])
			continue
		}
		v.slices = append(v.slices, &tokenSet{dense: slices.Clone(dense)})
	}
}

// allPlain is the set of all plain tokens.
func (v *Vocabulary) allPlain() *tokenSet { return v.slices[maxSliceRunes] }
