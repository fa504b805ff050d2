package regex

import "slices"

// Or matches what one of list matches.
func (b *Builder) Or(list ...Node) Node { return b.nary(opOr, list) }

// And matches what all of list match.
func (b *Builder) And(list ...Node) Node { return b.nary(opAnd, list) }

func (b *Builder) nary(o op, list []Node) Node {
	zero, one := All, Nothing // absorbing, neutral
	if o == opAnd {
		zero, one = Nothing, All
	}
	flat := make([]Node, 0, len(list))
	var set ByteSet
	sets := 0
	for _, n := range list {
		k := &b.nodes[n]
		switch {
		case n == zero:
			return zero
		case n == one:
		case k.op == o:
			flat = append(flat, k.kids...)
		default:
			flat = append(flat, n)
		}
	}
	if !b.spend(1 + len(flat)/4) {
		return Nothing
	}
	kept := flat[:0]
	for _, n := range flat {
		s, ok := b.single(n)
		if !ok {
			kept = append(kept, n)
			continue
		}
		switch {
		case sets == 0:
			set = s
		case o == opOr:
			set = set.Union(s)
		default:
			set = set.Intersect(s)
		}
		sets++
	}
	if sets > 0 {
		n := b.Bytes(set)
		if n == zero {
			return zero
		}
		kept = append(kept, n)
	}
	if o == opOr {
		kept = b.mergeRepeats(b.mergeLiterals(kept))
	} else {
		kept = b.joinDivisible(kept)
	}
	return b.sorted(o, kept, one)
}

// single returns the set of bytes that n matches, if it matches texts of one byte alone.
func (b *Builder) single(n Node) (ByteSet, bool) {
	k := &b.nodes[n]
	switch {
	case k.op == opBytes:
		return b.sets[k.set], true
	case k.op == opLiteral && len(k.text) == 1:
		var s ByteSet
		s.Add(k.text[0])
		return s, true
	}
	return ByteSet{}, false
}

func (b *Builder) sorted(o op, list []Node, one Node) Node {
	slices.SortFunc(list, func(x, y Node) int { return b.nodes[x].sig.compare(b.nodes[y].sig) })
	list = slices.Compact(list)
	switch len(list) {
	case 0:
		return one
	case 1:
		return list[0]
	}
	n := node{op: o, nullable: o == opAnd, exact: o == opOr, kids: slices.Clone(list)}
	if o == opOr {
		n.life = dead
	}
	for _, id := range list {
		k := &b.nodes[id]
		if o == opOr {
			n.nullable = n.nullable || k.nullable
			n.exact = n.exact && k.exact
			n.life = either(n.life, k.life)
			continue
		}
		n.nullable = n.nullable && k.nullable
		if k.life == dead {
			return Nothing
		}
	}
	if o == opAnd {
		if slices.Contains(list, Empty) {
			if n.nullable {
				return Empty
			}
			return Nothing
		}
		for _, id := range list {
			if k := &b.nodes[id]; k.op == opNot && slices.Contains(list, k.kids[0]) {
				return Nothing
			}
		}
		if n.nullable {
			n.life = alive
		} else if n.life = b.divisibleLife(list); n.life == dead {
			return Nothing
		}
	}
	return b.intern(n)
}

func either(x, y life) life {
	switch {
	case x == alive || y == alive:
		return alive
	case x == dead && y == dead:
		return dead
	}
	return unknown
}

func (s Signature) compare(o Signature) int {
	for i := range s {
		switch {
		case s[i] < o[i]:
			return -1
		case s[i] > o[i]:
			return 1
		}
	}
	return 0
}

// mergeLiterals replaces literals that begin with the same byte by their common beginning and what
// follows it, so that a long list of texts has few alternatives after a byte or two.
func (b *Builder) mergeLiterals(list []Node) []Node {
	var texts []string
	for _, n := range list {
		if k := &b.nodes[n]; k.op == opLiteral {
			texts = append(texts, k.text)
		}
	}
	if len(texts) < 8 {
		return list
	}
	rest := slices.DeleteFunc(list, func(n Node) bool { return b.nodes[n].op == opLiteral })
	slices.Sort(texts)
	texts = slices.Compact(texts)
	for len(texts) > 0 {
		n := 1
		for n < len(texts) && texts[n][0] == texts[0][0] {
			n++
		}
		rest = append(rest, b.beginning(texts[:n]))
		texts = texts[n:]
	}
	return rest
}

// beginning returns the expression of texts that are sorted, different and begin with the same
// byte.
func (b *Builder) beginning(texts []string) Node {
	first, last := texts[0], texts[len(texts)-1]
	n := 0
	for n < len(first) && n < len(last) && first[n] == last[n] {
		n++
	}
	if len(texts) == 1 || !b.spend(len(texts)) {
		return b.literal(first)
	}
	var tails []Node
	for rest := texts; len(rest) > 0; {
		if len(rest[0]) == n {
			tails = append(tails, Empty)
			rest = rest[1:]
			continue
		}
		k := 1
		for k < len(rest) && rest[k][n] == rest[0][n] {
			k++
		}
		group := make([]string, k)
		for i := range group {
			group[i] = rest[i][n:]
		}
		tails = append(tails, b.beginning(group))
		rest = rest[k:]
	}
	return b.concat(b.literal(first[:n]), b.sorted(opOr, b.mergeBytes(tails), Nothing))
}

// mergeBytes joins alternatives that are one byte.
func (b *Builder) mergeBytes(list []Node) []Node {
	var set ByteSet
	rest := list[:0]
	for _, n := range list {
		if s, ok := b.single(n); ok {
			set = set.Union(s)
		} else {
			rest = append(rest, n)
		}
	}
	if set.Len() > 0 {
		rest = append(rest, b.Bytes(set))
	}
	return rest
}

// mergeRepeats joins repeats of one expression before one tail where their counts meet, so that
// counting has one state a count.
func (b *Builder) mergeRepeats(list []Node) []Node {
	if len(list) > 64 {
		return list
	}
	for i := 0; i < len(list); i++ {
		for j := i + 1; j < len(list); j++ {
			if n, ok := b.mergeRepeat(list[i], list[j]); ok {
				list[i] = n
				list = slices.Delete(list, j, j+1)
				j = i
			}
		}
	}
	return list
}

func (b *Builder) mergeRepeat(x, y Node) (Node, bool) {
	rx, tx := b.counted(x)
	ry, ty := b.counted(y)
	if rx < 0 || ry < 0 || tx != ty {
		return 0, false
	}
	kx, ky := b.nodes[rx], b.nodes[ry]
	if kx.kids[0] != ky.kids[0] {
		return 0, false
	}
	if kx.min > ky.min {
		kx, ky = ky, kx
	}
	if kx.max != Unbounded && ky.min > kx.max+1 {
		return 0, false
	}
	most := max(kx.max, ky.max)
	if kx.max == Unbounded || ky.max == Unbounded {
		most = Unbounded
	}
	return b.concat(b.Repeat(kx.kids[0], int(kx.min), int(most)), tx), true
}

// counted takes n apart into a repeat and its tail; the repeat is -1 if n does not begin with one.
func (b *Builder) counted(n Node) (repeat, tail Node) {
	switch k := &b.nodes[n]; {
	case k.op == opRepeat:
		return n, Empty
	case k.op == opConcat && b.nodes[k.kids[0]].op == opRepeat:
		return k.kids[0], k.kids[1]
	}
	return -1, 0
}
