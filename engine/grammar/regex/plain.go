package regex

// Counted takes n apart into item, repeated from least to most times (Unbounded is no bound), and
// tail; ok reports whether n has this form.
func (b *Builder) Counted(n Node) (item Node, least, most int, tail Node, ok bool) {
	repeat, tail := b.counted(n)
	if repeat < 0 {
		return 0, 0, 0, 0, false
	}
	k := &b.nodes[repeat]
	return k.kids[0], int(k.min), int(k.max), tail, true
}

// Alternatives returns the expressions of which n is the Or, or n alone.
func (b *Builder) Alternatives(n Node) []Node {
	if k := &b.nodes[n]; k.op == opOr {
		return k.kids
	}
	return []Node{n}
}

// Exact reports whether n has no And or Not inside. Such an expression matches some text, unless it
// is Nothing.
func (b *Builder) Exact(n Node) bool { return b.nodes[n].exact }

// Prefix returns a text with which all texts of n begin, and the expression of what follows it. The
// text may be empty, and need not be the longest one.
func (b *Builder) Prefix(n Node) (text string, rest Node) {
	switch k := &b.nodes[n]; {
	case k.op == opLiteral:
		return k.text, Empty
	case k.op == opConcat && b.nodes[k.kids[0]].op == opLiteral:
		return b.nodes[k.kids[0]].text, k.kids[1]
	}
	return "", n
}
