package tools

import "strings"

// The texts around calls in Hermes's format and those that follow it.
const (
	openMark  = "<tool_call>"
	closeMark = "</tool_call>"
)

// hermesStart reads content and calls of the form
//
//	<tool_call>
//	{"name": "NAME", "arguments": {...}}
//	</tool_call>
func hermesStart(p *Parser) bool {
	_, ok := p.content(openMark)
	return ok && p.open(openMark, hermesCall)
}

func hermesCall(p *Parser) bool {
	switch p.object.read(p) {
	case more:
		return p.wait(hermesStart)
	case bad:
		return p.fail(hermesStart)
	}
	p.state = closing(closeMark, hermesStart)
	return true
}

// pythonMark can precede calls of Llama 3.
const pythonMark = "<|python_tag|>"

// llamaStart reads an answer that begins with calls of the form
//
//	{"name": "NAME", "parameters": {...}}; {"name": ...
//
// or is content.
func llamaStart(p *Parser) bool {
	first := strings.TrimLeft(p.in, space)
	if first == "" && !p.ended {
		return false
	}
	if strings.HasPrefix(first, "{") {
		p.reset()
		p.state = llamaCall
		return true
	}
	p.state = llamaContent
	return true
}

func llamaContent(p *Parser) bool {
	_, ok := p.content(pythonMark)
	return ok && p.open(pythonMark, llamaCall)
}

func llamaCall(p *Parser) bool {
	switch p.object.read(p) {
	case more:
		return p.wait(llamaContent)
	case bad:
		return p.fail(llamaContent)
	}
	return p.finish(llamaNext)
}

func llamaNext(p *Parser) bool {
	rest := strings.TrimLeft(p.in, space)
	if rest == "" && !p.ended {
		return false
	}
	if !strings.HasPrefix(rest, ";") {
		p.state = llamaContent
		return true
	}
	return p.open(";", llamaCall)
}

const (
	mistralMark = "[TOOL_CALLS]"
	mistralArgs = "[ARGS]"
	mistralID   = "[CALL_ID]"
)

var mistralMarks = []string{mistralMark, mistralArgs, mistralID}

// mistralStart reads content and calls of Mistral's formats: older models write
//
//	[TOOL_CALLS][{"name": "NAME", "arguments": {...}}, {"name": ...}]
//
// and newer ones
//
//	[TOOL_CALLS]NAME[ARGS]{...}[TOOL_CALLS]NAME...
func mistralStart(p *Parser) bool {
	_, ok := p.content(mistralMark)
	return ok && p.open(mistralMark, mistralKind)
}

func mistralKind(p *Parser) bool {
	if !p.skipSpace() {
		return p.wait(mistralStart)
	}
	if overlap(p.in, mistralArgs) == len(p.in) && !p.ended {
		return false
	}
	if p.in[0] == '[' && !strings.HasPrefix(p.in, mistralArgs) {
		p.state = callList{start: mistralStart}.open
		return true
	}
	p.state = mistralName
	return true
}

func mistralName(p *Parser) bool {
	n := strings.IndexAny(p.in, "[{")
	switch {
	case n < 0 && len(p.in) > maxKey:
		return p.fail(mistralStart)
	case n < 0:
		return p.wait(mistralStart)
	case !p.begin(strings.TrimSpace(p.take(n))):
		return p.fail(mistralStart)
	}
	p.state = mistralArguments
	return true
}

// mistralArguments skips the text before the arguments, which are an object, and reads these.
func mistralArguments(p *Parser) bool {
	if !p.object.value.begun {
		n := strings.IndexByte(p.in, '{')
		switch {
		case n > maxKey || n < 0 && len(p.in) > maxKey:
			return p.fail(mistralStart)
		case n < 0:
			return p.wait(mistralStart)
		}
		p.take(n)
	}
	n, ends := p.object.value.feed(p.in)
	p.argue(p.take(n))
	if !ends {
		return p.wait(mistralStart)
	}
	return p.finish(mistralStart)
}
