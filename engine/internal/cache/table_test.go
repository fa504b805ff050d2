package cache

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A table takes exactly the known pages of a text, once, and goes on where they end: the pages that
// it computes itself are found by a third table.
func TestATableGoesOnAfterAdoptedPages(t *testing.T) {
	t.Parallel()
	for name, groups := range map[string]Groups{"one group": {}, "two full groups": {Full: 2}, "a window": {Full: 1, Sliding: 1, Window: 6}} {
		p := NewPool(100, size, groups)
		tokens := text(41, 0)
		first, second := p.NewTable(), p.NewTable()
		fill(t, first, tokens[:21])
		require.Equal(t, 20, second.Adopt(tokens), name)
		require.Equal(t, 20, second.Adopt(tokens), "nothing more is known")
		require.Len(t, second.Further(), groups.all()-1)
		known := p.Prefix(tokens)[:5]
		held := 0
		for g, pages := range append([][]int32{second.Pages()}, second.Further()...) {
			require.Len(t, pages, len(known))
			from := 0
			if groups.slides(g) {
				from = (20 + 1 - groups.Window) / size
			}
			for i := from; i < len(pages); i++ {
				require.Equal(t, first.pages[g][i], pages[i], "%s, page %d of group %d", name, i, g)
				require.EqualValues(t, 2, p.pages[pages[i]].tables)
				held++
			}
		}
		require.Equal(t, []int{held, held, held}, []int{second.Held(), second.Adopted(), p.Stats().Shared})
		require.True(t, second.Grow(len(tokens)))
		second.Commit(tokens, len(tokens))
		require.Equal(t, 40, p.NewTable().Adopt(tokens), name)
		require.Empty(t, p.claims)
		first.Release()
		second.Release()
	}
}

// A table with a page that has no key adopts nothing.
func TestATableWithAnIncompletePageAdoptsNothing(t *testing.T) {
	t.Parallel()
	p := NewPool(16, size, Groups{})
	fill(t, p.NewTable(), text(9, 0))
	table := p.NewTable()
	require.True(t, table.Grow(1))
	require.Equal(t, size, table.Adopt(text(9, 0)))
	require.False(t, table.Claim(text(9, 0)))
	require.Empty(t, p.claims)
}

// A text whose first page is unknown is not hashed further.
func TestUnknownTextsAreHashedOnlyUpToTheFirstUnknownPage(t *testing.T) {
	t.Parallel()
	p := NewPool(16, size, Groups{})
	fill(t, p.NewTable(), text(9, 0))
	p.NewTable().Adopt(append(text(9, 0), text(1000, 50)...))
	require.Len(t, p.keys, 2)
}

// Groups that attend to all positions keep all their pages, wherever a window begins.
func TestSlideFreesOnlyPagesOfSlidingGroups(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		groups   Groups
		position int
		want     int // pages that are left
	}{
		{Groups{}, 40, 10},
		{Groups{Full: 2}, 40, 20},
		{Groups{Full: 1, Sliding: 2, Window: 4}, 4, 30},  // the window begins at position 1
		{Groups{Full: 1, Sliding: 2, Window: 4}, 6, 30},  // at position 3
		{Groups{Full: 1, Sliding: 2, Window: 4}, 7, 28},  // at position 4, so that page 0 is free
		{Groups{Full: 1, Sliding: 2, Window: 4}, 40, 12}, // page 9 is left
		{Groups{Full: 1, Sliding: 2, Window: 1}, 40, 10},
		{Groups{Full: 1, Sliding: 2, Window: 1}, 400, 10}, // far behind the last page
	} {
		p := NewPool(100, size, c.groups)
		table := p.NewTable()
		require.True(t, table.Grow(40))
		table.Slide(c.position)
		table.Slide(c.position)
		require.Equal(t, []int{c.want, c.want}, []int{table.Held(), p.Used()}, "%+v", c)
		require.Zero(t, table.Adopted())
		require.Len(t, table.Pages(), 10)
		table.Slide(0)
		table.Release()
		require.Zero(t, p.Used())
	}
}

// Pages that leave the window of a table no longer count as adopted.
func TestSlideCountsAdoptedPages(t *testing.T) {
	t.Parallel()
	p := NewPool(100, size, Groups{Full: 1, Sliding: 1, Window: 8})
	fill(t, p.NewTable(), text(21, 0))
	table := p.NewTable()
	require.Equal(t, 20, table.Adopt(text(40, 0)))
	require.Equal(t, 5+2, table.Adopted(), "the window begins at position 13, in page 3")
	require.True(t, table.Grow(40))
	table.Slide(27) // the window begins with page 5
	require.Equal(t, []int{5, 10 + 5}, []int{table.Adopted(), table.Held()})
	table.Slide(40) // at position 33, in page 8
	require.Equal(t, []int{5, 10 + 2}, []int{table.Adopted(), table.Held()})
}

// If pages run out, a table keeps those that it has, and goes on with them later.
func TestGrowGoesOnAfterPagesRanOut(t *testing.T) {
	t.Parallel()
	groups := Groups{Full: 1, Sliding: 1, Window: 1}
	p := NewPool(7, size, groups)
	other, table := p.NewTable(), p.NewTable()
	require.True(t, other.Grow(size))
	require.False(t, table.Grow(3*size))
	require.Equal(t, []int{5, 2 * size, 1, 0}, []int{table.Held(), table.Positions(), table.Missing(3 * size), p.Available()})
	require.Equal(t, 3, table.Missing(4*size))
	other.Release()
	require.True(t, table.Grow(3*size))
	require.Equal(t, []int{6, 3 * size, 0, 1}, []int{table.Held(), table.Positions(), table.Missing(3 * size), p.Available()})
	require.Len(t, table.shared, 3)
	table.Slide(3*size - 1)
	require.Equal(t, []int{4, 0}, []int{table.Held(), table.Adopted()})
}

// Two tables may compute the same text. The pages of the first one stay in the cache, and no table
// has to be computed again.
func TestTwoTablesComputeTheSameText(t *testing.T) {
	t.Parallel()
	p := NewPool(16, size, Groups{})
	first, second := p.NewTable(), p.NewTable()
	for _, table := range []*Table{first, second} {
		require.True(t, table.Grow(9))
		table.Commit(text(9, 0), 9)
		require.Equal(t, 2, table.known)
	}
	require.Equal(t, []bool{false, false}, []bool{first.HoldsDiscarded(), second.HoldsDiscarded()})
	third := p.NewTable()
	require.Equal(t, 8, third.Adopt(text(9, 0)))
	require.Equal(t, first.Pages()[:2], third.Pages())
	second.Release()
	require.Equal(t, 13, p.Available(), "the pages of the second table are free")
	require.Len(t, p.free, 13)
}

// A table announces one page at a time.
func TestATableHasOneClaim(t *testing.T) {
	t.Parallel()
	p := NewPool(16, size, Groups{})
	a, b := p.NewTable(), p.NewTable()
	require.False(t, a.Claim(text(5, 0)))
	require.False(t, a.Claim(text(5, 50)))
	require.Len(t, p.claims, 1)
	require.False(t, b.Claim(text(5, 0)))
	require.True(t, b.Claim(text(5, 50)))
	require.False(t, a.Claim(text(4, 0)), "the page of the last token has no key")
	a.Release()
	require.False(t, b.Claim(text(5, 50)))
	require.Len(t, p.claims, 1)
	b.Unclaim()
	require.False(t, a.Claim(text(5, 50)))
	b.Release()
	require.Len(t, p.claims, 1, "the page is a's now")
}

// The content of a page that was discarded in no table says nothing about its next content.
func TestADiscardedPageThatIsFreeIsLikeANewOne(t *testing.T) {
	t.Parallel()
	p := NewPool(3, size, Groups{})
	first := p.NewTable()
	fill(t, first, text(9, 0))
	first.Release()
	p.discard(p.Prefix(text(9, 0)))
	require.Equal(t, []int{3, 0}, []int{len(p.free), p.idle.len})
	table := p.NewTable()
	require.True(t, table.Grow(9))
	require.False(t, table.HoldsDiscarded())
}

// The first pages of a text are found as soon as they are known, also in a window that is longer.
func TestFewPagesAreFound(t *testing.T) {
	t.Parallel()
	for _, groups := range []Groups{{}, {Full: 1, Sliding: 1, Window: 1}, {Full: 1, Sliding: 1, Window: 6}, {Full: 1, Sliding: 1, Window: 100}} {
		for pages := range 4 {
			p := NewPool(100, size, groups)
			fill(t, p.NewTable(), text(pages*size+1, 0))
			require.Equal(t, pages*size, p.NewTable().Adopt(text(40, 0)), "%+v", groups)
			require.Equal(t, pages > 0, p.HasPrefix(p.Prefix(text(40, 0))))
			require.Equal(t, pages > 0, p.HasPrefix(p.Prefix(text(size+1, 0))))
		}
	}
}

// What callers ask about a text before they make a table: whether its beginning is known or being
// computed, and how many of its pages other tables hold.
func TestTextsBeforeTheyHaveATable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		groups Groups
		held   int // pages in tables, with all of a text of five pages in one of them
	}{
		"one group":            {Groups{}, 5},
		"full groups alone":    {Groups{Full: 1}, 5},
		"a window":             {Groups{Full: 1, Sliding: 1, Window: 8}, 5 + 2},
		"two of both":          {Groups{Full: 2, Sliding: 2, Window: 8}, 2*5 + 2*2},
		"a window of one page": {Groups{Full: 1, Sliding: 1, Window: 5}, 5 + 1},
	} {
		p := NewPool(100, size, c.groups)
		tokens := text(21, 0)
		keys := p.Prefix(tokens)
		require.Len(t, keys, 5)
		require.Len(t, p.Prefix(text(22, 0)), 5)
		require.Len(t, p.Prefix(text(20, 0)), 4)
		require.Empty(t, p.Prefix(nil))
		require.False(t, p.HasPrefix(keys), name)
		require.False(t, p.HasPrefix(nil))
		require.Zero(t, p.Held(keys))
		table := p.NewTable()
		require.False(t, table.Claim(tokens))
		require.True(t, p.HasPrefix(keys), "%s: a table computes the first page", name)
		require.Zero(t, p.Held(keys))
		require.True(t, table.Grow(21))
		table.Commit(tokens, 21)
		require.True(t, p.HasPrefix(keys), name)
		require.Equal(t, c.held, p.Held(keys), name)
		require.Equal(t, 5, p.Known(keys))
		if c.groups.Sliding > 0 {
			p.forget(p.known[c.groups.Full][keys[4]])
			delete(p.known[c.groups.Full], keys[4])
			require.Zero(t, p.Held(keys), "%s: nothing can be shared without the window", name)
			require.Equal(t, 5, p.Known(keys))
		}
		table.Release()
		require.True(t, p.HasPrefix(keys), name)
		require.Zero(t, p.Held(keys), name)
		require.Equal(t, []int{size, c.groups.all()}, []int{p.PageSize(), p.Groups().all()})
		require.Equal(t, size, table.PageSize())
	}
}

// A note stays with a page's content.
func TestNotesStayWithTheContentOfAPage(t *testing.T) {
	t.Parallel()
	p := NewPool(3, size, Groups{})
	first := p.NewTable()
	fill(t, first, text(9, 0))
	first.SetNote(0, 7)
	first.SetNote(1, 8)
	first.Release()
	second := p.NewTable()
	require.Equal(t, 8, second.Adopt(text(9, 0)))
	require.Equal(t, []int32{7, 8}, []int32{second.Note(0), second.Note(1)})
	second.Release()
	third := p.NewTable()
	require.True(t, third.Grow(3*size))
	require.Equal(t, []int32{0, 0, 0}, []int32{third.Note(0), third.Note(1), third.Note(2)})
}

// The list of idle pages has the order of a slice to which pages are added and from whose middle
// they are removed.
func TestIdlePagesAreInOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	pages, l := make([]page, 12), newList()
	var want []int32
	for range 500 {
		id := int32(random.IntN(len(pages)))
		if i := slices.Index(want, id); i >= 0 {
			want = slices.Delete(want, i, i+1)
			l.remove(pages, id)
		} else {
			want = append(want, id)
			l.append(pages, id)
		}
		var got, back []int32
		for id := l.head; id != none; id = pages[id].next {
			got = append(got, id)
		}
		for id := l.tail; id != none; id = pages[id].prev {
			back = append(back, id)
		}
		slices.Reverse(back)
		require.Equal(t, want, append([]int32{}, got...))
		require.Equal(t, got, back)
		first, ok := l.first()
		require.Equal(t, len(want) > 0, ok)
		require.Equal(t, len(want), l.len)
		if ok {
			require.Equal(t, want[0], first)
		}
	}
}
