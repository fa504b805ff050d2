package tools

import "strings"

// Control tokens of gpt-oss.
const (
	startMark     = "<|start|>"
	channelMark   = "<|channel|>"
	constrainMark = "<|constrain|>"
	messageMark   = "<|message|>"
	endMark       = "<|end|>"
	callMark      = "<|call|>"
	returnMark    = "<|return|>"
)

// functionsPrefix precedes the name of a tool in the recipient of a message.
const functionsPrefix = "functions."

// harmonyHeader is the state of messages of gpt-oss.
type harmonyHeader struct {
	reasoned  bool // there was reasoning
	reasoning bool // the present message, or its header, is reasoning
}

// harmonyStart reads an answer that consists of messages of the form
//
//	<|channel|>CHANNEL to=RECIPIENT <|constrain|>json<|message|>TEXT<|end|><|start|>assistant
//
// The channel "analysis" has reasoning, "final" the answer, and "commentary" calls, if it has a
// recipient, or content. The recipient can also precede the channel. The answer begins after
// <|start|>assistant.
func harmonyStart(p *Parser) bool {
	beginnings := []string{channelMark, messageMark, startMark, constrainMark, " to="}
	for _, b := range beginnings {
		if strings.HasPrefix(p.in, b) {
			p.state = harmonyHead
			return true
		}
	}
	for _, b := range beginnings {
		if strings.HasPrefix(b, p.in) && !p.ended {
			return false
		}
	}
	p.message(harmonyFinal)
	return true
}

func harmonyHead(p *Parser) bool {
	n := strings.Index(p.in, messageMark)
	switch {
	case n < 0 && len(p.in) <= maxKey:
		return false // a header that is cut has no content
	case n < 0 || n > maxKey: // no header: its first mark is content too
		p.message(harmonyFinal)
		p.say(p.take(1))
		return true
	}
	channel, recipient := readHeader(p.in[:n])
	p.in = p.in[n+len(messageMark):]
	p.reset()
	name, isFunction := strings.CutPrefix(recipient, functionsPrefix)
	switch {
	case isFunction && p.begin(name):
		p.message(harmonyCall)
	case channel == "analysis" && recipient == "":
		p.message(harmonyAnalysis)
		p.header.reasoning = true
		if p.header.reasoned {
			p.out.Reasoning += "\n"
		}
	default:
		p.message(harmonyFinal)
	}
	return true
}

// message begins a message, which the given state reads.
func (p *Parser) message(body state) {
	p.state = body
	p.header.reasoning = false
	p.afterCall = p.afterCall || p.said
}

func readHeader(header string) (channel, recipient string) {
	word := func(after string) string {
		_, rest, ok := strings.Cut(header, after)
		if !ok {
			return ""
		}
		if n := strings.IndexAny(rest, " <"); n >= 0 {
			rest = rest[:n]
		}
		return rest
	}
	return word(channelMark), word("to=")
}

// Reasoning reports whether the text so far ends within reasoning that the format marks.
func (p *Parser) Reasoning() bool { return p.header.reasoning }

// body returns the text of the present message that is known, and whether the message ends there.
// marks are those that end it.
func (p *Parser) body(marks []string) (text string, ends bool) {
	at, _, ends := find(p.in, marks)
	if !ends && p.ended {
		at = len(p.in)
	}
	return p.take(at), ends
}

var harmonyEnds = []string{endMark, callMark, returnMark, startMark, channelMark}

func harmonyAnalysis(p *Parser) bool {
	text, ends := p.body(harmonyEnds)
	p.out.Reasoning += text
	p.header.reasoned = p.header.reasoned || text != ""
	return p.endMessage(ends)
}

func harmonyFinal(p *Parser) bool {
	text, ends := p.body(harmonyEnds)
	p.say(text)
	return p.endMessage(ends)
}

// harmonyCall reads the arguments of a call. They are JSON, in which a mark is text.
func harmonyCall(p *Parser) bool {
	n, ends := p.object.value.feed(p.in)
	p.argue(p.take(n))
	if ends || p.ended {
		return p.finish(harmonyAfter)
	}
	return false
}

// harmonyAfter skips the rest of a message after a call.
func harmonyAfter(p *Parser) bool {
	_, ends := p.body(harmonyEnds)
	return p.endMessage(ends)
}

func (p *Parser) endMessage(ends bool) bool {
	if ends {
		p.header.reasoning = false
		p.state = harmonyBetween
	}
	return ends
}

// harmonyBetween skips the mark at the end of a message.
func harmonyBetween(p *Parser) bool {
	for _, m := range []string{endMark, callMark, returnMark} {
		if rest, ok := strings.CutPrefix(p.in, m); ok {
			p.in = rest
			break
		}
	}
	p.state = harmonyStart
	return p.in != ""
}
