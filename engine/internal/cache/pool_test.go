package cache

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const size = 4

func text(n int, from int32) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = from + int32(i)
	}
	return tokens
}

// fill computes a text in a table: it adopts the known pages, takes pages for the rest, and commits
// them.
func fill(t *testing.T, table *Table, tokens []int32) (adopted int) {
	t.Helper()
	adopted = table.Adopt(tokens)
	require.False(t, table.Claim(tokens))
	require.True(t, table.Grow(len(tokens)))
	table.Commit(tokens, len(tokens))
	return adopted
}

func TestSharedPrefix(t *testing.T) {
	t.Parallel()
	p := NewPool(16, size, Groups{})
	a, b := p.NewTable(), p.NewTable()
	require.Zero(t, fill(t, a, text(10, 0)))
	require.Equal(t, 3, p.Used())

	same := append(text(9, 0), 99, 98, 97)
	require.Equal(t, 8, fill(t, b, same), "two full pages are shared")
	require.Equal(t, a.Pages()[:2], b.Pages()[:2])
	require.NotEqual(t, a.Pages()[2], b.Pages()[2])
	require.Equal(t, Stats{Shared: 2}, p.Stats())

	a.Release()
	b.Release()
	require.Zero(t, p.Used())
	require.Equal(t, 8, fill(t, p.NewTable(), text(10, 0)), "pages stay in the cache after their table is released")
}

func TestTheTokenAfterAPageCounts(t *testing.T) {
	t.Parallel()
	p := NewPool(16, size, Groups{})
	fill(t, p.NewTable(), []int32{1, 2, 3, 4, 5})
	require.Zero(t, fill(t, p.NewTable(), []int32{1, 2, 3, 4, 6, 7}))
	require.Equal(t, 4, fill(t, p.NewTable(), []int32{1, 2, 3, 4, 5, 7}))
}

func TestTheLastTokenIsNeverCovered(t *testing.T) {
	t.Parallel()
	p := NewPool(16, size, Groups{})
	fill(t, p.NewTable(), text(9, 0))
	for n, want := range map[int]int{3: 0, 4: 0, 5: 4, 8: 4, 9: 8} {
		got := p.NewTable().Adopt(text(n, 0))
		require.Equal(t, want, got, "%d tokens", n)
	}
}

func TestOneComputesForAll(t *testing.T) {
	t.Parallel()
	p := NewPool(16, size, Groups{})
	tokens := text(10, 0)
	a, b := p.NewTable(), p.NewTable()
	require.False(t, a.Claim(tokens))
	require.True(t, b.Claim(tokens), "a is computing the first page")
	require.False(t, a.Claim(tokens), "a does not wait for its own claim")

	require.True(t, a.Grow(len(tokens)))
	a.Commit(tokens, len(tokens))
	require.Equal(t, 8, b.Adopt(tokens))
	require.False(t, b.Claim(tokens))

	c, d := p.NewTable(), p.NewTable()
	other := text(10, 50)
	c.Claim(other)
	require.True(t, d.Claim(other))
	c.Unclaim()
	require.False(t, d.Claim(other), "c withdrew its claim")
	d.Release()
	require.False(t, c.Claim(other), "d released its claim")
}

func TestLeastRecentlyUsedGoesFirst(t *testing.T) {
	t.Parallel()
	p := NewPool(4, size, Groups{})
	for i := range int32(2) {
		table := p.NewTable()
		fill(t, table, text(6, 100*i))
		table.Release()
	}
	// Use the first text once more, so that the second text is evicted first.
	table := p.NewTable()
	require.Equal(t, 4, fill(t, table, text(6, 0)))
	table.Release()

	table = p.NewTable()
	require.True(t, table.Grow(3*size))
	table.Release()
	require.Equal(t, 1, p.Stats().Evicted)
	got := p.NewTable().Adopt(text(6, 0))
	require.Equal(t, 4, got)
	got = p.NewTable().Adopt(text(6, 100))
	require.Zero(t, got)
}

func TestGrowStopsWhenPagesRunOut(t *testing.T) {
	t.Parallel()
	p := NewPool(2, size, Groups{})
	a, b := p.NewTable(), p.NewTable()
	require.True(t, a.Grow(1))
	require.False(t, b.Grow(2*size))
	require.Zero(t, p.Available())
	b.Release()
	b.Release()
	require.Equal(t, 1, p.Available())
}

// Tables start, advance and finish in random order, over texts with common beginnings, with and
// without sliding groups. A table's pages always hold the content that the text needs, no page is
// lost, and no page is written by two tables.
func TestPoolProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		groups := Groups{Full: rapid.IntRange(1, 2).Draw(t, "full"), Sliding: rapid.IntRange(0, 2).Draw(t, "sliding"), Window: rapid.IntRange(1, 10).Draw(t, "window")}
		p := NewPool(rapid.IntRange(1, 12*groups.all()).Draw(t, "pages"), size, groups)
		content := map[int32]string{} // the content that was last computed in each page
		text := func(group int, tokens []int32) string { return fmt.Sprint(group, tokens) }
		type running struct {
			table  *Table
			tokens []int32
			filled int
		}
		var seqs []*running
		t.Repeat(map[string]func(*rapid.T){
			"start": func(t *rapid.T) {
				tokens := rapid.SliceOfN(rapid.Int32Range(0, 1), 1, 20).Draw(t, "tokens")
				seqs = append(seqs, &running{table: p.NewTable(), tokens: tokens})
			},
			"advance": func(t *rapid.T) {
				if len(seqs) == 0 {
					t.Skip()
				}
				s := seqs[rapid.IntRange(0, len(seqs)-1).Draw(t, "which")]
				if s.filled == len(s.table.Pages())*size {
					s.filled = s.table.Adopt(s.tokens)
					for g, pages := range s.table.pages {
						first := 0
						if groups.slides(g) {
							first = max(0, s.filled+1-groups.Window) / size
						}
						for i := first; i < s.filled/size && (i+1)*size < len(s.tokens); i++ {
							require.Equal(t, text(g, s.tokens[:(i+1)*size+1]), content[pages[i]], "page %d of group %d", i, g)
						}
					}
					if s.table.Claim(s.tokens) {
						return
					}
				}
				target := min(s.filled+rapid.IntRange(1, 9).Draw(t, "rows"), len(s.tokens))
				if !s.table.Grow(target) {
					s.table.Release()
					s.filled = 0
					return
				}
				end := max(target, s.table.Positions()) // the table can still have pages for rejected positions
				require.LessOrEqual(t, s.table.Held(), groups.Pages(end, end-s.filled, size))
				require.Zero(t, s.table.Missing(target))
				for g, pages := range s.table.pages {
					for i := s.filled / size; i < p.Needed(target); i++ {
						require.EqualValues(t, 1, p.pages[pages[i]].tables, "a page that is written is in one table")
						if end := (i + 1) * size; end < len(s.tokens) {
							content[pages[i]] = text(g, s.tokens[:end+1])
						}
					}
				}
				s.filled = rapid.IntRange(s.filled, target).Draw(t, "accepted")
				s.table.Commit(s.tokens, s.filled)
				s.table.Slide(s.filled)
			},
			"finish": func(t *rapid.T) {
				if len(seqs) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(seqs)-1).Draw(t, "which")
				seqs[i].table.Release()
				seqs = slices.Delete(seqs, i, i+1)
			},
			"": func(t *rapid.T) {
				used := map[int32]bool{}
				for _, s := range seqs {
					held := 0
					for g, pages := range s.table.pages {
						for i, id := range pages {
							if s.table.has(g, i) {
								used[id] = true
								held++
							}
						}
					}
					require.Equal(t, held, s.table.Held())
					require.LessOrEqual(t, s.table.Adopted(), held)
				}
				require.Equal(t, len(used), p.Used())
				require.Equal(t, len(p.pages), p.Used()+p.Available())
			},
		})
	})
}

func BenchmarkCommit(b *testing.B) {
	p := NewPool(1024, 32, Groups{})
	tokens := text(32*512+1, 0)
	b.ReportAllocs()
	for b.Loop() {
		table := p.NewTable()
		table.Adopt(tokens)
		table.Grow(len(tokens))
		table.Commit(tokens, len(tokens))
		table.Release()
	}
}

// Discarded pages and pages that were computed from them are no longer found, whether tables hold
// them or not. Other pages are still found.
func TestDiscardedPagesAreUnknown(t *testing.T) {
	t.Parallel()
	p := NewPool(16, size, Groups{})
	branch := append(text(9, 0), 99, 98, 97, 96)
	bad, sharing, idle, apart := p.NewTable(), p.NewTable(), p.NewTable(), p.NewTable()
	fill(t, bad, text(9, 0))
	require.Equal(t, 8, fill(t, sharing, text(14, 0)))
	require.Equal(t, 8, fill(t, idle, branch))
	idle.Release()
	fill(t, apart, text(9, 50))
	used := p.Used()

	bad.Discard(text(9, 0))
	require.Equal(t, []bool{true, true, false}, []bool{bad.HoldsDiscarded(), sharing.HoldsDiscarded(), apart.HoldsDiscarded()})
	require.Equal(t, used, p.Used(), "tables keep their discarded pages")
	for _, tokens := range [][]int32{text(14, 0), branch} {
		table := p.NewTable()
		got := table.Adopt(tokens)
		require.Zero(t, got)
		table.Release()
	}
	got := p.NewTable().Adopt(text(9, 50))
	require.Equal(t, 8, got)

	bad.Release()
	sharing.Release()
	again := p.NewTable()
	require.Zero(t, fill(t, again, text(14, 0)))
	require.False(t, again.HoldsDiscarded(), "a page with new content is no longer marked as discarded")
	got = p.NewTable().Adopt(branch)
	require.Equal(t, 8, got, "the page that only the branch has must be computed again")
	require.Equal(t, 16-p.Used(), p.Available())
}

// The end of a text is evicted before its beginning, since the end cannot be found without the
// beginning.
func TestTheBeginningOfATextOutlivesItsEnd(t *testing.T) {
	t.Parallel()
	p := NewPool(4, size, Groups{})
	table := p.NewTable()
	fill(t, table, text(14, 0))
	table.Release()
	taken := p.NewTable()
	for i, want := range []int{12, 8, 4, 0} { // the incomplete page has no content in the cache and is taken first
		require.True(t, taken.Grow((i+1)*size))
		found, key := 0, Key{}
		for end := size; end < 14; end += size {
			key = key.next(text(14, 0)[end-size : end+1])
			if _, ok := p.known[0][key]; !ok {
				break
			}
			found = end
		}
		require.Equal(t, want, found)
	}
}
