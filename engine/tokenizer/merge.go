package tokenizer

// merger does byte-pair encoding: it joins neighbouring symbols of a text until no two can be
// joined. The pair with the lowest rank is joined first; of pairs with equal ranks, the leftmost
// one. This takes O(n log n) steps for n symbols. A merger reuses its memory for every text. It is
// not safe for concurrent use.
type merger struct {
	symbols []textSymbol
	pairs   []pair // a binary heap, lowest key first
}

type textSymbol struct {
	id         int32 // the encoder's number for this part of the text; noSymbol if there is none
	start, end int32
	prev, next int32 // indices of the neighbours; none at the ends of the text
}

const (
	none     int32 = -1
	noSymbol int32 = -1
)

// pair is two neighbours that can be joined. A pair becomes invalid when one of the two is joined
// with another symbol.
type pair struct {
	key   uint64 // rank, then index of the left neighbour
	right int32
	size  int32 // bytes of both symbols together; if they have another size now, the pair is invalid
	id    int32 // id of the joined symbol
}

func (m *merger) reset() {
	m.symbols = m.symbols[:0]
	m.pairs = m.pairs[:0]
}

// add appends a symbol. Its text begins where the previous symbol ends. end is the index of the
// byte after its text.
func (m *merger) add(id int32, end int) {
	n := int32(len(m.symbols))
	s := textSymbol{id: id, end: int32(end), prev: n - 1, next: none}
	if n > 0 {
		s.start = m.symbols[n-1].end
		m.symbols[n-1].next = n
	}
	m.symbols = append(m.symbols, s)
}

// run joins neighbours until none can be joined or p.stop returns true. join returns the id and the
// rank of the symbol that replaces two neighbours. ok is false if the two cannot be joined.
func (m *merger) run(join func(left, right textSymbol) (id, rank int32, ok bool), p *pacer) {
	for i := 1; i < len(m.symbols) && !p.stop(); i++ {
		m.consider(int32(i-1), int32(i), join)
	}
	for len(m.pairs) > 0 && !p.stop() {
		top := m.pop()
		leftIndex := int32(uint32(top.key))
		left, right := &m.symbols[leftIndex], &m.symbols[top.right]
		if left.next != top.right || right.end-left.start != top.size {
			continue
		}
		left.id, left.end, left.next = top.id, right.end, right.next
		right.next = none
		if left.next != none {
			m.symbols[left.next].prev = leftIndex
			m.consider(leftIndex, left.next, join)
		}
		if left.prev != none {
			m.consider(left.prev, leftIndex, join)
		}
	}
}

func (m *merger) consider(left, right int32, join func(left, right textSymbol) (id, rank int32, ok bool)) {
	l, r := m.symbols[left], m.symbols[right]
	if id, rank, ok := join(l, r); ok {
		m.push(pair{key: uint64(rank)<<32 | uint64(left), right: right, size: r.end - l.start, id: id})
	}
}

func (m *merger) push(p pair) {
	m.pairs = append(m.pairs, p)
	h := m.pairs
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].key <= p.key {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = p
}

func (m *merger) pop() pair {
	h := m.pairs
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	m.pairs = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].key < h[child].key {
			child++
		}
		if h[child].key >= last.key {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = last
	return top
}
