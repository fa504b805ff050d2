package grammar

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
)

// A position is a state of the automaton: all that the text so far means for the text to come.
type position struct {
	serial  uint32
	row     *row // the row of lexemes that begin here; nil if none does
	threads []thread
	next    transitions[position]
	steep   atomic.Pointer[[]int32] // costs of next that are above maxFlat; nil if none is
	tokens  atomic.Pointer[[]*tokenSet]
	ended   bool // after an end token
}

// thread is lexemes that began at an earlier row and may go on.
type thread struct {
	row   *row
	lexer *lexer
}

// accepting reports whether the text may end here.
func (p *position) accepting() bool { return p.row != nil && p.row.accepts || p.ended }

// cost is how many steps a position costs to make, if nothing of it is known.
func (p *position) cost() int {
	n := threadCost * len(p.threads)
	if p.row != nil {
		n += p.row.cost
	}
	return n
}

// maxFlat is the most steps that a transition may cost without being noted.
const maxFlat = 1000

// climb returns how many steps the noted transitions from p along text cost to make, whoever made
// them.
func (a *automaton) climb(p *position, text []byte, w *work) (cost int) {
	for _, c := range text {
		next := a.step(p, c, w)
		if steep := p.steep.Load(); steep != nil && next != noPosition {
			cost += int((*steep)[p.next.index(a.classOf[c])])
		}
		p = next
	}
	return cost
}

// noteCost notes what a transition costs to make. The lock must be held.
func (a *automaton) noteCost(p *position, class uint8, cost int, w *work) {
	steep := p.steep.Load()
	if steep == nil {
		list := make([]int32, len(p.next.to))
		if !a.take(4*len(list), w) {
			return
		}
		steep = &list
	}
	(*steep)[p.next.index(class)] = int32(cost)
	p.steep.Store(steep)
}

// start returns the position before any text.
func (a *automaton) start(w *work) *position {
	var p *position
	a.fill(w, func() {
		if a.starting == nil {
			var items []item
			for _, alternative := range a.symbols[a.table.start].alternatives {
				items = append(items, item{dot: alternative})
			}
			a.starting = a.internPosition(items, nil, w)
		}
		p = a.starting
	})
	return a.checked(p, w)
}

func (a *automaton) checked(p *position, w *work) *position {
	if w.err != nil || p == nil {
		return noPosition
	}
	return p
}

// internPosition returns the position where lexemes end that items follow, and threads go on. It
// returns nil after an error.
func (a *automaton) internPosition(items []item, threads []thread, w *work) *position {
	var r *row
	if len(items) > 0 {
		r = a.internRow(items, w)
	}
	if w.err != nil || a.re.Err() != nil {
		return nil
	}
	if r == nil && len(threads) == 0 {
		return noPosition
	}
	return a.newPosition(r, threads, w)
}

// newPosition returns the position of r and threads, which it owns; nil after an error.
func (a *automaton) newPosition(r *row, threads []thread, w *work) *position {
	slices.SortFunc(threads, func(x, y thread) int {
		if x.row != y.row {
			return int(x.row.serial) - int(y.row.serial)
		}
		return int(x.lexer.serial) - int(y.lexer.serial)
	})
	threads = slices.Compact(threads)
	if len(threads) > a.limits.Items {
		w.fail(ErrBudget)
		return nil
	}
	key := a.key[:0]
	var serial uint32
	if r != nil {
		serial = r.serial
	}
	key = binary.LittleEndian.AppendUint32(key, serial)
	for _, t := range threads {
		key = binary.LittleEndian.AppendUint32(key, t.row.serial)
		key = binary.LittleEndian.AppendUint32(key, t.lexer.serial)
	}
	a.key = key
	if p, ok := a.positions[string(key)]; ok {
		return p
	}
	a.serial++
	p := &position{serial: a.serial, row: r, threads: slices.Clone(threads)}
	p.next = newTransitions[position](a.liveClasses(p), len(a.classes))
	if !a.take(250+len(key)+16*len(threads)+p.next.bytes(), w) {
		return nil
	}
	a.positions[string(key)] = p
	return p
}

// liveClasses returns the classes of the bytes that may follow p, sorted.
func (a *automaton) liveClasses(p *position) []byte {
	var live []byte
	if p.row != nil {
		live = append(live, p.row.initial.live...)
	}
	for i, t := range p.threads {
		if len(live) > len(a.classes) {
			slices.Sort(live)
			live = slices.Compact(live)
		}
		if i == 0 || t.lexer != p.threads[i-1].lexer {
			live = append(live, t.lexer.live...)
		}
	}
	slices.Sort(live)
	return slices.Compact(live)
}

// step returns the position after c: noPosition if c may not follow.
func (a *automaton) step(p *position, c byte, w *work) *position {
	class := a.classOf[c]
	at := p.next.at(class)
	if at == nil {
		return noPosition
	}
	if n := at.Load(); n != nil {
		return n
	}
	return a.fillPosition(p, class, w)
}

func (a *automaton) fillPosition(p *position, class uint8, w *work) *position {
	at := p.next.at(class)
	var items []item
	threads := make([]thread, 0, len(p.threads)+1)
	all := p.threads
	if p.row != nil && p.row.initial != noLexer {
		all = append(slices.Clone(all), thread{p.row, p.row.initial})
	}
	for _, t := range all {
		l := a.advance(t.lexer, a.classes[class], w)
		if l == noLexer {
			continue
		}
		if l.more {
			threads = append(threads, thread{t.row, l})
		}
		for _, n := range l.accepts {
			items = append(items, t.row.scan(l.pairs[n].lexeme)...)
		}
	}
	w.spend(threadCost*len(all) + len(items))
	if len(items) == 0 && len(threads) == 0 && w.err == nil {
		at.Store(noPosition)
		return noPosition
	}
	var n *position
	a.fill(w, func() {
		if n = at.Load(); n != nil {
			return
		}
		a.builder.joined = 0
		n = a.internPosition(items, threads, w)
		if cost := itemCost * a.builder.joined; n != nil && cost > maxFlat {
			a.noteCost(p, class, cost, w)
		}
		if n != nil && w.err == nil {
			at.Store(n)
		}
	})
	return a.checked(n, w)
}

// after returns the position after a special token.
func (a *automaton) after(p *position, token int32, w *work) *position {
	if p.row == nil {
		return noPosition
	}
	for _, t := range p.row.tokens {
		if t.token == token {
			n := noPosition
			a.fill(w, func() { n = a.internPosition(slices.Clone(t.scan), nil, w) })
			return a.checked(n, w)
		}
	}
	return noPosition
}
