// Package cache allocates the pages of the KV cache and finds pages that several sequences can
// share (prefix caching). The keys and values are in the backend's memory; this package handles
// only page numbers. A sequence's page table lists the pages of its positions in order. Each group
// of layers has a separate page table, so that pages before a sliding window can be freed: see
// Groups.
//
// A full page is identified by its content: a hash of all tokens of the text up to the page's last
// position and of the token after it. (The token after it is included because the MTP layer
// computes a position's keys and values from the next token.) A page that leaves its last table
// keeps its content until the page is needed for other content. The least recently used page is
// evicted first. Content that turns out to be wrong is discarded, together with all content that
// was computed from it.
package cache

// Pool gives pages to tables. Its number of pages is fixed. It is not safe for concurrent use.
type Pool struct {
	pageSize int
	groups   Groups
	pages    []page
	free     []int32         // pages without content; the last one is taken first
	known    []map[Key]int32 // [groups] full pages by content, whether in tables or not
	claims   map[Key]*Table  // content that a table is computing
	idle     list            // pages with content that are in no table, least recently used first
	stats    Stats
	keys     []Key // working memory of Table.Adopt
}

type page struct {
	tables     int32 // number of tables that hold the page
	group      int32 // group of layers; set if isKnown
	isKnown    bool  // the page is registered in Pool.known under key
	discarded  bool  // the content may be wrong; set while tables still hold the page
	key        Key
	before     Key   // key of the previous page of the text; zero for the first page
	prev, next int32 // neighbours in idle
	note       int32 // see Table.Note
}

// Stats are counts since the pool was made.
type Stats struct {
	Shared  int // number of times that a table took a page that already had the right content
	Evicted int // number of times that a page lost its content because the page was needed for other content
}

// NewPool returns a pool of pages 0 to pages-1, each of pageSize positions, for tables of the given
// groups.
func NewPool(pages, pageSize int, groups Groups) *Pool {
	p := &Pool{
		pageSize: pageSize,
		groups:   groups,
		pages:    make([]page, pages),
		free:     make([]int32, pages),
		known:    make([]map[Key]int32, groups.all()),
		claims:   make(map[Key]*Table),
		idle:     newList(),
	}
	for g := range p.known {
		p.known[g] = make(map[Key]int32)
	}
	for i := range p.free {
		p.free[i] = int32(pages - 1 - i)
	}
	return p
}

// PageSize returns the number of positions of a page.
func (p *Pool) PageSize() int { return p.pageSize }

// Groups returns the groups of layers of the pool's tables.
func (p *Pool) Groups() Groups { return p.groups }

// Used returns the number of pages in tables.
func (p *Pool) Used() int { return len(p.pages) - p.Available() }

// Available returns the number of pages that tables can still take: those without content, and
// those in no table whose content can be evicted.
func (p *Pool) Available() int { return len(p.free) + p.idle.len }

// Needed returns the number of pages that one group needs for the given number of positions.
func (p *Pool) Needed(positions int) int { return pagesOf(positions, p.pageSize) }

// Stats returns the counts so far.
func (p *Pool) Stats() Stats { return p.stats }

// take returns a page without content. It may evict the page that has been idle longest. It returns
// false if there is none.
func (p *Pool) take() (int32, bool) {
	if n := len(p.free); n > 0 {
		id := p.free[n-1]
		p.free = p.free[:n-1]
		p.pages[id].tables = 1
		return id, true
	}
	id, ok := p.idle.first()
	if !ok {
		return 0, false
	}
	p.idle.remove(p.pages, id)
	delete(p.known[p.pages[id].group], p.pages[id].key)
	p.pages[id] = page{tables: 1}
	p.stats.Evicted++
	return id, true
}

func (p *Pool) share(id int32) {
	if p.pages[id].tables == 0 {
		p.idle.remove(p.pages, id)
	}
	p.pages[id].tables++
	p.stats.Shared++
}

// drop records that a table no longer holds a page. A page that no table holds becomes idle if it
// is known, and free otherwise.
func (p *Pool) drop(id int32) {
	pg := &p.pages[id]
	pg.tables--
	switch {
	case pg.tables > 0:
	case pg.isKnown:
		p.idle.append(p.pages, id)
	default:
		*pg = page{}
		p.free = append(p.free, id)
	}
}

// learn registers a page of a group under a key. id is the page's number, and before is the key of
// the previous page. If another page in a table is registered under the key, nothing changes. The
// page replaces one in no table, which would be evicted sooner.
func (p *Pool) learn(group int, id int32, key, before Key) {
	if other, ok := p.known[group][key]; ok {
		if p.pages[other].tables > 0 {
			return
		}
		p.forget(other)
	}
	p.known[group][key] = id
	pg := &p.pages[id]
	pg.isKnown, pg.group, pg.key, pg.before = true, int32(group), key, before
}

// knows reports whether a page is registered under key in every sliding group or, if sliding is
// false, in every full group.
func (p *Pool) knows(key Key, sliding bool) bool {
	for g, known := range p.known {
		if p.groups.slides(g) != sliding {
			continue
		}
		if _, ok := known[key]; !ok {
			return false
		}
	}
	return true
}

// reusable returns how many pages a table can take from the cache. have is the number of pages that
// the table has already. keys has the keys of the next pages of the table's text that all full
// groups know. In sliding groups, only some of the pages that are taken must be known: those in the
// window of the first position after them.
func (p *Pool) reusable(have int, keys []Key) (n int) {
	window := 0 // from this page on, sliding groups have every page, either in the table or in the cache
	for i, key := range keys {
		pages := have + i + 1
		if !p.knows(key, true) {
			window = pages
		}
		if window <= p.groups.first(pages*p.pageSize)/p.pageSize {
			n = i + 1
		}
	}
	return n
}

// discard removes the pages with the given keys from the known pages, together with all pages that
// were computed from their content.
func (p *Pool) discard(keys []Key) {
	after := make(map[Key][]Key)
	for _, known := range p.known {
		for key, id := range known {
			before := p.pages[id].before
			after[before] = append(after[before], key)
		}
	}
	for len(keys) > 0 {
		key := keys[len(keys)-1]
		keys = append(keys[:len(keys)-1], after[key]...)
		delete(after, key)
		for _, known := range p.known {
			if id, ok := known[key]; ok {
				delete(known, key)
				p.forget(id)
			}
		}
	}
}

// forget records that the content of a page may be wrong. A page in no table becomes free.
func (p *Pool) forget(id int32) {
	pg := &p.pages[id]
	pg.isKnown, pg.discarded = false, true
	if pg.tables == 0 {
		p.idle.remove(p.pages, id)
		*pg = page{}
		p.free = append(p.free, id)
	}
}

// list is a doubly linked list of pages. Its links are fields of the pages, so that adding and
// removing pages allocates nothing.
type list struct {
	head, tail int32
	len        int
}

const none = -1

func newList() list { return list{head: none, tail: none} }

func (l *list) first() (int32, bool) { return l.head, l.len > 0 }

func (l *list) append(pages []page, id int32) {
	pages[id].prev, pages[id].next = l.tail, none
	if l.tail == none {
		l.head = id
	} else {
		pages[l.tail].next = id
	}
	l.tail = id
	l.len++
}

func (l *list) remove(pages []page, id int32) {
	prev, next := pages[id].prev, pages[id].next
	if prev == none {
		l.head = next
	} else {
		pages[prev].next = next
	}
	if next == none {
		l.tail = prev
	} else {
		pages[next].prev = prev
	}
	l.len--
}
