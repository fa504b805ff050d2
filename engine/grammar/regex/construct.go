package regex

import "slices"

// Literal matches text alone.
func (b *Builder) Literal(text string) Node {
	if text == "" {
		return Empty
	}
	if !b.spend(1 + len(text)/64) {
		return Nothing
	}
	b.classes.refineText(text)
	// Texts with the same end are cut at the same places.
	at := len(text) % maxLiteral
	list := []Node{b.literal(text[:at])}
	for ; at < len(text); at += maxLiteral {
		list = append(list, b.literal(text[at:at+maxLiteral]))
	}
	return b.Concat(list...)
}

// literal is Literal for a part of a known literal.
func (b *Builder) literal(text string) Node {
	if text == "" {
		return Empty
	}
	return b.intern(node{op: opLiteral, text: text, exact: true, life: alive})
}

// Bytes matches one byte of set.
func (b *Builder) Bytes(set ByteSet) Node {
	switch set.Len() {
	case 0:
		return Nothing
	case 1:
		return b.Literal(string([]byte{set.first()}))
	}
	n := node{op: opBytes, set: int32(len(b.sets)), exact: true, life: alive}
	b.sets = append(b.sets, set)
	before := len(b.nodes)
	id := b.intern(n)
	if len(b.nodes) == before { // known, or over a limit
		b.sets = b.sets[:len(b.sets)-1]
	} else {
		b.classes.refine(set)
		b.size += 32
	}
	return id
}

// Concat matches texts of list, one after the other.
func (b *Builder) Concat(list ...Node) Node {
	if len(list) == 0 {
		return Empty
	}
	n := list[len(list)-1]
	for i := len(list) - 2; i >= 0; i-- {
		n = b.concat(list[i], n)
	}
	return n
}

func (b *Builder) concat(head, tail Node) Node {
	if head == Nothing || tail == Nothing {
		return Nothing
	}
	if head == Empty {
		return tail
	}
	if tail == Empty {
		return head
	}
	// A chain on the left is moved to the right, from its end.
	if b.nodes[head].op == opConcat {
		var parts []Node
		for b.nodes[head].op == opConcat {
			parts = append(parts, b.nodes[head].kids[0])
			head = b.nodes[head].kids[1]
		}
		parts = append(parts, head)
		if !b.spend(len(parts)) {
			return Nothing
		}
		for _, p := range slices.Backward(parts) {
			tail = b.concat(p, tail)
		}
		return tail
	}
	h, t := b.nodes[head], b.nodes[tail]
	if h.op == opLiteral && t.op == opLiteral && len(h.text)+len(t.text) <= maxLiteral {
		return b.joined(h.text, t.text)
	}
	if h.op == opLiteral && t.op == opConcat && b.nodes[t.kids[0]].op == opLiteral &&
		len(h.text)+len(b.nodes[t.kids[0]].text) <= maxLiteral {
		return b.concat(b.joined(h.text, b.nodes[t.kids[0]].text), t.kids[1])
	}
	return b.intern(node{
		op: opConcat, nullable: h.nullable && t.nullable, exact: h.exact && t.exact,
		life: both(h.life, t.life), kids: []Node{head, tail},
	})
}

func (b *Builder) joined(x, y string) Node {
	if !b.spend(1 + (len(x)+len(y))/64) {
		return Nothing
	}
	b.size += len(x) + len(y)
	return b.literal(x + y)
}

// both is the life of a concatenation.
func both(x, y life) life {
	switch {
	case x == alive && y == alive:
		return alive
	case x == dead || y == dead:
		return dead
	}
	return unknown
}

// Repeat matches n from least to most times. Unbounded is no bound.
func (b *Builder) Repeat(n Node, least, most int) Node {
	if least < 0 || least > MaxRepeat || most > MaxRepeat {
		return b.Fail(ErrRepeat)
	}
	if most != Unbounded && most < least {
		return Nothing
	}
	k := b.nodes[n]
	switch {
	case n == Empty || most == 0:
		return Empty
	case n == Nothing && least == 0:
		return Empty
	case n == Nothing:
		return Nothing
	}
	if k.nullable {
		least = 0
	}
	switch {
	case least == 1 && most == 1:
		return n
	case least == 0 && most == 1:
		return b.Or(n, Empty)
	case k.op == opRepeat && k.min == 0 && k.max == Unbounded:
		return n
	case n == All:
		return All
	}
	life := k.life
	if least == 0 {
		life = alive
	}
	return b.intern(node{
		op: opRepeat, nullable: least == 0, exact: k.exact, life: life,
		min: int32(least), max: int32(most), kids: []Node{n},
	})
}

// Optional matches n or the empty text.
func (b *Builder) Optional(n Node) Node { return b.Or(n, Empty) }

// Not matches every text that n does not match, including texts that are not UTF-8.
func (b *Builder) Not(n Node) Node {
	k := b.nodes[n]
	if k.op == opNot {
		return k.kids[0]
	}
	return b.intern(node{op: opNot, nullable: !k.nullable, life: lifeOfNot(k), kids: []Node{n}})
}

func lifeOfNot(k node) life {
	if !k.nullable {
		return alive // the empty text
	}
	return unknown
}

// Minus matches what n matches and without does not.
func (b *Builder) Minus(n, without Node) Node { return b.And(n, b.Not(without)) }
