package grammar

import (
	"slices"

	"github.com/ingot-run/ingot/engine/grammar/regex"
)

// summary is what a lexer alone says about the tokens that may follow. It holds in every row, and
// for a lexer of one lexeme in every grammar of the vocabulary.
type summary struct {
	// sets have the tokens that stay in the lexemes, or end where a lexeme may end.
	sets []*tokenSet
	// crossings are the tokens that go on after the end of a lexeme, which depend on the row.
	crossings []crossing
	// wide means that there are too many crossings: they are left out, and tokens are found by a
	// walk from the position.
	wide bool
}

// crossing is the trie's nodes where one of lexemes has just ended, by the byte of the node.
type crossing struct {
	lexemes []symbol // nil if the lexer has only one lexeme
	bytes   []byte
	nodes   [][]int32 // by bytes: an index in plain, or ^index in rest
}

const maxCrossings = 1 << 16

func (s *summary) bytes() int {
	n := 100
	for _, set := range s.sets {
		n += set.bytes()
	}
	for _, c := range s.crossings {
		n += 100 + 40*len(c.bytes)
		for _, nodes := range c.nodes {
			n += 4 * len(nodes)
		}
	}
	return n
}

// plainness is how a lexer treats plain tokens (see Vocabulary).
type plainness struct {
	// runes is how many plain characters may follow, whatever they are: regex.Unbounded if a plain
	// token of any length may.
	runes int
	// exactly means that no plain token with more characters may follow, and no lexeme ends in one.
	exactly bool
}

// plainnessOf finds plain characters in the expressions of pairs.
func (a *automaton) plainnessOf(pairs []pair) plainness {
	var p plainness
	for _, pair := range pairs {
		for _, n := range a.re.Alternatives(pair.node) {
			if n == regex.All {
				return plainness{runes: regex.Unbounded}
			}
			item, least, most, tail, ok := a.re.Counted(n)
			if !ok || !a.re.Exact(n) || !a.hasPlain(item) {
				continue
			}
			if most == regex.Unbounded || most > maxSliceRunes {
				return plainness{runes: regex.Unbounded}
			}
			if most > p.runes {
				p.runes = most
			}
			p.exactly = len(pairs) == 1 && n == pair.node && least >= 0 && tail != regex.Empty &&
				a.re.First(tail).Intersect(plainBytes) == regex.ByteSet{} && a.onePlain(item)
		}
	}
	return p
}

// plainBytes are the bytes of plain characters.
var plainBytes = func() regex.ByteSet {
	var s regex.ByteSet
	s.AddRange(0x20, 0xff)
	var escaped regex.ByteSet
	escaped.Add('"')
	escaped.Add('\\')
	return s.Intersect(escaped.Complement())
}()

// plainRune is the expression of one plain character.
func plainRune(b *regex.Builder) regex.Node {
	return b.NotRunes(regex.RuneRange{Lo: 0, Hi: 0x1f}, regex.RuneRange{Lo: '"', Hi: '"'}, regex.RuneRange{Lo: '\\', Hi: '\\'})
}

// hasPlain reports whether n matches every plain character.
func (a *automaton) hasPlain(n regex.Node) bool {
	return a.contained(n, 0, func() regex.Node { return a.re.Minus(a.plain, n) })
}

// onePlain reports whether n matches no text of two or more characters that begins with a plain
// one.
func (a *automaton) onePlain(n regex.Node) bool {
	return a.contained(n, 1, func() regex.Node {
		return a.re.And(n, a.re.Concat(a.plain, a.re.Minus(regex.All, regex.Empty)))
	})
}

// contained reports whether other matches nothing, and remembers it by n and question.
func (a *automaton) contained(n regex.Node, question int, other func() regex.Node) bool {
	key := [2]int32{int32(n), int32(question)}
	known, ok := a.containment[key]
	if !ok {
		empty, err := a.re.IsEmpty(other(), 20_000)
		known = empty && err == nil
		if a.re.Err() == nil {
			a.containment[key] = known
		}
	}
	return known
}

// summaryKey identifies a lexer of one lexeme across grammars: lexers with one key treat all tokens
// alike. Counts above the length of tokens are the same.
type summaryKey struct {
	item, tail  regex.Signature
	least, most int
}

// summarise returns the summary of l.
func (a *automaton) summarise(l *lexer, w *work) *summary {
	if s := l.summary.Load(); s != nil {
		return s
	}
	var key summaryKey
	shared := len(l.pairs) == 1 && !a.apart
	if shared {
		key = a.keyOf(l.pairs[0].node, w)
		if s := a.vocabulary.summaries.get(key); s != nil {
			l.summary.Store(s)
			return s
		}
	}
	s := a.newSummary(l, w)
	if w.err != nil {
		return s
	}
	if shared {
		a.vocabulary.summaries.put(key, s)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.take(s.bytes(), w) {
		l.summary.Store(s)
	}
	return s
}

func (a *automaton) keyOf(n regex.Node, w *work) (key summaryKey) {
	a.fill(w, func() {
		item, least, most, tail, ok := a.re.Counted(n)
		if !ok {
			key = summaryKey{item: a.re.Signature(n)}
			return
		}
		limit := a.vocabulary.longest + 1
		if least, most = min(least, limit), min(most, limit); most == regex.Unbounded {
			most = limit
		}
		key = summaryKey{a.re.Signature(item), a.re.Signature(tail), least, most}
	})
	return key
}

func (a *automaton) newSummary(l *lexer, w *work) *summary {
	v := a.vocabulary
	b := summaryBuilder{a: a, w: w, one: len(l.pairs) == 1, groups: map[string]int{}}
	base := a.baseOf(l, w)
	switch {
	case base != nil:
		b.walkFrom(l, base)
	case l.plain.runes == regex.Unbounded:
		b.s.sets = append(b.s.sets, v.allPlain())
		b.walk(v.rest, l, -1)
	case l.plain.exactly:
		b.s.sets = append(b.s.sets, v.slices[l.plain.runes])
		b.walk(v.rest, l, -1)
	default:
		b.walk(v.plain, l, 0)
		b.walk(v.rest, l, -1)
	}
	switch {
	case b.bits != nil:
		b.s.sets = append(b.s.sets, &tokenSet{dense: b.bits})
	case len(b.list) > 0:
		b.s.sets = append(b.s.sets, newTokenSet(b.list, v.words()))
	}
	for i := range b.s.crossings {
		b.s.crossings[i].sort()
	}
	if b.s.wide = b.s.wide || b.crossed > maxCrossings; b.s.wide {
		b.s.crossings = nil
	}
	return &b.s
}

type summaryBuilder struct {
	a       *automaton
	w       *work
	s       summary
	list    []int32        // tokens that stay in the lexemes or end with one
	bits    []uint32       // the same as a mask, if they are many
	one     bool           // the lexer has one lexeme
	groups  map[string]int // of crossings, by their lexemes
	crossed int
}

func (b *summaryBuilder) add(id int32) {
	if b.bits != nil {
		b.bits[id>>5] |= 1 << (id & 31)
		return
	}
	if b.list = append(b.list, id); len(b.list) > b.a.vocabulary.words()/2 {
		b.bits = newTokenSet(b.list, b.a.vocabulary.words()).dense
		b.list = nil
	}
}

// walk goes down t from l. mark is 0 for plain, and -1 for rest, whose nodes are noted inverted.
func (b *summaryBuilder) walk(t trie, l *lexer, mark int32) {
	if l.literal != "" {
		b.follow(t, 0, l, mark)
		return
	}
	b.below(t, 0, l, mark)
}

// below goes down t from node, where the state is l.
func (b *summaryBuilder) below(t trie, node int, l *lexer, mark int32) {
	var stack [maxTokenBytes + 1]*lexer
	stack[t[node].depth()] = l
	classOf := &b.a.classOf
	visited := 0
	for i, end := node+1, node+t[node].size(); i < end; {
		n := t[i]
		d := n.depth()
		visited++
		var next *lexer
		from, class := stack[d-1], classOf[n.byte()]
		if !from.next.few {
			next = from.next.to[class].Load()
		} else if at := from.next.at(class); at != nil {
			next = at.Load()
		} else {
			next = noLexer
		}
		if next == nil {
			next = b.a.fillLexer(from, class, b.w)
		}
		switch {
		case next == noLexer:
			i += n.size()
		case next.inner || b.arrive(t, i, next, mark):
			if id := n.token(); id >= 0 && next.inner {
				b.add(id)
			}
			stack[d] = next
			i++
		default:
			i += n.size()
		}
	}
	b.w.spend(visited * nodeCost)
}

// arrive notes what node and the state there say. It reports whether the nodes below are to be
// visited: not if they are noted already. Where any plain text may follow, all plain tokens below
// are allowed; where a text must follow, only its nodes are looked at, and it needs no states.
func (b *summaryBuilder) arrive(t trie, node int, l *lexer, mark int32) bool {
	n := t[node]
	if id := n.token(); id >= 0 {
		b.add(id)
	}
	if n.size() == 1 {
		return false
	}
	if len(l.accepts) > 0 {
		b.cross(t, node, l, mark)
	}
	switch {
	case mark == 0 && l.plain.runes == regex.Unbounded:
		for _, id := range b.a.vocabulary.tokensBelow(node) {
			b.add(id)
		}
		return false
	case l.literal != "":
		b.follow(t, node, l, mark)
		return false
	}
	return l.more
}

// follow goes down t from node along the literal of l.
func (b *summaryBuilder) follow(t trie, node int, l *lexer, mark int32) {
	for i := range len(l.literal) {
		b.w.spend(threadCost * nodeCost)
		if node = t.child(node, l.literal[i]); node < 0 {
			return
		}
		if i == len(l.literal)-1 {
			break
		}
		if id := t[node].token(); id >= 0 {
			b.add(id)
		}
	}
	after := b.a.pass(l, b.w)
	if after != noLexer && b.arrive(t, node, after, mark) {
		b.below(t, node, after, mark)
	}
}

// cross notes the children of a node at which lexemes of l end.
func (b *summaryBuilder) cross(t trie, node int, l *lexer, mark int32) {
	var lexemes []symbol
	var name []byte
	if !b.one {
		for _, n := range l.accepts {
			lexemes = append(lexemes, l.pairs[n].lexeme)
			name = append(name, byte(n), byte(n>>8), byte(n>>16))
			name = append(name, byte(l.pairs[n].lexeme), byte(l.pairs[n].lexeme>>8), byte(l.pairs[n].lexeme>>16))
		}
	}
	group, ok := b.groups[string(name)]
	if !ok {
		group = len(b.s.crossings)
		b.groups[string(name)] = group
		b.s.crossings = append(b.s.crossings, crossing{lexemes: lexemes, nodes: make([][]int32, 256)})
	}
	c := &b.s.crossings[group]
	for i, end := node+1, node+t[node].size(); i < end && b.crossed <= maxCrossings; i += t[i].size() {
		c.nodes[t[i].byte()] = append(c.nodes[t[i].byte()], int32(i)^mark)
		b.crossed++
	}
}

// sort leaves only the bytes that have nodes.
func (c *crossing) sort() {
	nodes := c.nodes
	c.nodes = nil
	for i, list := range nodes {
		if len(list) > 0 {
			c.bytes = append(c.bytes, byte(i))
			c.nodes = append(c.nodes, slices.Clip(list))
		}
	}
}
