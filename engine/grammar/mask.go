package grammar

// tokens returns the tokens that may follow p.
func (a *automaton) tokens(p *position, w *work) []*tokenSet {
	if known := p.tokens.Load(); known != nil {
		return *known
	}
	sets := a.findTokens(p, w)
	if w.err != nil || p.ended {
		return sets
	}
	size := 64 + 8*len(sets)
	if own := len(sets) - 1; own >= 0 {
		size += sets[own].bytes()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.take(size, w) {
		p.tokens.Store(&sets)
	}
	return sets
}

func (a *automaton) findTokens(p *position, w *work) []*tokenSet {
	v := a.vocabulary
	var sets []*tokenSet
	var list []int32
	switch {
	case p.row == nil:
	case len(p.threads) > 0: // the position of the row alone is often known
		sets = append(sets, a.tokens(a.at(p.row, w), w)...)
	default:
		for _, t := range p.row.tokens {
			list = append(list, t.token)
		}
		if p.row.initial != noLexer {
			sets, list = a.threadTokens(sets, list, thread{p.row, p.row.initial}, w)
		}
	}
	if p.accepting() && len(p.threads) == 0 {
		list = append(list, v.ends...)
	}
	for _, t := range p.threads {
		sets, list = a.threadTokens(sets, list, t, w)
	}
	if w.err != nil {
		return nil
	}
	return append(sets, newTokenSet(list, v.words()))
}

// at returns the position at which r begins and no lexeme goes on.
func (a *automaton) at(r *row, w *work) *position {
	if p := r.alone.Load(); p != nil {
		return p
	}
	var p *position
	a.fill(w, func() {
		if p = a.newPosition(r, nil, w); p != nil {
			r.alone.Store(p)
		}
	})
	return a.checked(p, w)
}

// threadTokens adds the tokens that may follow in t.
func (a *automaton) threadTokens(sets []*tokenSet, list []int32, t thread, w *work) ([]*tokenSet, []int32) {
	s := a.summarise(t.lexer, w)
	if w.err != nil {
		return sets, list
	}
	if s.wide {
		p := noPosition
		a.fill(w, func() { p = a.newPosition(nil, []thread{t}, w) })
		if p = a.checked(p, w); p != noPosition {
			list = a.walk(list, a.vocabulary.plain, 0, p, w)
			list = a.walk(list, a.vocabulary.rest, 0, p, w)
		}
		return sets, list
	}
	sets = append(sets, s.sets...)
	for _, c := range s.crossings {
		lexemes := c.lexemes
		if lexemes == nil {
			lexemes = []symbol{t.lexer.pairs[0].lexeme}
		}
		r := a.rowAfter(t.row, lexemes, w)
		if r == nil || r.initial == noLexer {
			continue
		}
		list = a.cross(list, &c, a.at(r, w), w)
	}
	return sets, list
}

// rowAfter returns the row after lexemes of r that end at one place.
func (a *automaton) rowAfter(r *row, lexemes []symbol, w *work) (after *row) {
	var items []item
	for _, l := range lexemes {
		items = append(items, r.scan(l)...)
	}
	a.fill(w, func() { after = a.internRow(items, w) })
	return after
}

// cross adds the tokens of c that may follow p.
func (a *automaton) cross(list []int32, c *crossing, p *position, w *work) []int32 {
	for i, b := range c.bytes {
		next := a.step(p, b, w)
		if next == noPosition {
			continue
		}
		for _, n := range c.nodes[i] {
			t := a.vocabulary.plain
			if n < 0 {
				t, n = a.vocabulary.rest, ^n
			}
			if id := t[n].token(); id >= 0 {
				list = append(list, id)
			}
			if t[n].size() > 1 {
				list = a.walk(list, t, int(n), next, w)
			}
		}
		w.spend(len(c.nodes[i]))
	}
	return list
}

// walk appends to list the tokens of t below node (and not of node itself) whose bytes from there
// may follow p.
func (a *automaton) walk(list []int32, t trie, node int, p *position, w *work) []int32 {
	var stack [maxTokenBytes + 1]*position
	stack[t[node].depth()] = p
	visited := 0
	for i, end := node+1, node+t[node].size(); i < end; {
		n := t[i]
		d := n.depth()
		visited++
		next := a.step(stack[d-1], n.byte(), w)
		if next == noPosition {
			i += n.size()
			continue
		}
		if id := n.token(); id >= 0 {
			list = append(list, id)
		}
		stack[d] = next
		i++
	}
	w.spend(visited * nodeCost)
	return list
}
