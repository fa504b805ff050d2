package cache

// Table is the page table of a sequence.
type Table struct {
	pool  *Pool
	pages []int32
	last  Key // key of page known-1
	known int // leading pages whose content has a key

	claim   Key // content that this table computes for all
	claimed bool
}

// NewTable returns an empty table. Release has to follow.
func (p *Pool) NewTable() *Table { return &Table{pool: p} }

// Pages is the pages so far: position i is in slot i%PageSize of page i/PageSize.
func (t *Table) Pages() []int32 { return t.pages }

// Adopt takes known pages for a text, where the table holds whole pages of it so far and nothing else, and returns the
// number of positions that it then has. The last token of tokens is never covered, since its logits are wanted. busy says
// that another sequence is computing the page that comes next: wait for it rather than compute it twice.
func (t *Table) Adopt(tokens []int32) (positions int, busy bool) {
	size := t.pool.pageSize
	for {
		end := (t.known + 1) * size
		if t.known != len(t.pages) || end >= len(tokens) {
			return len(t.pages) * size, false
		}
		key := t.last.next(tokens[end-size : end+1])
		id, ok := t.pool.known[key]
		if !ok {
			return len(t.pages) * size, t.claimPage(key)
		}
		t.pool.share(id)
		t.pages = append(t.pages, id)
		t.last = key
		t.known++
	}
}

// claimPage announces content that the table will compute next, and tells whether another table has announced it.
func (t *Table) claimPage(key Key) (busy bool) {
	if by, ok := t.pool.claims[key]; ok {
		return by != t
	}
	t.unclaim()
	t.pool.claims[key] = t
	t.claim, t.claimed = key, true
	return false
}

func (t *Table) unclaim() {
	if t.claimed {
		delete(t.pool.claims, t.claim)
		t.claimed = false
	}
}

// Grow takes pages until positions 0 to positions-1 have a slot. It returns false, having taken what there was, where the
// pool has no more.
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

// Keep makes full pages known, so that other sequences can share them. The first filled positions of tokens have been
// computed.
func (t *Table) Keep(tokens []int32, filled int) {
	size := t.pool.pageSize
	for end := (t.known + 1) * size; end <= filled && end < len(tokens); end += size {
		t.last = t.last.next(tokens[end-size : end+1])
		t.pool.learn(t.pages[t.known], t.last)
		t.known++
		t.unclaim()
	}
}

// Release gives all pages back; the table is empty from then on. Releasing twice does nothing.
func (t *Table) Release() {
	t.unclaim()
	// The last page first, so that the beginning of a text outlives its end.
	for i := len(t.pages) - 1; i >= 0; i-- {
		t.pool.drop(t.pages[i])
	}
	*t = Table{pool: t.pool}
}

// Knows tells whether the cache holds the beginning of a text, or is about to.
func (p *Pool) Knows(tokens []int32) bool {
	if len(tokens) <= p.pageSize {
		return false
	}
	key := Key{}.next(tokens[:p.pageSize+1])
	_, known := p.known[key]
	_, claimed := p.claims[key]
	return known || claimed
}
