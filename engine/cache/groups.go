package cache

// Groups are the groups of a model's layers. A page holds positions of the layers of one group. The groups have equally many layers, so
// that any page can belong to any group. The zero value is one group whose layers attend to all positions.
type Groups struct {
	Full    int // groups whose layers attend to all positions; at least 1 if there are sliding ones
	Sliding int // groups whose layers attend to a window
	Window  int // positions to which a row attends in the sliding groups, its own included
}

// all returns the number of groups. Full ones come first.
func (g Groups) all() int { return max(1, g.Full) + g.Sliding }

// slides reports whether a group attends to a window.
func (g Groups) slides(group int) bool { return group >= max(1, g.Full) }

// first returns the first position to which a row attends in the sliding groups.
func (g Groups) first(position int) int { return max(0, position+1-g.Window) }

// Pages returns the maximum number of pages of a sequence in a step that computes the given number of its rows. The sequence has the
// given number of positions afterwards.
func (g Groups) Pages(positions, rows, pageSize int) int {
	pages := pagesOf(positions, pageSize)
	return max(1, g.Full)*pages + g.Sliding*min(pages, g.windowPages(rows, pageSize))
}

// WindowRoom returns the maximum number of positions for which a sliding group has pages of a sequence that generates. It is a number of
// whole pages.
func (g Groups) WindowRoom(pageSize int) int { return g.windowPages(1, pageSize) * pageSize }

// Together returns an upper bound of the pages of several sequences between two steps. positions is the sum of their positions, limit the
// maximum of each. windowed is the sum of their positions for which sliding groups have pages.
func (g Groups) Together(sequences, positions, windowed, limit, pageSize int) int {
	pages := func(positions, each int) int { return min(positions/pageSize+sequences, sequences*each) } // each may have begun a page
	return max(1, g.Full)*pages(positions, pagesOf(limit, pageSize)) + g.Sliding*pages(windowed, g.windowPages(1, pageSize))
}

// windowPages returns the maximum number of pages that a sliding group has of a sequence in a step that computes the given number of its
// rows: those of the window before the first row, and those of the rows.
func (g Groups) windowPages(rows, pageSize int) int {
	return pagesOf(g.Window-1+rows-1, pageSize) + 1 // a page more, because the window can begin within a page
}

// pagesOf returns the number of pages that a number of positions take in a group.
func pagesOf(positions, pageSize int) int { return (positions + pageSize - 1) / pageSize }
