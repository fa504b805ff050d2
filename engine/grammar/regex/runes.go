package regex

import (
	"slices"
	"unicode/utf8"
)

// RuneRange is the runes from Lo to Hi, both included.
type RuneRange struct{ Lo, Hi rune }

type runeCache struct {
	full [4]Node // any sequence of that many continuation bytes; 0 is not known
}

// Runes matches one rune of ranges, in UTF-8. Surrogates are left out, since UTF-8 has none.
func (b *Builder) Runes(ranges ...RuneRange) Node {
	list := normalise(ranges)
	if !b.spend(1 + len(list)) {
		return Nothing
	}
	var alternatives []Node
	var ascii ByteSet
	lo := rune(0)
	for width, hi := range [...]rune{0x7f, 0x7ff, 0xffff, utf8.MaxRune} {
		part := clip(list, lo, hi)
		lo = hi + 1
		if len(part) == 0 {
			continue
		}
		if width == 0 {
			for _, r := range part {
				ascii.AddRange(byte(r.Lo), byte(r.Hi))
			}
			alternatives = append(alternatives, b.Bytes(ascii))
			continue
		}
		lead := [...]byte{0, 0xc0, 0xe0, 0xf0}[width]
		alternatives = append(alternatives, b.sequences(part, width, lead)...)
	}
	return b.Or(alternatives...)
}

// NotRunes matches one rune that is not in ranges, in UTF-8.
func (b *Builder) NotRunes(ranges ...RuneRange) Node {
	var list []RuneRange
	next := rune(0)
	for _, r := range normalise(ranges) {
		if r.Lo > next {
			list = append(list, RuneRange{next, r.Lo - 1})
		}
		next = r.Hi + 1
	}
	if next <= utf8.MaxRune {
		list = append(list, RuneRange{next, utf8.MaxRune})
	}
	return b.Runes(list...)
}

// AnyRune matches one rune in UTF-8.
func (b *Builder) AnyRune() Node { return b.Runes(RuneRange{0, utf8.MaxRune}) }

// Text matches any text in UTF-8, including the empty one.
func (b *Builder) Text() Node { return b.Repeat(b.AnyRune(), 0, Unbounded) }

// normalise sorts ranges, joins them and removes what is not a rune.
func normalise(ranges []RuneRange) []RuneRange {
	var list []RuneRange
	for _, r := range ranges {
		r.Lo, r.Hi = max(r.Lo, 0), min(r.Hi, utf8.MaxRune)
		const first, last = 0xd800, 0xdfff
		if r.Lo < first && r.Hi >= first {
			list = append(list, RuneRange{r.Lo, first - 1})
			r.Lo = first
		}
		if r.Lo >= first && r.Lo <= last {
			r.Lo = last + 1
		}
		if r.Lo <= r.Hi {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(x, y RuneRange) int { return int(x.Lo - y.Lo) })
	joined := list[:0]
	for _, r := range list {
		if n := len(joined); n > 0 && r.Lo <= joined[n-1].Hi+1 {
			joined[n-1].Hi = max(joined[n-1].Hi, r.Hi)
		} else {
			joined = append(joined, r)
		}
	}
	return joined
}

// clip returns the parts of sorted ranges from lo to hi.
func clip(ranges []RuneRange, lo, hi rune) []RuneRange {
	i, _ := slices.BinarySearchFunc(ranges, lo, func(r RuneRange, lo rune) int { return int(r.Hi - lo) })
	var list []RuneRange
	for ; i < len(ranges) && ranges[i].Lo <= hi; i++ {
		list = append(list, RuneRange{max(ranges[i].Lo, lo), min(ranges[i].Hi, hi)})
	}
	return list
}

// sequences returns alternatives, one for each group of first bytes with the same continuations:
// the runes of ranges as a first byte above lead and width continuation bytes. Each range fits.
func (b *Builder) sequences(ranges []RuneRange, width int, lead byte) []Node {
	shift := 6 * width
	groups := map[Node]*ByteSet{}
	var order []Node
	for i := 0; i < len(ranges); {
		v := ranges[i].Lo >> shift
		start, end := v<<shift, (v+1)<<shift-1
		part := clip(ranges[i:], start, end)
		var tail Node
		if len(part) == 1 && part[0].Lo == start && part[0].Hi == end {
			tail = b.full(width)
		} else {
			for j := range part {
				part[j].Lo -= start
				part[j].Hi -= start
			}
			tail = b.continuations(part, width)
		}
		if groups[tail] == nil {
			groups[tail] = &ByteSet{}
			order = append(order, tail)
		}
		groups[tail].Add(lead | byte(v))
		for i < len(ranges) && ranges[i].Hi <= end {
			i++
		}
		if i < len(ranges) && ranges[i].Lo <= end {
			ranges = slices.Clone(ranges[i:])
			ranges[0].Lo = end + 1
			i = 0
		}
	}
	var list []Node
	for _, tail := range order {
		list = append(list, b.concat(b.Bytes(*groups[tail]), tail))
	}
	return list
}

// continuations matches width continuation bytes whose bits are a number in ranges.
func (b *Builder) continuations(ranges []RuneRange, width int) Node {
	if !b.spend(1 + len(ranges)) {
		return Nothing
	}
	if width == 1 {
		var s ByteSet
		for _, r := range ranges {
			s.AddRange(0x80|byte(r.Lo), 0x80|byte(r.Hi))
		}
		return b.Bytes(s)
	}
	return b.Or(b.sequences(ranges, width-1, 0x80)...)
}

func (b *Builder) full(width int) Node {
	if b.runes.full[width] == 0 {
		var s ByteSet
		s.AddRange(0x80, 0xbf)
		one := b.Bytes(s)
		b.runes.full[width] = b.Concat(slices.Repeat([]Node{one}, width)...)
	}
	return b.runes.full[width]
}
