package cache

// Groups describes how a model's layers are divided into groups. A page holds positions of the
// layers of one group. Pages have the same size in all groups, so any page can belong to any group.
// The zero value is one group whose layers attend to all positions.
type Groups struct {
	Full    int // groups whose layers attend to all positions; at least 1 if Sliding is not 0
	Sliding int // groups whose layers attend to a window
	Window  int // positions to which a row attends in the sliding groups, including its own position
}

// all returns the total number of groups. The full groups come first, then the sliding ones.
func (g Groups) all() int { return max(1, g.Full) + g.Sliding }

func (g Groups) slides(group int) bool { return group >= max(1, g.Full) }

// first returns the first position to which the row at the given position attends in the sliding
// groups.
func (g Groups) first(position int) int { return max(0, position+1-g.Window) }

// Pages returns the maximum number of pages that a sequence needs during a step, in all groups
// together. rows is the number of the sequence's rows in the step. positions is the sequence's
// length after the step.
func (g Groups) Pages(positions, rows, pageSize int) int {
	pages := pagesOf(positions, pageSize)
	return max(1, g.Full)*pages + g.Sliding*min(pages, g.windowPages(rows, pageSize))
}

// WindowRoom returns the maximum number of positions that a sliding group stores for one generating
// sequence. It is a multiple of the page size.
func (g Groups) WindowRoom(pageSize int) int { return g.windowPages(1, pageSize) * pageSize }

// Together returns an upper bound for the number of pages that several sequences hold between two
// steps. positions is the sum of their lengths, and limit is the maximum length of one sequence.
// windowed is the number of positions that one sliding group stores for all these sequences.
func (g Groups) Together(sequences, positions, windowed, limit, pageSize int) int {
	// Every sequence can have a partly filled page.
	pages := func(positions, each int) int { return min(positions/pageSize+sequences, sequences*each) }
	return max(1, g.Full)*pages(positions, pagesOf(limit, pageSize)) + g.Sliding*pages(windowed, g.windowPages(1, pageSize))
}

// windowPages returns the maximum number of pages that a sequence needs in one sliding group during
// a step with the given number of its rows. The pages hold these rows and the window before the
// first of them.
func (g Groups) windowPages(rows, pageSize int) int {
	return pagesOf(g.Window-1+rows-1, pageSize) + 1 // one more page, because the window can begin inside a page
}

func pagesOf(positions, pageSize int) int { return (positions + pageSize - 1) / pageSize }
