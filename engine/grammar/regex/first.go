package regex

// First returns a set that has the first byte of every text that n matches. It may have other bytes
// if n has an And or a Not inside.
func (b *Builder) First(n Node) ByteSet {
	if s, ok := b.first[n]; ok {
		return s
	}
	if !b.spend(1) {
		return ByteSet{}.Complement()
	}
	var s ByteSet
	k := &b.nodes[n]
	switch k.op {
	case opLiteral:
		s.Add(k.text[0])
	case opBytes:
		s = b.sets[k.set]
	case opConcat:
		s = b.First(k.kids[0])
		if b.nodes[k.kids[0]].nullable {
			s = s.Union(b.First(k.kids[1]))
		}
	case opRepeat:
		s = b.First(k.kids[0])
	case opOr:
		for _, kid := range k.kids {
			s = s.Union(b.First(kid))
		}
	case opAnd:
		s = s.Complement()
		for _, kid := range k.kids {
			s = s.Intersect(b.First(kid))
		}
	case opNot:
		s = s.Complement()
	case opDivide:
		s.AddRange('0', '9')
		s.Add('-')
		s.Add('.')
	}
	b.first[n] = s
	b.size += 48
	return s
}

// Only returns the one byte of the set; ok reports whether there is exactly one.
func (s ByteSet) Only() (c byte, ok bool) { return s.first(), s.Len() == 1 }
