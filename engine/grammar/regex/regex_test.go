package regex

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// tree is an expression that is matched by its definition, text by text.
type tree struct {
	op          op
	text        string
	ranges      []RuneRange
	least, most int
	kids        []*tree
}

func drawTree(t *rapid.T, depth int) *tree {
	kinds := []op{opLiteral, opLiteral, opBytes, opEmpty}
	if depth > 0 {
		kinds = append(kinds, opConcat, opRepeat, opOr, opAnd, opNot, opConcat, opRepeat, opOr)
	}
	n := &tree{op: rapid.SampledFrom(kinds).Draw(t, "op"), least: 1, most: 1}
	kids := 0
	switch n.op {
	case opLiteral:
		n.text = rapid.StringOfN(rapid.SampledFrom([]rune("abé")), 0, 3, -1).Draw(t, "text")
	case opBytes:
		for range rapid.IntRange(0, 2).Draw(t, "ranges") {
			lo := rapid.SampledFrom([]rune{0, 'a', 'b', 'é', 0x7ff, 0x800, '€', 0xd7ff, 0xe000, 0x10000, 0x10ffff}).Draw(t, "lo")
			n.ranges = append(n.ranges, RuneRange{lo, lo + rapid.SampledFrom([]rune{-1, 0, 1, 64, 5000, 0x10ffff}).Draw(t, "more")})
		}
	case opConcat, opOr, opAnd:
		kids = rapid.IntRange(0, 10).Draw(t, "kids")
		if n.op != opOr {
			kids = min(kids, 3)
		}
	case opRepeat:
		kids = 1
		n.least = rapid.IntRange(0, 3).Draw(t, "least")
		n.most = rapid.SampledFrom([]int{Unbounded, n.least, n.least + 1, n.least + 4}).Draw(t, "most")
	case opNot:
		kids = 1
	}
	for range kids {
		n.kids = append(n.kids, drawTree(t, depth-1))
	}
	return n
}

func (n *tree) build(b *Builder) Node {
	var kids []Node
	for _, k := range n.kids {
		kids = append(kids, k.build(b))
	}
	switch n.op {
	case opLiteral:
		return b.Literal(n.text)
	case opBytes:
		return b.Runes(n.ranges...)
	case opConcat:
		return b.Concat(kids...)
	case opRepeat:
		return b.Repeat(kids[0], n.least, n.most)
	case opOr:
		return b.Or(kids...)
	case opAnd:
		return b.And(kids...)
	case opNot:
		return b.Not(kids[0])
	}
	return Empty
}

func (n *tree) matches(text string) bool {
	switch n.op {
	case opLiteral:
		return text == n.text
	case opBytes:
		r, size := utf8.DecodeRuneInString(text)
		if size != len(text) || size == 0 || r == utf8.RuneError && size == 1 {
			return false
		}
		for _, x := range n.ranges {
			if x.Lo <= r && r <= x.Hi {
				return true
			}
		}
		return false
	case opConcat:
		return sequence(n.kids, text)
	case opRepeat:
		return n.repeats(text, 0)
	case opOr:
		for _, k := range n.kids {
			if k.matches(text) {
				return true
			}
		}
		return false
	case opAnd:
		for _, k := range n.kids {
			if !k.matches(text) {
				return false
			}
		}
		return true
	case opNot:
		return !n.kids[0].matches(text)
	}
	return text == ""
}

func sequence(kids []*tree, text string) bool {
	if len(kids) == 0 {
		return text == ""
	}
	for i := range len(text) + 1 {
		if kids[0].matches(text[:i]) && sequence(kids[1:], text[i:]) {
			return true
		}
	}
	return false
}

func (n *tree) repeats(text string, count int) bool {
	if text == "" && (count >= n.least || n.kids[0].matches("")) {
		return true
	}
	if n.most != Unbounded && count >= n.most {
		return false
	}
	for i := 1; i <= len(text); i++ {
		if n.kids[0].matches(text[:i]) && n.repeats(text[i:], count+1) {
			return true
		}
	}
	// Empty ones count as well.
	return count < n.least && n.kids[0].matches("") && n.repeats(text, n.least)
}

func TestMatch(t *testing.T) {
	text := rapid.StringOfN(rapid.SampledFrom([]rune("abaé€\x00\U0001F600\ud7ff")), 0, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		b := NewBuilder(Limits{Nodes: 100_000, Work: 1_000_000})
		tree := drawTree(t, 3)
		n := tree.build(b)
		require.NoError(t, b.Err())
		empty, err := b.IsEmpty(n, 3000)
		first := b.First(n)
		f := b.Fork(b.Nodes(), Limits{Nodes: 100_000, Work: 1_000_000})
		for range 8 {
			s := text.Draw(t, "match")
			want := tree.matches(s)
			require.Equal(t, want, b.Match(n, s), "%q", s)
			require.Equal(t, want, f.Match(n, s), "%q", s)
			if want && err == nil {
				require.False(t, empty, "%q", s)
			}
			if want && s != "" {
				require.True(t, first.Has(s[0]), "%q", s)
			}
			for i := range len(s) { // bytes of a class are alike
				of, representatives := b.Classes()
				d := b.Derivative(n, s[i])
				require.Equal(t, d, b.Derivative(n, representatives[of[s[i]]]))
			}
		}
	})
}

func TestLongLiterals(t *testing.T) {
	b := NewBuilder(Limits{Nodes: 1000, Work: 100_000})
	long := strings.Repeat("0123456789", 50)
	n := b.Literal(long)
	assert.True(t, b.Match(n, long))
	assert.False(t, b.Match(n, long[1:]))
	assert.Equal(t, b.Literal(long[7:]), b.Derivative(b.Literal(long[6:]), long[6]), "texts with one end are one expression")
}

func TestLimits(t *testing.T) {
	b := NewBuilder(Limits{Nodes: 50, Work: 1_000_000})
	for i := range 60 {
		b.Literal(strings.Repeat("a", i))
	}
	require.ErrorIs(t, b.Err(), ErrNodes)
	assert.Equal(t, Nothing, b.Literal("b"))

	b = NewBuilder(Limits{Nodes: 1000, Work: 200})
	n := b.Repeat(b.Or(b.Literal("a"), b.Literal("bb")), 0, 1000)
	b.Match(n, strings.Repeat("a", 500))
	require.ErrorIs(t, b.Err(), ErrWork)
	b.Reset(100_000)
	assert.True(t, b.Match(n, strings.Repeat("a", 500)))

	b = NewBuilder(Limits{Nodes: 1 << 20, Work: 1 << 30})
	n = Empty
	for range maxDepth + 10 {
		n = b.Not(b.Concat(b.Literal("a"), n))
	}
	require.ErrorIs(t, b.Err(), ErrNodes)
	_, err := NewBuilder(Limits{Nodes: 1000, Work: 1000}).Repeat(Empty, 0, MaxRepeat+1), b.Err()
	require.Error(t, err)
}

// Runes has the runes of its ranges, and no bytes beside them, at and around every border.
func TestRunes(t *testing.T) {
	borders := []rune{0, 'a', 0x7f, 0x80, 0xbf, 0xc0, 0x7ff, 0x800, 0xfff, 0x1000, 0x103f, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x1003f, 0x10040, 0x3ffff, 0x40000, 0x10ffff}
	rapid.Check(t, func(t *rapid.T) {
		b := NewBuilder(Limits{Nodes: 100_000, Work: 1_000_000})
		var ranges []RuneRange
		for range rapid.IntRange(1, 4).Draw(t, "ranges") {
			lo := rapid.SampledFrom(borders).Draw(t, "lo") + rapid.Int32Range(-2, 2).Draw(t, "near")
			hi := rapid.SampledFrom(borders).Draw(t, "hi") + rapid.Int32Range(-2, 2).Draw(t, "near")
			ranges = append(ranges, RuneRange{lo, hi})
		}
		n, not := b.Runes(ranges...), b.NotRunes(ranges...)
		check := func(r rune) {
			want := false
			for _, x := range ranges {
				want = want || x.Lo <= r && r <= x.Hi
			}
			if !utf8.ValidRune(r) {
				return
			}
			require.Equal(t, want, b.Match(n, string(r)), "%x", r)
			require.Equal(t, !want, b.Match(not, string(r)), "%x", r)
		}
		for _, at := range append(borders, rapid.SliceOfN(rapid.Int32Range(0, utf8.MaxRune), 20, 20).Draw(t, "others")...) {
			for r := at - 3; r <= at+3; r++ {
				check(r)
			}
		}
		for _, bad := range []string{"\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80", "\xff", ""} {
			require.False(t, b.Match(n, bad) || b.Match(not, bad), "%q", bad)
		}
	})
}

// Counts of one expression are joined only where they meet.
func TestCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBuilder(Limits{Nodes: 100_000, Work: 1_000_000})
		var list []Node
		var counts [40]bool
		for range rapid.IntRange(1, 4).Draw(t, "alternatives") {
			least := rapid.IntRange(0, 8).Draw(t, "least")
			most := least + rapid.IntRange(0, 3).Draw(t, "more")
			list = append(list, b.Concat(b.Repeat(b.Literal("a"), least, most), b.Literal("b")))
			for i := least; i <= most; i++ {
				counts[i] = true
			}
		}
		n := b.Or(list...)
		for i, want := range counts {
			require.Equal(t, want, b.Match(n, strings.Repeat("a", i)+"b"), "%d", i)
		}
	})
}
