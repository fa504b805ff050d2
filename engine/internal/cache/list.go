package cache

// list is a doubly linked list of pages. Its links are fields of the pages, so that adding and removing pages allocates nothing.
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
