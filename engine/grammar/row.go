package grammar

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync/atomic"
)

// A row is what the parser knows at a position of the text where lexemes begin: Earley's set of
// items (Earley 1970), without the ones that can be computed from the others. It is determined by
// its kernel, the items that advanced over the text before it. Rows with the same kernel are one
// row, wherever they are in the text.
type row struct {
	serial  uint32
	accepts bool // whether the text may end here
	lexemes []symbol
	scans   [][]item // by lexemes: what follows it
	tokens  []special
	initial *lexer                   // of lexemes
	cost    int                      // steps that it took to make, whoever made it
	alone   atomic.Pointer[position] // see automaton.at
}

// special is a special token that may come next.
type special struct {
	token int32
	scan  []item
}

// item is a place in a rule: what is left of its alternative, and where to go on after it.
type item struct {
	dot int32
	ret *caller // nil after the start symbol
}

// caller is a place where rows go on after a nonterminal that began at a row: the items that wait.
type caller struct {
	serial  uint32
	row     *row
	of      symbol
	waiting []item // after the nonterminal
}

// builder makes rows. Its fields are scratch.
type builder struct {
	queue   []item
	seen    map[item]bool // of the queue, if that is long
	callers map[symbol]*caller
	scans   map[symbol]int
	pushes  int // calls of push
	counted int // those of pushes that bounded has counted
	joined  int // pushes of the last kernel
}

// kernel returns items without those at the end of their rule, which are replaced by the items that
// wait for them; sorted, without repetitions.
func (a *automaton) kernel(items []item, w *work) []item {
	b := &a.builder
	b.start()
	for _, i := range items {
		b.push(i)
	}
	kernel := items[:0]
	for n := 0; n < len(b.queue) && a.bounded(w); n++ {
		i := b.queue[n]
		if i.dot != end || i.ret == nil {
			kernel = append(kernel, i)
			continue
		}
		for _, waiting := range i.ret.waiting {
			b.push(waiting)
		}
	}
	b.joined = b.pushes
	slices.SortFunc(kernel, func(x, y item) int {
		return cmp.Or(cmp.Compare(x.dot, y.dot), cmp.Compare(x.ret.order(), y.ret.order()))
	})
	return kernel
}

func (c *caller) order() uint32 {
	if c == nil {
		return 0
	}
	return c.serial
}

func (b *builder) start() {
	b.queue, b.pushes, b.counted = b.queue[:0], 0, 0
	if b.seen == nil || len(b.seen) > maxScratch {
		b.seen = map[item]bool{}
	}
	clear(b.seen)
}

const (
	maxSearched = 16  // items that are searched without a map
	maxScratch  = 256 // entries of a map that is used again
)

func (b *builder) push(i item) {
	b.pushes++
	if len(b.queue) < maxSearched {
		if slices.Contains(b.queue, i) {
			return
		}
	} else {
		if len(b.seen) == 0 {
			for _, q := range b.queue {
				b.seen[q] = true
			}
		}
		if b.seen[i] {
			return
		}
		b.seen[i] = true
	}
	b.queue = append(b.queue, i)
}

// bounded counts the work of a row so far, and reports whether it may go on.
func (a *automaton) bounded(w *work) bool {
	b := &a.builder
	w.spend(itemCost * (b.pushes - b.counted))
	b.counted = b.pushes
	if len(b.queue) > a.limits.Items {
		w.fail(ErrBudget)
	}
	return w.err == nil
}

// internRow returns the row of items, which it owns and changes.
func (a *automaton) internRow(items []item, w *work) *row {
	kernel := a.kernel(items, w)
	key := a.key[:0]
	for _, i := range kernel {
		key = binary.LittleEndian.AppendUint32(key, uint32(i.dot))
		key = binary.LittleEndian.AppendUint32(key, i.ret.order())
	}
	a.key = key
	if r, ok := a.rows[string(key)]; ok && w.err == nil {
		return r
	}
	name := string(key)
	r := a.newRow(kernel, w)
	size := 200 + 2*len(name)
	for _, s := range r.scans {
		size += 48 + 16*len(s)
	}
	for _, c := range a.builder.callers {
		size += 64 + 16*len(c.waiting)
	}
	if a.re.Err() != nil || !a.take(size, w) { // with an error, the row's lexer may be missing
		return nil
	}
	a.rows[name] = r
	return r
}

func (a *automaton) newRow(kernel []item, w *work) *row {
	b := &a.builder
	b.start()
	b.callers, b.scans = map[symbol]*caller{}, map[symbol]int{}
	a.serial++
	r := &row{serial: a.serial, initial: noLexer}
	for _, i := range kernel {
		b.push(i)
	}
	for n := 0; n < len(b.queue) && a.bounded(w); n++ {
		a.expand(r, b.queue[n])
	}
	r.cost = itemCost * b.pushes
	var pairs []pair
	order := make([]int, len(r.lexemes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return cmp.Compare(r.lexemes[x], r.lexemes[y]) })
	lexemes, scans := make([]symbol, len(order)), make([][]item, len(order))
	for i, o := range order {
		lexemes[i], scans[i] = r.lexemes[o], r.scans[o]
		pairs = append(pairs, pair{lexemes[i], a.symbols[lexemes[i]].lexeme})
	}
	r.lexemes, r.scans = lexemes, scans
	if w.err == nil {
		r.initial = a.internLexer(pairs, w)
	}
	return r
}

// expand adds to r what item i means there.
func (a *automaton) expand(r *row, i item) {
	b := &a.builder
	if i.dot == end {
		switch {
		case i.ret == nil:
			r.accepts = true
		case i.ret.row != r: // else the nonterminal is nullable, and its items went on already
			for _, waiting := range i.ret.waiting {
				b.push(waiting)
			}
		}
		return
	}
	d := a.dots[i.dot]
	s := &a.symbols[d.symbol]
	after := item{d.next, i.ret}
	if s.nullable {
		b.push(after)
	}
	switch s.kind {
	case kindLexeme:
		n, ok := b.scans[d.symbol]
		if !ok {
			n = len(r.lexemes)
			b.scans[d.symbol] = n
			r.lexemes = append(r.lexemes, d.symbol)
			r.scans = append(r.scans, nil)
		}
		r.scans[n] = append(r.scans[n], after)
	case kindSpecial:
		n := slices.IndexFunc(r.tokens, func(t special) bool { return t.token == s.token })
		if n < 0 {
			n = len(r.tokens)
			r.tokens = append(r.tokens, special{token: s.token})
		}
		r.tokens[n].scan = append(r.tokens[n].scan, after)
	case kindNonterminal:
		ret := i.ret
		if d.next != end { // in the last place, the nonterminal returns where the rule returns
			if ret = b.callers[d.symbol]; ret == nil {
				a.serial++
				ret = &caller{serial: a.serial, row: r, of: d.symbol}
				b.callers[d.symbol] = ret
			}
			ret.waiting = append(ret.waiting, after)
		}
		for _, alternative := range s.alternatives {
			b.push(item{alternative, ret})
		}
	}
}

// scan returns what follows lexeme, which r has.
func (r *row) scan(lexeme symbol) []item {
	n, ok := slices.BinarySearch(r.lexemes, lexeme)
	if !ok {
		return nil
	}
	return r.scans[n]
}
