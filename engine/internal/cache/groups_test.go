package cache

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// generate adds a text to a table in chunks, as the prompt of a sequence.
func generate(t *testing.T, table *Table, tokens []int32, chunk int) {
	t.Helper()
	for at := table.Adopt(tokens); at < len(tokens); {
		at = min(at+chunk, len(tokens))
		require.True(t, table.Grow(at))
		table.Commit(tokens, at)
		table.Slide(at)
	}
}

// If six of seven layers have a window of 1,024 positions, a sequence of 8,192 positions holds
// about a quarter of the pages of all layers.
func TestPagesOfAWindow(t *testing.T) {
	t.Parallel()
	const page, window, positions, chunk = 16, 1024, 8192, 512
	groups := Groups{Full: 1, Sliding: 6, Window: window}
	require.Equal(t, positions/page+6*((window+chunk)/page+1), groups.Pages(positions, chunk, page))
	require.Equal(t, 7*positions/page, groups.Pages(positions, positions, page))

	p := NewPool(groups.Pages(positions, chunk, page), page, groups)
	table := p.NewTable()
	generate(t, table, text(positions, 0), chunk)
	require.Equal(t, positions/page+6*(window/page), table.Held(), "the next row begins a page")
	require.Equal(t, table.Held(), p.Used())
	table.Release()
	require.Zero(t, p.Used())
}

// The beginning of a text is found under two conditions: full groups know all its pages, and
// sliding groups know the pages of the window before its end.
func TestAWindowIsFound(t *testing.T) {
	t.Parallel()
	groups := Groups{Full: 1, Sliding: 1, Window: 6}
	p := NewPool(100, size, groups)
	table := p.NewTable()
	tokens := text(40, 0)
	generate(t, table, tokens, 7)
	table.Release()
	forgotten := p.Prefix(tokens)
	for _, c := range []struct{ page, want int }{
		{0, 36}, // before the window of position 36, which begins at 31
		{8, 32}, // position 32 needs pages 6 and 7
		{6, 24}, // and position 28 needs page 6 as well
		{5, 20},
		{4, 16},
	} {
		p.forget(p.known[1][forgotten[c.page]])
		delete(p.known[1], forgotten[c.page])
		found := p.NewTable()
		require.Equal(t, c.want, found.Adopt(tokens), "without page %d", c.page)
		found.Release()
	}
	p.forget(p.known[0][forgotten[0]])
	delete(p.known[0], forgotten[0])
	require.Zero(t, p.NewTable().Adopt(tokens))
}

// The pages of a window are counted for every position at which it can begin.
func TestPagesOfAWindowAtEveryPosition(t *testing.T) {
	t.Parallel()
	for window := 1; window <= 12; window++ {
		g := Groups{Full: 2, Sliding: 3, Window: window}
		for pageSize := 1; pageSize <= 5; pageSize++ {
			for rows := 1; rows <= 7; rows++ {
				most := 0
				for at := 50; at < 50+pageSize; at++ { // position of the first row
					from, last := at+1-window, at+rows-1
					require.Equal(t, from, g.first(at))
					most = max(most, last/pageSize-from/pageSize+1)
				}
				all := (100 + pageSize - 1) / pageSize
				require.Equal(t, 2*all+3*most, g.Pages(100, rows, pageSize))
				if rows == 1 {
					require.Equal(t, most*pageSize, g.WindowRoom(pageSize))
				}
			}
		}
		require.Zero(t, g.first(window-1))
		require.Zero(t, g.first(0))
		require.Equal(t, 1, g.first(window))
	}
}

// Every sequence can have a page that is partly filled, but none has more pages than a sequence of
// the maximum length, or of a whole window.
func TestPagesOfSeveralSequences(t *testing.T) {
	t.Parallel()
	const page = 4
	for _, c := range []struct {
		groups                                Groups
		sequences, positions, windowed, limit int
		want                                  int
	}{
		{Groups{}, 3, 20, 0, 100, 5 + 3},
		{Groups{}, 3, 23, 0, 100, 5 + 3},
		{Groups{}, 3, 24, 0, 100, 6 + 3},
		{Groups{}, 3, 24, 0, 8, 3 * 2}, // a sequence has two pages at most
		{Groups{}, 3, 24, 0, 9, 6 + 3},
		{Groups{Full: 2}, 3, 20, 0, 100, 2 * (5 + 3)},
		{Groups{Full: 1, Sliding: 2, Window: 6}, 3, 40, 20, 100, 10 + 3 + 2*(5+3)},
		{Groups{Full: 1, Sliding: 2, Window: 6}, 3, 40, 40, 100, 10 + 3 + 2*3*3}, // a window has three pages at most
	} {
		require.Equal(t, c.want, c.groups.Together(c.sequences, c.positions, c.windowed, c.limit, page), "%+v", c)
	}
}

// A key that several groups know is discarded once. If each group's page led to the pages after it
// again, the work would double with every page of the text.
func TestDiscardVisitsALongTextOnce(t *testing.T) {
	t.Parallel()
	const pages, kinds = 64, 3
	p := NewPool(kinds*(pages+1), size, Groups{Full: kinds})
	tokens := text(pages*size+1, 0)
	table := p.NewTable()
	generate(t, table, tokens, size)
	other := p.NewTable()
	require.Equal(t, pages*size, other.Adopt(tokens))
	other.Release()

	table.Discard(tokens)
	require.Zero(t, p.NewTable().Adopt(tokens))
	require.True(t, table.HoldsDiscarded())
	table.Release()
	require.Zero(t, p.Used())
	require.Len(t, p.free, kinds*(pages+1), "no page has content")
}
