package cache

import "slices"

// Table is the page table of a sequence.
type Table struct {
	pool  *Pool
	pages []int32
	last  Key // key of the last known page, number known-1
	known int // number of leading pages whose content has a key

	adopted int // pages that the table did not compute

	claim   Key // content of the page that this table has announced to compute
	claimed bool
}

// NewTable returns an empty table. Call Release to free its pages.
func (p *Pool) NewTable() *Table { return &Table{pool: p} }

// Pages returns the table's pages: position i is in slot i%PageSize of Pages()[i/PageSize].
func (t *Table) Pages() []int32 { return t.pages }

// Adopt takes the known pages of a text and returns the number of positions that the table then has. The table must hold whole
// pages of the text and nothing else. The last token is never covered, because its logits are needed.
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

// Adopted is the number of pages that the table has taken from the cache, and that others may hold too.
func (t *Table) Adopted() int { return t.adopted }

// PageSize returns the number of positions of a page.
func (t *Table) PageSize() int { return t.pool.pageSize }

// Note returns the note of the table's page i; 0 if it has none. A page keeps its note for as long as it keeps its content.
func (t *Table) Note(i int) int32 { return t.pool.pages[t.pages[i]].note }

// SetNote gives the table's page i a note, which those who share the page see. The pool does not read it.
func (t *Table) SetNote(i int, note int32) { t.pool.pages[t.pages[i]].note = note }

// nextKey is the content of the page after those that the table holds; it is false if the text ends before the token that follows
// the page, or if the table holds a page that is not full.
func (t *Table) nextKey(tokens []int32) (Key, bool) {
	size := t.pool.pageSize
	end := (t.known + 1) * size
	if t.known != len(t.pages) || end >= len(tokens) {
		return Key{}, false
	}
	return t.last.next(tokens[end-size : end+1]), true
}

// Claim announces the page that the table will compute next. busy reports whether another table has announced it: wait for it
// rather than compute it twice. Call Adopt before.
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

// Unclaim withdraws what Claim announced, so that another table can compute it.
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

// Commit makes full pages known, so that other sequences can share them. The first filled positions of tokens must have been
// computed.
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

// Discard makes the content of the table's pages unknown, and also the content of all other pages that were computed from them. If
// another table holds such a page, its sequence must be computed again: see HoldsDiscarded.
func (t *Table) Discard() { t.pool.discard(slices.Clone(t.pages)) }

// HoldsDiscarded reports whether the content of one of the table's pages was discarded. Such a table must be released
// without a further Commit.
func (t *Table) HoldsDiscarded() bool {
	return slices.ContainsFunc(t.pages, func(id int32) bool { return t.pool.pages[id].discarded })
}

// Release frees all pages and leaves the table empty. A second call does nothing.
func (t *Table) Release() {
	t.Unclaim()
	// The last page first, so that the beginning of a text outlives its end.
	for i := len(t.pages) - 1; i >= 0; i-- {
		t.pool.drop(t.pages[i])
	}
	*t = Table{pool: t.pool}
}
