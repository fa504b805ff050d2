package tools

import "strings"

// pairs is the state of a call whose arguments are pairs of a name and a value between tags. Values
// that are strings have neither quotes nor escapes; other values are JSON.
type pairs struct {
	begun  bool // the first value has been read
	kind   kind // of the present value
	value  strings.Builder
	scan   scanner // of value
	quoted bool    // the value is a string, of which a part was passed on
}

var glmMarks = []string{openMark, closeMark, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"}

// glmStart reads content and calls of the form
//
//	<tool_call>NAME
//	<arg_key>KEY</arg_key>
//	<arg_value>VALUE</arg_value>
//	</tool_call>
//
// GLM-4.7 writes no line breaks.
func glmStart(p *Parser) bool {
	_, ok := p.content(openMark)
	return ok && p.open(openMark, glmName)
}

func glmName(p *Parser) bool {
	if !p.skipSpace() {
		return p.wait(glmStart)
	}
	n := strings.IndexAny(p.in, "\n<")
	switch {
	case n < 0 && len(p.in) > maxKey:
		return p.fail(glmStart)
	case n < 0:
		return p.wait(glmStart)
	case !p.begin(strings.TrimSpace(p.take(n))):
		return p.fail(glmStart)
	}
	p.argue("{")
	p.state = glmPair
	return true
}

func glmPair(p *Parser) bool {
	switch p.tag("<arg_key>", closeMark) {
	case waiting:
		return p.wait(glmStart)
	case "<arg_key>":
		p.state = glmKey
		return true
	case closeMark:
		p.argue("}")
		return p.finish(glmStart)
	}
	return p.fail(glmStart)
}

func glmKey(p *Parser) bool {
	n := strings.Index(p.in, "</arg_key>")
	if n > maxKey || n < 0 && len(p.in) > maxKey {
		return p.fail(glmStart)
	}
	if n < 0 {
		return p.wait(glmStart)
	}
	p.key(p.take(n))
	p.take(len("</arg_key>"))
	p.state = glmGap
	return true
}

func glmGap(p *Parser) bool {
	switch p.tag("<arg_value>") {
	case waiting:
		return p.wait(glmStart)
	case "<arg_value>":
		p.state = glmValue
		return true
	}
	return p.fail(glmStart)
}

func glmValue(p *Parser) bool {
	const end = "</arg_value>"
	n := p.valueEnd(end)
	if n < 0 {
		p.part(p.take(len(p.in) - overlap(p.in, end)))
		return p.wait(glmStart)
	}
	p.part(p.take(n))
	p.take(len(end))
	p.endValue()
	p.state = glmPair
	return true
}

// coderStart reads content and calls of the form
//
//	<tool_call>
//	<function=NAME>
//	<parameter=KEY>
//	VALUE
//	</parameter>
//	</function>
//	</tool_call>
//
// Qwen3-Coder sometimes leaves out the outer tags.
func coderStart(p *Parser) bool {
	mark, ok := p.content(openMark, "<function=")
	if ok && mark == openMark {
		return p.open(openMark, coderFunction)
	}
	return ok && p.open("", coderFunction)
}

func coderFunction(p *Parser) bool {
	switch p.tag("<function=") {
	case waiting:
		return p.wait(coderStart)
	case "<function=":
		p.state = coderName
		return true
	}
	return p.fail(coderStart)
}

func coderName(p *Parser) bool {
	n := strings.IndexByte(p.in, '>')
	switch {
	case n > maxKey || n < 0 && len(p.in) > maxKey:
		return p.fail(coderStart)
	case n < 0:
		return p.wait(coderStart)
	case !p.begin(strings.TrimSpace(p.take(n))):
		return p.fail(coderStart)
	}
	p.take(1)
	p.argue("{")
	p.state = coderPair
	return true
}

func coderPair(p *Parser) bool {
	switch p.tag("<parameter=", "</function>") {
	case waiting:
		return p.wait(coderStart)
	case "<parameter=":
		p.state = coderKey
		return true
	case "</function>":
		p.argue("}")
		p.state = closing(closeMark, coderStart)
		return true
	}
	return p.fail(coderStart)
}

// closing returns a state that reads the closing tag of a call. Some models leave it out.
func closing(tag string, next state) state {
	return func(p *Parser) bool {
		if !p.ended && (!p.skipSpace() || overlap(p.in, tag) == len(p.in)) {
			return false
		}
		if rest := strings.TrimLeft(p.in, space); strings.HasPrefix(rest, tag) {
			p.take(len(p.in) - len(rest) + len(tag))
		}
		return p.finish(next)
	}
}

func coderKey(p *Parser) bool {
	n := strings.IndexByte(p.in, '>')
	if n > maxKey || n < 0 && len(p.in) > maxKey {
		return p.fail(coderStart)
	}
	if n < 0 || n+1 == len(p.in) {
		return p.wait(coderStart)
	}
	p.key(p.take(n))
	p.take(1)
	if p.in[0] == '\n' {
		p.take(1)
	}
	p.state = coderValue
	return true
}

func coderValue(p *Parser) bool {
	const end = "</parameter>"
	n := p.valueEnd(end)
	if n < 0 {
		p.part(p.take(len(p.in) - max(overlap(p.in, end), overlap(p.in, "\n"+end))))
		return p.wait(coderStart)
	}
	p.part(strings.TrimSuffix(p.take(n), "\n"))
	p.take(len(end))
	p.endValue()
	p.state = coderPair
	return true
}

// waiting is what tag returns if more text is needed.
const waiting = "..."

// tag takes one of several tags after white space. It returns an empty string if something else
// follows.
func (p *Parser) tag(tags ...string) string {
	if !p.skipSpace() {
		return waiting
	}
	for _, t := range tags {
		if strings.HasPrefix(p.in, t) {
			return p.take(len(t))
		}
	}
	for _, t := range tags {
		if strings.HasPrefix(t, p.in) {
			return waiting
		}
	}
	return ""
}

// key begins a pair.
func (p *Parser) key(name string) {
	separator := ""
	if p.pairs.begun {
		separator = ", "
	}
	p.pairs.begun, p.pairs.quoted = true, false
	p.pairs.value.Reset()
	p.pairs.scan = scanner{}
	p.pairs.kind = p.tools.kind(p.call.name, name)
	p.argue(separator + quote(name) + ": ")
}

// valueEnd returns where a value ends in the input; -1 if it does not end yet. In a constrained
// answer, a string in an array or in an object may contain the mark that ends a value.
func (p *Parser) valueEnd(mark string) int {
	v := &p.pairs
	for {
		n := strings.Index(p.in, mark)
		if n < 0 || !p.trusted {
			return n
		}
		begin := strings.TrimLeft(v.value.String(), space)
		if begin == "" {
			begin = strings.TrimLeft(p.in[:n], space)
		}
		nests := begin != "" && typeOf(begin)&v.kind.others&(arrays|objects) != 0
		if s := v.scan; !nests || !s.within(p.in[:n]) {
			return n
		}
		p.part(p.take(n + 1))
	}
}

// part adds a part of a value.
func (p *Parser) part(text string) {
	v := &p.pairs
	if !v.kind.text || v.kind.others != 0 {
		v.value.WriteString(text) // its type is known at the end
		v.scan.feed(text)
		return
	}
	if !v.quoted {
		v.quoted = true
		text = `"` + inner(text)
	} else {
		text = inner(text)
	}
	if text != "" {
		p.argue(text)
	}
}

// endValue ends a pair.
func (p *Parser) endValue() {
	if p.pairs.quoted {
		p.argue(`"`)
		return
	}
	p.argue(p.pairs.kind.json(p.pairs.value.String()))
}
