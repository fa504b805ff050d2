package tools

import (
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

// callList reads calls that are a JSON list of objects:
//
//	[{"name": "NAME", "arguments": {...}}, {"name": ...}]
type callList struct {
	end   string // the mark after the list; may be empty
	start state  // reads the answer after the list
}

func (l callList) open(p *Parser) bool {
	if !p.skipSpace() {
		return p.wait(l.start)
	}
	if p.in[0] == '[' {
		p.take(1)
	}
	p.state = l.item
	return true
}

func (l callList) item(p *Parser) bool {
	switch p.object.read(p) {
	case more:
		return p.wait(l.start)
	case bad:
		return p.fail(l.start)
	}
	return p.finish(l.next)
}

func (l callList) next(p *Parser) bool {
	rest := strings.TrimLeft(p.in, space)
	switch {
	case rest == "" && !p.ended:
		return false
	case strings.HasPrefix(rest, ","):
		return p.open(",", l.item)
	case strings.HasPrefix(rest, "]"):
		p.in = rest[1:]
	}
	p.state = l.close
	return true
}

// close skips the mark after the list.
func (l callList) close(p *Parser) bool {
	rest := strings.TrimLeft(p.in, space)
	if !p.ended && l.end != "" && (rest == "" || overlap(rest, l.end) == len(rest)) {
		return false
	}
	if after, ok := strings.CutPrefix(rest, l.end); ok && l.end != "" {
		p.in = after
	}
	p.state = l.start
	return true
}

// listGrammar returns the rules of answers whose calls are a list between two marks, of which the
// second may be empty. others are further marks with which a parser recognises calls.
func listGrammar(open, end string, others ...string) func(*writer) {
	return func(g *writer) {
		items := "call"
		if !g.single {
			items = `call (", " call)*`
		}
		list := strings.Join([]string{g.text(open + "["), items, g.text("]" + end)}, " ")
		switch {
		case g.required:
			g.rule("start", "%s", list)
		case g.form != "":
			g.rule("start", "%s | %s", list, g.form)
		default:
			g.rule("start", "TEXT? | TEXT? %s", list)
			g.rule("TEXT", "%s", without(append(others, open)...))
		}
		g.alternatives(func(i int, name string) string {
			return g.text(`{"name": "`+name+`", "arguments": `) + " " + g.object(i) + " " + g.text("}")
		})
	}
}

// withText adds a text to the content of a message.
func withText(m *ordered.Object, text string) *ordered.Object {
	content, _ := member(m, "content").(string)
	m.Set("content", content+text)
	return m
}

// graniteMark precedes the calls of Granite 3, which are a list, as its template tells the model.
// The template of Granite 3.0 has the role "tool_response" for results; those of 3.1 to 3.3 write
// any role. Granite 3.1 mostly writes <tool_call>, as vLLM's parser of Granite's calls says.
const graniteMark = "<|tool_call|>"

func graniteStart(p *Parser) bool {
	mark, ok := p.content(graniteMark, openMark)
	return ok && p.open(mark, callList{start: graniteStart}.open)
}

// The marks around the calls of Phi-4-mini. They are tokens of its vocabulary, as is
// <|tool_response|>, which the template writes for the role "tool_response". Its own template says
// only how tools are written; the list of calls is that of ollama's template, and the role of
// results that of llama.cpp's.
const (
	phiOpen  = "<|tool_call|>"
	phiClose = "<|/tool_call|>"
)

func phiStart(p *Parser) bool {
	_, ok := p.content(phiOpen)
	return ok && p.open(phiOpen, callList{end: phiClose, start: phiStart}.open)
}

// writtenList returns a function that writes calls as a list between two marks.
func writtenList(open, end string) func(m *ordered.Object, list []ordered.Value) []ordered.Value {
	return func(m *ordered.Object, list []ordered.Value) []ordered.Value {
		var items []string
		for _, v := range list {
			if name, arguments, ok := function(v); ok {
				items = append(items, `{"name": `+quote(name)+`, "arguments": `+spaced(arguments)+"}")
			}
		}
		return []ordered.Value{withText(m, open+"["+strings.Join(items, ", ")+"]"+end)}
	}
}
