package pattern

import (
	"slices"
	"sync"
	"unicode"
)

// runeSet is a set of code points as ranges, two numbers each: first and last. The ranges are
// sorted and neither overlap nor touch. Surrogates are never members.
type runeSet []rune

// newRuneSet returns the set of the given ranges, which may be in any order and overlap.
func newRuneSet(pairs ...rune) runeSet {
	type span struct{ lo, hi rune }
	spans := make([]span, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] <= pairs[i+1] {
			spans = append(spans, span{pairs[i], pairs[i+1]})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return int(a.lo) - int(b.lo) })
	var set runeSet
	for _, s := range spans {
		if n := len(set); n > 0 && s.lo <= set[n-1]+1 {
			set[n-1] = max(set[n-1], s.hi)
			continue
		}
		set = append(set, s.lo, s.hi)
	}
	return set.withoutSurrogates()
}

const (
	firstSurrogate = 0xD800
	lastSurrogate  = 0xDFFF
)

func (s runeSet) withoutSurrogates() runeSet {
	out := make(runeSet, 0, len(s)+2)
	for i := 0; i < len(s); i += 2 {
		lo, hi := s[i], s[i+1]
		if hi < firstSurrogate || lo > lastSurrogate {
			out = append(out, lo, hi)
			continue
		}
		if lo < firstSurrogate {
			out = append(out, lo, firstSurrogate-1)
		}
		if hi > lastSurrogate {
			out = append(out, lastSurrogate+1, hi)
		}
	}
	return out
}

func (s runeSet) union(other runeSet) runeSet {
	return newRuneSet(append(slices.Clone(s), other...)...)
}

func (s runeSet) negate() runeSet {
	var out runeSet
	next := rune(0)
	for i := 0; i < len(s); i += 2 {
		if s[i] > next {
			out = append(out, next, s[i]-1)
		}
		next = s[i+1] + 1
	}
	if next <= unicode.MaxRune {
		out = append(out, next, unicode.MaxRune)
	}
	return out.withoutSurrogates()
}

// fold adds the characters that differ from a member only in case.
func (s runeSet) fold() runeSet {
	pairs := slices.Clone(s)
	cased := casedRunes()
	for i := 0; i < len(s); i += 2 {
		at, _ := slices.BinarySearch(cased, s[i])
		for ; at < len(cased) && cased[at] <= s[i+1]; at++ {
			for r := unicode.SimpleFold(cased[at]); r != cased[at]; r = unicode.SimpleFold(r) {
				pairs = append(pairs, r, r)
			}
		}
	}
	return newRuneSet(pairs...)
}

func fromTable(table *unicode.RangeTable) runeSet {
	var pairs []rune
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			pairs = append(pairs, lo, hi)
			return
		}
		for r := lo; r <= hi; r += stride {
			pairs = append(pairs, r, r)
		}
	}
	for _, r := range table.R16 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	for _, r := range table.R32 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	return newRuneSet(pairs...)
}

var (
	digits     = newRuneSet('0', '9')
	wordRunes  = newRuneSet('0', '9', 'A', 'Z', '_', '_', 'a', 'z')
	newlines   = newRuneSet('\n', '\n', '\r', '\r', 0x2028, 0x2029)
	anyRune    = runeSet(nil).negate()
	ecmaSpaces = newRuneSet('\t', '\r', ' ', ' ', 0xA0, 0xA0, 0x1680, 0x1680, 0x2000, 0x200A, 0x2028, 0x2029,
		0x202F, 0x202F, 0x205F, 0x205F, 0x3000, 0x3000, 0xFEFF, 0xFEFF)
	pythonSpaces = newRuneSet('\t', '\r', 0x1C, ' ', 0x85, 0x85, 0xA0, 0xA0, 0x1680, 0x1680, 0x2000, 0x200A, 0x2028, 0x2029,
		0x202F, 0x202F, 0x205F, 0x205F, 0x3000, 0x3000)
)

// casedRunes returns the characters that differ from others only in case, in order.
var casedRunes = sync.OnceValue(func() []rune {
	var list []rune
	for _, table := range []*unicode.RangeTable{unicode.L, unicode.M, unicode.N, unicode.S} {
		set := fromTable(table)
		for i := 0; i < len(set); i += 2 {
			for r := set[i]; r <= set[i+1]; r++ {
				if unicode.SimpleFold(r) != r {
					list = append(list, r)
				}
			}
		}
	}
	slices.Sort(list)
	return list
})
