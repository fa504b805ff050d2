// Package cache hands out the pages of the KV cache. It holds no keys or values: those are the backend's. A page is a
// number, the same in every layer, and a sequence's page table lists the pages of its positions in order.
package cache

// Pool is a fixed number of pages. It is not safe for concurrent use.
type Pool struct {
	free     []int32 // pages in nobody's table, the next one to hand out last
	pages    int
	pageSize int
	promised int // pages that tables may still take, of those free
}

// NewPool returns a pool of the pages 0 to pages-1, each of pageSize positions.
func NewPool(pages, pageSize int) *Pool {
	p := &Pool{pages: pages, pageSize: pageSize, free: make([]int32, pages)}
	for i := range p.free {
		p.free[i] = int32(pages - 1 - i)
	}
	return p
}

// Pages is the number of pages, used and free.
func (p *Pool) Pages() int { return p.pages }

// Used is the number of pages in tables.
func (p *Pool) Used() int { return p.pages - len(p.free) }

// PageSize is the number of positions of a page.
func (p *Pool) PageSize() int { return p.pageSize }

// Needed is the number of pages that so many positions take.
func (p *Pool) Needed(positions int) int { return (positions + p.pageSize - 1) / p.pageSize }

// Reserve promises a sequence the pages that so many positions take. It returns nil where fewer are left than promised
// to others. Release has to follow.
func (p *Pool) Reserve(positions int) *Table {
	n := p.Needed(positions)
	if n > len(p.free)-p.promised {
		return nil
	}
	p.promised += n
	return &Table{pool: p, promised: n, pages: make([]int32, 0, n)}
}

// Table is the page table of a sequence.
type Table struct {
	pool     *Pool
	pages    []int32
	promised int // pages that it may still take
}

// Pages is the pages so far: position i is in slot i%PageSize of page i/PageSize. It stays valid when the table grows,
// without the new pages.
func (t *Table) Pages() []int32 { return t.pages }

// Grow takes pages until positions 0 to positions-1 have a slot. More positions than were reserved are a mistake of the
// caller, and panic.
func (t *Table) Grow(positions int) {
	for len(t.pages) < t.pool.Needed(positions) {
		if t.promised == 0 {
			panic("cache: a sequence outgrew its reservation")
		}
		p := t.pool
		last := len(p.free) - 1
		t.pages = append(t.pages, p.free[last])
		p.free = p.free[:last]
		p.promised--
		t.promised--
	}
}

// Release gives all pages and promises back; the table is empty from then on. Releasing twice does nothing.
func (t *Table) Release() {
	p := t.pool
	p.free = append(p.free, t.pages...)
	p.promised -= t.promised
	t.pages, t.promised = nil, 0
}
