package cache

import "slices"

// Table is the page table of a sequence.
type Table struct {
	pool  *Pool
	pages []int32
	last  Key // key of the page known-1; zero if known is 0
	known int // number of leading pages whose content has a key

	adopted int // number of pages that Adopt took from the cache

	claim   Key // key of the page that this table has announced to compute
	claimed bool
}

// NewTable returns an empty table. Call Release to free its pages.
func (p *Pool) NewTable() *Table { return &Table{pool: p} }

// Pages returns the table's pages: position i is in slot i%PageSize of Pages()[i/PageSize].
func (t *Table) Pages() []int32 { return t.pages }

// Adopt appends the known pages that continue the table's text. It returns the number of positions that the table then has. The table must
// hold only full pages of the text. The page of the last token is never adopted, because the token must be computed for its logits.
func (t *Table) Adopt(tokens []int32) (positions int) {
	for {
		key, ok := t.nextKey(tokens)
		if !ok {
			break
		}
		id, ok := t.pool.known[key]
		if !ok {
			break
		}
		t.pool.share(id)
		t.pages = append(t.pages, id)
		t.last = key
		t.known++
		t.adopted++
	}
	return len(t.pages) * t.pool.pageSize
}

// Adopted returns the number of pages that the table has taken from the cache. Other tables may hold them too.
func (t *Table) Adopted() int { return t.adopted }

// PageSize returns the number of positions of a page.
func (t *Table) PageSize() int { return t.pool.pageSize }

// Note returns the number that SetNote attached to the table's page i; 0 if there is none. A page keeps its note for as long as it keeps
// its content.
func (t *Table) Note(i int) int32 { return t.pool.pages[t.pages[i]].note }

// SetNote attaches a number to the table's page i. All tables that share the page have the note. The pool does not interpret it.
func (t *Table) SetNote(i int, note int32) { t.pool.pages[t.pages[i]].note = note }

// nextKey returns the key of the page that follows the table's pages. It returns false if the text ends before the token after that page,
// or if the table holds a page without a key.
func (t *Table) nextKey(tokens []int32) (Key, bool) {
	size := t.pool.pageSize
	end := (t.known + 1) * size
	if t.known != len(t.pages) || end >= len(tokens) {
		return Key{}, false
	}
	return t.last.next(tokens[end-size : end+1]), true
}

// Claim announces that the table will compute its next page. busy reports whether another table has already announced the same page; the
// caller then waits for that table instead of computing the page again. Call Adopt before.
func (t *Table) Claim(tokens []int32) (busy bool) {
	key, ok := t.nextKey(tokens)
	if !ok {
		return false
	}
	if by, ok := t.pool.claims[key]; ok {
		return by != t
	}
	t.Unclaim()
	t.pool.claims[key] = t
	t.claim, t.claimed = key, true
	return false
}

// Unclaim withdraws the announcement of Claim, so that another table can compute the page.
func (t *Table) Unclaim() {
	if t.claimed {
		delete(t.pool.claims, t.claim)
		t.claimed = false
	}
}

// Grow takes pages until positions 0 to positions-1 have a slot. If the pool has too few pages, the table keeps the pages that it
// got, and Grow returns false.
func (t *Table) Grow(positions int) bool {
	for len(t.pages) < t.pool.Needed(positions) {
		id, ok := t.pool.take()
		if !ok {
			return false
		}
		t.pages = append(t.pages, id)
	}
	return true
}

// Commit registers the table's full pages under their keys, so that other sequences can share them. tokens is the text so far. Its first
// filled positions must have been computed.
func (t *Table) Commit(tokens []int32, filled int) {
	size := t.pool.pageSize
	for end := (t.known + 1) * size; end <= filled && end < len(tokens); end += size {
		before := t.last
		t.last = before.next(tokens[end-size : end+1])
		t.pool.learn(t.pages[t.known], t.last, before)
		t.known++
		t.Unclaim()
	}
}

// Discard removes the table's pages from the cache, and with them all pages that were computed from their content. If another table holds
// such a page, its sequence must be computed again: see HoldsDiscarded.
func (t *Table) Discard() { t.pool.discard(slices.Clone(t.pages)) }

// HoldsDiscarded reports whether the content of one of the table's pages was discarded. Such a table must be released
// without a further Commit.
func (t *Table) HoldsDiscarded() bool {
	return slices.ContainsFunc(t.pages, func(id int32) bool { return t.pool.pages[id].discarded })
}

// Release frees all pages and leaves the table empty. A second call does nothing.
func (t *Table) Release() {
	t.Unclaim()
	// Drop the last page first, so that the beginning of a text is evicted after its end.
	for i := len(t.pages) - 1; i >= 0; i-- {
		t.pool.drop(t.pages[i])
	}
	*t = Table{pool: t.pool}
}
