package cache

// Table has the page tables of a sequence, one for each group of layers.
type Table struct {
	pool  *Pool
	pages [][]int32 // [groups][pages]; the first group has the most pages
	first int       // number of leading pages that the sliding groups no longer have
	last  Key       // key of the last page whose content has a key; zero if there is none
	known int       // number of leading pages whose content has a key

	shared        []bool // [pages of a group] whether Adopt took the page from the cache
	held, adopted int    // number of pages in all groups, and how many of these Adopt took from the cache

	claim   Key // key of the page that Claim has announced
	claimed bool
}

// NewTable returns an empty table. Call Release to free its pages.
func (p *Pool) NewTable() *Table { return &Table{pool: p, pages: make([][]int32, p.groups.all())} }

// Pages returns the table's pages in the first group of layers: position i is in slot i%PageSize of
// Pages()[i/PageSize].
func (t *Table) Pages() []int32 { return t.pages[0] }

// Further returns the table's pages in the other groups of layers. In sliding groups, entries
// before the window have no meaning.
func (t *Table) Further() [][]int32 { return t.pages[1:] }

// Positions returns the number of positions that have a slot in all groups.
func (t *Table) Positions() int { return len(t.pages[len(t.pages)-1]) * t.pool.pageSize }

// Held returns the number of pages that the table has in all groups.
func (t *Table) Held() int { return t.held }

// Adopt appends those of the text's next pages that are in the cache. tokens is the whole text.
// Adopt returns the table's number of positions afterwards. It appends nothing if the table holds a
// page without a key. The page of the last token is never adopted, because the token must be
// computed for its logits.
func (t *Table) Adopt(tokens []int32) (positions int) {
	p := t.pool
	p.keys = p.keys[:0]
	if t.known == len(t.pages[0]) {
		for last := t.last; (t.known+len(p.keys)+1)*p.pageSize < len(tokens); {
			from := (t.known + len(p.keys)) * p.pageSize
			last = last.next(tokens[from : from+p.pageSize+1])
			if !p.knows(last, false) {
				break
			}
			p.keys = append(p.keys, last)
		}
	}
	keys := p.keys[:p.reusable(t.known, p.keys)]
	t.Slide((t.known + len(keys)) * p.pageSize)
	for _, key := range keys {
		for g := range t.pages {
			id := int32(0)
			if t.has(g, t.known) {
				id = p.known[g][key]
				p.share(id)
				t.held++
				t.adopted++
			}
			t.pages[g] = append(t.pages[g], id)
		}
		t.shared = append(t.shared, true)
		t.last = key
		t.known++
	}
	return len(t.pages[0]) * p.pageSize
}

func (t *Table) has(group, page int) bool { return page >= t.first || !t.pool.groups.slides(group) }

// Slide frees the pages of the sliding groups before the window of the given position. All later
// rows must be at this position or after it.
func (t *Table) Slide(position int) {
	groups := &t.pool.groups
	if groups.Sliding == 0 {
		return
	}
	end := groups.first(position) / t.pool.pageSize
	for page := t.first; page < min(end, len(t.pages[0])); page++ {
		for g := groups.Full; g < len(t.pages); g++ {
			t.pool.drop(t.pages[g][page])
			t.held--
			if t.shared[page] {
				t.adopted--
			}
		}
	}
	t.first = max(t.first, end)
}

// Adopted returns the number of pages, of all groups, that the table has taken from the cache.
// Other tables may hold them too.
func (t *Table) Adopted() int { return t.adopted }

// PageSize returns the number of positions of a page.
func (t *Table) PageSize() int { return t.pool.pageSize }

// Note returns the number that SetNote attached to the table's page i in the first group; 0 if
// there is none. A page keeps its note for as long as it keeps its content.
func (t *Table) Note(i int) int32 { return t.pool.pages[t.pages[0][i]].note }

// SetNote attaches a number to the table's page i in the first group. All tables that share the
// page have the note. The pool does not interpret it.
func (t *Table) SetNote(i int, note int32) { t.pool.pages[t.pages[0][i]].note = note }

// nextKey returns the key of the next page. It returns false if the text is too short, or a page of
// the table has no key.
func (t *Table) nextKey(tokens []int32) (Key, bool) {
	size := t.pool.pageSize
	end := (t.known + 1) * size
	if t.known != len(t.pages[0]) || end >= len(tokens) {
		return Key{}, false
	}
	return t.last.next(tokens[end-size : end+1]), true
}

// Claim announces that the table will compute its next page. busy reports whether another table has
// already announced this page. If so, the caller waits for that table instead of computing the page
// a second time. Call Adopt first, because it appends the pages that are already in the cache.
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

// Grow takes pages until the table has slots for the given number of positions. If the pool has too
// few pages, the table keeps the pages that it got, and Grow returns false.
func (t *Table) Grow(positions int) bool {
	last := len(t.pages) - 1
	for page := len(t.pages[last]); page < t.pool.Needed(positions); page++ {
		for g := range t.pages {
			if len(t.pages[g]) > page {
				continue
			}
			id, ok := t.pool.take()
			if !ok {
				return false
			}
			t.pages[g] = append(t.pages[g], id)
			t.held++
		}
		if len(t.shared) == page {
			t.shared = append(t.shared, false)
		}
	}
	return true
}

// Missing returns the number of pages that Grow would take.
func (t *Table) Missing(positions int) (pages int) {
	needed := t.pool.Needed(positions)
	for _, group := range t.pages {
		pages += max(0, needed-len(group))
	}
	return pages
}

// Commit registers the table's full pages under their keys, so that other sequences can share them.
// tokens is the text so far, and filled is the number of positions that have been computed.
func (t *Table) Commit(tokens []int32, filled int) {
	size := t.pool.pageSize
	for end := (t.known + 1) * size; end <= filled && end < len(tokens); end += size {
		before := t.last
		t.last = before.next(tokens[end-size : end+1])
		for g := range t.pages {
			if t.has(g, t.known) {
				t.pool.learn(g, t.pages[g][t.known], t.last, before)
			}
		}
		t.known++
		t.Unclaim()
	}
}

// Discard removes the pages of the table's text from the cache, together with all pages that were
// computed from their content. If another table holds such a page, that table's sequence must be
// computed again: see HoldsDiscarded. tokens is the text so far.
func (t *Table) Discard(tokens []int32) { t.pool.discard(t.pool.Prefix(tokens)[:t.known]) }

// HoldsDiscarded reports whether the content of one of the table's pages was discarded. Such a
// table must be released without a further Commit.
func (t *Table) HoldsDiscarded() bool {
	for g, pages := range t.pages {
		for i, id := range pages {
			if t.has(g, i) && t.pool.pages[id].discarded {
				return true
			}
		}
	}
	return false
}

// Release frees all pages and leaves the table empty. A second call does nothing.
func (t *Table) Release() {
	t.Unclaim()
	// Drop the last page first, so that the beginning of a text is evicted after its end.
	for i := len(t.pages[0]) - 1; i >= 0; i-- {
		for g, pages := range t.pages {
			if i < len(pages) && t.has(g, i) {
				t.pool.drop(pages[i])
			}
		}
	}
	*t = *t.pool.NewTable()
}
