package grammar

import (
	"slices"

	"github.com/ingot-run/ingot/engine/grammar/regex"
)

// Most of what a lexer says is often what another one says, its base: in the first letters of a key
// that may be a known key or another, nearly all tokens lead to where only another key is possible.
// The tokens of such a lexer are those of its base, except below the nodes of the tries where the
// two are in different states.

// baseOf returns the base of l: a state after a plain character in which any plain text may follow.
// It is nil if there is none, or l is as easy as a base.
func (a *automaton) baseOf(l *lexer, w *work) *lexer {
	if l.plain.runes == regex.Unbounded && len(l.pairs) == 1 || l.plain.exactly {
		return nil
	}
	for _, c := range []byte("qZ7_ z") {
		next := a.advance(l, c, w)
		if next != l && next.plain.runes == regex.Unbounded && len(next.pairs) == 1 {
			return next
		}
	}
	return nil
}

// walkFrom finds the tokens of l as a difference to those of base.
func (b *summaryBuilder) walkFrom(l, base *lexer) {
	known := b.a.summarise(base, b.w)
	if b.w.err != nil {
		return
	}
	v := b.a.vocabulary
	b.bits = make([]uint32, v.words())
	write(b.bits, known.sets)
	var stale [2][]span
	for i, t := range [...]trie{v.plain, v.rest} {
		stale[i] = b.difference(t, l, base, int32(-i))
	}
	b.s.wide = known.wide
	for _, c := range known.crossings {
		b.crossFrom(c, base, stale)
	}
}

// span is nodes of a trie from first to before end.
type span struct{ first, end int32 }

// difference corrects the tokens at nodes where l and base are in different states. stale are the
// nodes whose crossings in the base say nothing about l: these nodes, and the children of those
// where a lexeme of the base ends.
func (b *summaryBuilder) difference(t trie, l, base *lexer, mark int32) (stale []span) {
	type both struct{ l, base *lexer }
	var stack [maxTokenBytes + 1]both
	stack[0] = both{l, base}
	visited := 0
	for i := 1; i < len(t); {
		n := t[i]
		d := n.depth()
		visited++
		next := both{noLexer, noLexer}
		if s := stack[d-1].l; s != noLexer {
			next.l = b.a.advance(s, n.byte(), b.w)
		}
		if s := stack[d-1].base; s != noLexer {
			next.base = b.a.advance(s, n.byte(), b.w)
		}
		if next.l == next.base {
			i += n.size()
			continue
		}
		if id := n.token(); id >= 0 {
			if b.bits[id>>5] &^= 1 << (id & 31); next.l != noLexer {
				b.add(id)
			}
		}
		if len(next.l.accepts) > 0 && n.size() > 1 {
			b.cross(t, i, next.l, mark)
		}
		size := 1
		if next.l == noLexer {
			size = n.size()
			for _, below := range t[i+1 : i+size] {
				if id := below.token(); id >= 0 {
					b.bits[id>>5] &^= 1 << (id & 31)
				}
			}
			visited += size
		}
		stale = append(stale, span{int32(i), int32(i + size)})
		if len(next.base.accepts) > 0 && size == 1 {
			for c, end := i+1, i+n.size(); c < end; c += t[c].size() {
				stale = append(stale, span{int32(c), int32(c + 1)})
			}
		}
		stack[d] = next
		i += size
	}
	b.w.spend(visited * nodeCost)
	slices.SortFunc(stale, func(x, y span) int { return int(x.first - y.first) })
	return stale
}

// crossFrom adds the nodes of c, of the base, that are not stale.
func (b *summaryBuilder) crossFrom(c crossing, base *lexer, stale [2][]span) {
	kept := crossing{nodes: make([][]int32, 256)}
	if !b.one {
		kept.lexemes = []symbol{base.pairs[0].lexeme}
	}
	for i, nodes := range c.nodes {
		for _, n := range nodes {
			if n >= 0 && !covered(stale[0], n) || n < 0 && !covered(stale[1], ^n) {
				kept.nodes[c.bytes[i]] = append(kept.nodes[c.bytes[i]], n)
				b.crossed++
			}
		}
	}
	b.s.crossings = append(b.s.crossings, kept)
}

// covered reports whether n is in one of spans, which are sorted. Spans are nested or apart, and
// one in another is of one node.
func covered(spans []span, n int32) bool {
	i, found := slices.BinarySearchFunc(spans, n, func(s span, n int32) int { return int(s.first - n) })
	for ; !found && i > 0; i-- {
		if s := spans[i-1]; n < s.end {
			return true
		} else if s.end-s.first > 1 {
			return false
		}
	}
	return found
}
