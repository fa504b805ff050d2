package tokenizer

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestMerger compares the merger with the definition: compare all neighbours, join the best pair,
// repeat.
func TestMerger(t *testing.T) {
	t.Parallel()
	type key struct{ left, right int32 }
	rapid.Check(t, func(t *rapid.T) {
		symbol := rapid.Int32Range(0, 9)
		table := map[key]merge{}
		for i := range rapid.IntRange(0, 30).Draw(t, "merges") {
			k := key{symbol.Draw(t, "left"), symbol.Draw(t, "right")}
			// Ranks may be equal, and several merges may make the same symbol.
			table[k] = merge{id: symbol.Draw(t, "id"), rank: int32(i / 3)}
		}
		text := rapid.SliceOfN(rapid.Int32Range(0, 3), 1, 60).Draw(t, "text")

		want := append([]int32(nil), text...)
		for {
			best, bestMerge := -1, merge{}
			for i := 1; i < len(want); i++ {
				m, ok := table[key{want[i-1], want[i]}]
				if ok && (best < 0 || m.rank < bestMerge.rank) {
					best, bestMerge = i-1, m
				}
			}
			if best < 0 {
				break
			}
			want = append(want[:best], append([]int32{bestMerge.id}, want[best+2:]...)...)
		}

		m := new(merger)
		for range 2 { // the second time, the merger reuses its memory
			m.reset()
			for i, id := range text {
				m.add(id, i+1)
			}
			m.run(func(left, right textSymbol) (int32, int32, bool) {
				x, ok := table[key{left.id, right.id}]
				return x.id, x.rank, ok
			}, &pacer{ctx: t.Context()})
			var got []int32
			end := int32(0)
			for i := int32(0); i != none; i = m.symbols[i].next {
				s := m.symbols[i]
				require.Equal(t, end, s.start)
				end = s.end
				got = append(got, s.id)
			}
			require.Equal(t, int32(len(text)), end)
			require.Equal(t, want, got)
		}
	})
}
