package tools

import (
	"fmt"
	"strings"
)

// The marks of Muse Glimmer. Messages begin as those of gpt-oss do.
const (
	museEnd    = "<|eot|>" // ends an answer
	museNext   = "<|eom|>" // ends a message within an answer
	museInvoke = `<atem:invoke name="`
	museParam  = `<atem:parameter name="`
	museClose  = "</atem:invoke>"
	museSelf   = "self" // recipient of reasoning
	museUser   = "user" // recipient of content
)

// museStart reads an answer that consists of messages of the form
//
//	to=RECIPIENT<|message|>TEXT<|eom|><|start|>assistant
//
// The text to "self" is reasoning, that to "user" content. A message to a tool has calls:
//
//	<atem:function_calls>
//	<atem:invoke name="NAME">
//	<atem:parameter name="KEY">VALUE</atem:parameter>
//	</atem:invoke>
//	</atem:function_calls>
//
// The answer begins after <|start|>assistant.
func museStart(p *Parser) bool {
	beginnings := []string{" to=", messageMark, startMark}
	for _, b := range beginnings {
		if strings.HasPrefix(p.in, b) {
			p.state = museHead
			return true
		}
	}
	for _, b := range beginnings {
		if strings.HasPrefix(b, p.in) && !p.ended {
			return false
		}
	}
	p.message(museContent)
	return true
}

func museHead(p *Parser) bool {
	n := strings.Index(p.in, messageMark)
	switch {
	case n < 0 && len(p.in) <= maxKey:
		return false // a header that is cut has no content
	case n < 0 || n > maxKey: // no header: its first mark is content too
		p.message(museContent)
		p.say(p.take(1))
		return true
	}
	_, recipient := readHeader(p.in[:n])
	p.in = p.in[n+len(messageMark):]
	p.reset()
	switch recipient {
	case museSelf:
		p.message(museReasoning)
		p.header.reasoning = true
		if p.header.reasoned {
			p.out.Reasoning += "\n"
		}
	case museUser, "":
		p.message(museContent)
	default:
		p.message(museCalls)
	}
	return true
}

var museEnds = []string{museNext, museEnd, startMark}

func museReasoning(p *Parser) bool {
	text, ends := p.body(museEnds)
	p.out.Reasoning += text
	p.header.reasoned = p.header.reasoned || text != ""
	return p.endMuse(ends)
}

func museContent(p *Parser) bool {
	text, ends := p.body(museEnds)
	p.say(text)
	return p.endMuse(ends)
}

func (p *Parser) endMuse(ends bool) bool {
	if ends {
		p.header.reasoning = false
		p.state = museBetween
	}
	return ends
}

// museBetween skips the mark at the end of a message.
func museBetween(p *Parser) bool {
	for _, m := range []string{museNext, museEnd} {
		if rest, ok := strings.CutPrefix(p.in, m); ok {
			p.in = rest
			break
		}
	}
	p.state = museStart
	return p.in != ""
}

// museCalls reads a message to a tool. The tags around all of its calls are left out.
func museCalls(p *Parser) bool {
	at, mark, ok := find(p.in, append([]string{museInvoke}, museEnds...))
	if !ok && p.ended {
		at = len(p.in)
	}
	text := p.in[:at]
	for _, tag := range []string{"<atem:function_calls>", "</atem:function_calls>"} {
		text = strings.Replace(text, tag, "", 1)
	}
	switch {
	case !ok && !p.ended:
		return false // a tag may be cut
	case strings.Trim(text, space) != "":
		p.say(strings.Trim(text, space))
	}
	p.in = p.in[at:]
	if mark == museInvoke {
		return p.open(museInvoke, museName)
	}
	return p.endMuse(ok)
}

func museName(p *Parser) bool {
	n := strings.Index(p.in, `">`)
	switch {
	case n > maxKey || n < 0 && len(p.in) > maxKey:
		return p.fail(museCalls)
	case n < 0:
		return p.wait(museCalls)
	case !p.begin(p.take(n)):
		return p.fail(museCalls)
	}
	p.take(len(`">`))
	p.argue("{")
	p.state = musePair
	return true
}

func musePair(p *Parser) bool {
	switch p.tag(museParam, museClose) {
	case waiting:
		return p.wait(museCalls)
	case museParam:
		p.state = museKey
		return true
	case museClose:
		p.argue("}")
		return p.finish(museCalls)
	}
	return p.fail(museCalls)
}

func museKey(p *Parser) bool {
	n := strings.Index(p.in, `">`)
	if n > maxKey || n < 0 && len(p.in) > maxKey {
		return p.fail(museCalls)
	}
	if n < 0 {
		return p.wait(museCalls)
	}
	p.key(p.take(n))
	p.take(len(`">`))
	p.state = museValue
	return true
}

func museValue(p *Parser) bool {
	const end = "</atem:parameter>"
	n := p.valueEnd(end)
	if n < 0 {
		p.part(p.take(len(p.in) - overlap(p.in, end)))
		return p.wait(museCalls)
	}
	p.part(p.take(n))
	p.take(len(end))
	p.endValue()
	p.state = musePair
	return true
}

func museGrammar(g *writer) {
	next := g.text(museNext + startMark + "assistant")
	thoughts := fmt.Sprintf("(%s TEXT? %s)?", g.text(" to="+museSelf+messageMark), next)
	content := g.form
	if content == "" {
		content = "TEXT?"
	}
	answer := g.text(" to="+museUser+messageMark) + " " + content
	last := "(" + answer + ")"
	if len(g.tools) > 0 {
		calls := "call"
		if !g.single {
			calls = fmt.Sprintf("call (%s call)*", next)
		}
		switch {
		case g.required:
			last = calls
		case g.form != "":
			last = fmt.Sprintf("(%s | %s)", answer, calls)
		default: // content can precede the calls
			last = fmt.Sprintf("(%s | (%s %s)? %s)", answer, answer, next, calls)
		}
	}
	g.rule("start", "%s %s", thoughts, last)
	g.rule("TEXT", "%s", without(startMark, messageMark, museNext, museEnd))
	if len(g.tools) == 0 {
		return
	}
	style := pairStyle{key: museParam, value: `">`, end: "</atem:parameter>\n", keyEnd: `">`, closing: "</atem:parameter>"}
	g.alternatives(func(i int, name string) string {
		return g.text(" to="+name+messageMark+"<atem:function_calls>\n"+museInvoke+name+"\">\n") + " " + g.pairs(i, style) + " " +
			g.text(museClose+"\n</atem:function_calls>")
	})
}
