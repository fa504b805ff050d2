package regex

import "errors"

// ErrEmptiness means that it takes too long to find whether an expression matches any text.
var ErrEmptiness = errors.New("it takes too long to find whether any text matches")

// Derivative returns the expression of the texts that may follow byte c in texts that n matches.
func (b *Builder) Derivative(n Node, c byte) Node {
	switch n {
	case Nothing, Empty:
		return Nothing
	case All:
		return All
	}
	if b.fails(n, c) {
		return Nothing
	}
	key := uint64(n)<<8 | uint64(c)
	if d, ok := b.derived[key]; ok {
		return d
	}
	if !b.spend(1) {
		return Nothing
	}
	d := b.derive(n, c)
	if b.err == nil {
		b.derived[key] = d
		b.size += 32
	}
	return d
}

// fails reports whether it is plain that no text of n begins with c.
func (b *Builder) fails(n Node, c byte) bool {
	k := &b.nodes[n]
	if k.op == opConcat {
		k = &b.nodes[k.kids[0]]
	}
	return k.op == opLiteral && k.text[0] != c || k.op == opBytes && !b.sets[k.set].Has(c)
}

func (b *Builder) derive(n Node, c byte) Node {
	k := b.nodes[n] // a copy: nodes are added below
	switch k.op {
	case opLiteral:
		if k.text[0] == c {
			return b.literal(k.text[1:])
		}
	case opBytes:
		if b.sets[k.set].Has(c) {
			return Empty
		}
	case opConcat:
		d := b.Derivative(k.kids[0], c)
		if d != Nothing {
			d = b.concat(d, k.kids[1])
		}
		if b.nodes[k.kids[0]].nullable {
			return b.Or(d, b.Derivative(k.kids[1], c))
		}
		return d
	case opRepeat:
		d := b.Derivative(k.kids[0], c)
		if d == Nothing {
			return Nothing
		}
		most := int(k.max)
		if most != Unbounded {
			most--
		}
		return b.concat(d, b.Repeat(k.kids[0], max(int(k.min)-1, 0), most))
	case opOr, opAnd:
		list := make([]Node, 0, len(k.kids))
		b.spend(len(k.kids) / 16)
		for _, kid := range k.kids {
			d := b.Derivative(kid, c)
			if d == Nothing && k.op == opAnd {
				return Nothing
			}
			if d != Nothing {
				list = append(list, d)
			}
		}
		return b.nary(k.op, list)
	case opNot:
		return b.Not(b.Derivative(k.kids[0], c))
	case opDivide:
		return b.divided(k, c)
	}
	return Nothing
}

// Match reports whether n matches text.
func (b *Builder) Match(n Node, text string) bool {
	for i := range len(text) {
		n = b.Derivative(n, text[i])
	}
	return b.nodes[n].nullable
}

// IsEmpty reports whether n matches no text at all. The error is the Builder's, or ErrEmptiness if
// the answer needs more than work steps.
func (b *Builder) IsEmpty(n Node, work int) (bool, error) {
	if k := &b.nodes[n]; k.life != unknown || k.exact {
		return n == Nothing || k.life == dead, b.err
	}
	// A search in breadth for an expression that matches the empty text or is known to match some.
	type step struct {
		node Node
		from int32
	}
	queue := []step{{n, -1}}
	seen := map[Node]bool{n: true}
	for i := 0; i < len(queue); i++ {
		for _, c := range b.classes.bytes {
			d := b.Derivative(queue[i].node, c)
			if b.err != nil {
				return false, b.err
			}
			if k := &b.nodes[d]; k.life == alive || k.nullable || k.exact && d != Nothing {
				for j := int32(i); j >= 0; j = queue[j].from {
					b.nodes[queue[j].node].life = alive
				}
				return false, nil
			}
			if b.nodes[d].life == dead || seen[d] {
				continue
			}
			seen[d] = true
			queue = append(queue, step{d, int32(i)})
		}
		if work -= len(b.classes.bytes); work < 0 {
			return false, ErrEmptiness
		}
	}
	for _, s := range queue {
		b.nodes[s.node].life = dead
	}
	return true, nil
}
