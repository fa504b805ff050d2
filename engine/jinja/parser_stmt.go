package jinja

import "slices"

// statement parses what stands in {% %}.
func (p *parser) statement() stmt {
	word := p.expectName()
	switch start := at(word.offset); word.text {
	case "for":
		return p.forLoop(start)
	case "if":
		return p.ifChain(start)
	case "set":
		return p.set(start)
	case "macro":
		return p.macro(start)
	case "filter":
		s := &captureStmt{at: start, filter: p.blockFilter()}
		s.body, _ = p.body("filter", "endfilter")
		return s
	case "generation":
		return &generationStmt{start, &macroDef{name: word.text, body: p.macroBody("generation")}}
	case "break", "continue":
		if p.loops == 0 {
			failAt(word.offset, "'%s' outside of a loop", word.text)
		}
		if word.text == "break" {
			return &loopControl{start, flowBreak}
		}
		return &loopControl{start, flowContinue}
	}
	refuseStatement(word)
	return nil
}

func (p *parser) ifChain(start at) *ifStmt {
	first := &ifStmt{at: start}
	for s := first; ; {
		s.test = p.tuple(false, "")
		var end string
		s.body, end = p.body("if", "elif", "else", "endif")
		switch end {
		case "elif":
			s = &ifStmt{at: p.at()}
			first.elifs = append(first.elifs, s)
		case "else":
			first.other, _ = p.body("if", "endif")
			return first
		default:
			return first
		}
	}
}

func (p *parser) forLoop(start at) *forStmt {
	s := &forStmt{at: start, target: p.target(p.primary, "in")}
	p.expectWord("in")
	s.seq = p.tuple(false, "recursive")
	if p.takeWord("if") {
		s.test = p.expression()
	}
	if p.isWord("recursive") {
		refuse(p.cur().offset, "recursive loops are")
	}
	p.loops++
	var end string
	s.body, end = p.body("for", "endfor", "else")
	p.loops--
	if end == "else" {
		s.other, _ = p.body("for", "endfor")
	}
	return s
}

func (p *parser) set(start at) stmt {
	target := p.target(p.setItem, "")
	if p.takeOp("=") {
		return &setStmt{start, target, p.tuple(true, "")}
	}
	s := &captureStmt{at: start, target: target}
	if p.isOp("|") {
		s.filter = p.blockFilter()
	}
	s.body, _ = p.body("set", "endset")
	return s
}

// blockFilter parses | filter | filter, where the first | may be missing.
func (p *parser) blockFilter() *filterExpr {
	p.takeOp("|")
	f := p.filter(nil)
	for n := 0; p.takeOp("|"); n++ {
		p.link(n)
		f = p.filter(f)
	}
	return f
}

func (p *parser) macro(start at) *macroStmt {
	name := p.expectName()
	if reserved(name.text) {
		failAt(name.offset, "can't assign to '%s'", name.text)
	}
	s := &macroStmt{at: start, def: &macroDef{name: name.text}}
	s.target = &nameExpr{at: at(name.offset), name: name.text, use: useStore}
	p.signature(s.def)
	s.def.body = p.macroBody("macro")
	return s
}

// macroBody parses the body of a macro, which is not part of the loops around it.
func (p *parser) macroBody(word string) []stmt {
	outside := p.loops
	p.loops = 0
	body, _ := p.body(word, "end"+word)
	p.loops = outside
	return body
}

// signature parses the parameters of a macro.
func (p *parser) signature(d *macroDef) {
	p.expectOp("(")
	for !p.takeOp(")") {
		if len(d.params) > 0 {
			p.expectOp(",")
		}
		name := p.expectName()
		param := &nameExpr{at: at(name.offset), name: name.text, use: useParam}
		if reserved(name.text) || slices.ContainsFunc(d.params, func(o *nameExpr) bool { return o.name == name.text }) {
			failAt(name.offset, "'%s' cannot be a parameter here", name.text)
		}
		d.params = append(d.params, param)
		if p.takeOp("=") {
			d.defaults = append(d.defaults, p.expression())
		} else if len(d.defaults) > 0 {
			failAt(name.offset, "a parameter without default follows one with a default")
		}
	}
}

// target parses what a set or for assigns to: an item, or a tuple of them. The word end, if not empty, ends it.
func (p *parser) target(item func() expr, end string) expr {
	start := p.cur().offset
	items, isTuple := p.items(item, end)
	var t expr
	switch {
	case isTuple:
		t = &tupleExpr{items}
	case len(items) == 0:
		p.fail("a name to assign to")
	default:
		t = items[0]
	}
	markStored(t, start)
	return t
}

// setItem parses what set, but not for, may assign to: a name, or an attribute of a namespace.
func (p *parser) setItem() expr {
	t, dot := p.cur(), p.ahead()
	if t.kind != tokName || reserved(t.text) || dot.kind != tokOp || dot.text != "." {
		return p.primary()
	}
	p.pos += 2
	return &attrTarget{at(t.offset), &nameExpr{at: at(t.offset), name: t.text}, p.expectName().text}
}

// reserved reports whether a name is a value and cannot be assigned to.
func reserved(name string) bool {
	switch name {
	case "true", "false", "none", "True", "False", "None":
		return true
	}
	return false
}

// markStored marks the names of a target as stored to. It fails for an expression that is no target.
func markStored(e expr, offset int) {
	switch e := e.(type) {
	case *nameExpr:
		e.use = useStore
	case *attrTarget:
	case *tupleExpr:
		for _, item := range e.items {
			markStored(item, offset)
		}
	default:
		failAt(offset, "this cannot be assigned to")
	}
}
