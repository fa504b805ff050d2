package tools

import (
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

// glm4Start reads an answer of GLM-4-0414 that is a call of the form
//
//	NAME
//	{...}
//
// or content. The template of these models writes a call in this way after <|assistant|>, and
// content after a line break. There are no marks: a line with the name of a tool, and an object
// after it, are a call.
func glm4Start(p *Parser) bool {
	text := strings.TrimLeft(p.in, space)
	line, rest, ends := strings.Cut(text, "\n")
	name := strings.TrimRight(line, space)
	rest = strings.TrimLeft(rest, space)
	switch {
	case p.ended && rest == "":
	case !ends && p.tools.begins(name), ends && rest == "" && p.tools.callable(name):
		return false
	}
	if !strings.HasPrefix(rest, "{") || !p.tools.callable(name) {
		p.state = glm4Content
		return true
	}
	p.reset()
	p.skipSpace()
	p.begin(strings.TrimRight(p.take(len(line)), space))
	p.skipSpace()
	p.state = glm4Arguments
	return true
}

func glm4Content(p *Parser) bool {
	p.content()
	return false
}

func glm4Arguments(p *Parser) bool {
	n, ends := p.object.value.feed(p.in)
	p.argue(p.take(n))
	if !ends {
		return p.wait(glm4Content)
	}
	return p.finish(glm4Content)
}

func glm4Grammar(g *writer) {
	switch {
	case g.required:
		g.rule("start", "call")
	case g.form != "":
		g.rule("start", "call | %s", g.form)
	default:
		names := make([]string, len(g.tools))
		for i, t := range g.tools {
			names[i] = expression(t.Name)
		}
		g.rule("start", "TEXT? | call")
		g.rule("TEXT", `/(?s:.+)/ & ~/[ \t\r\n]*(?:%s)[ \t\r\n]*\n[ \t\r\n]*\{(?s:.*)/`, strings.Join(names, "|"))
	}
	g.alternatives(func(i int, name string) string { return g.text(name+"\n") + " " + g.object(i) })
}

// glm4Written returns the messages of a message with a call, as the template of GLM-4-0414 reads
// them: the name is the message's metadata, and the arguments its content.
func glm4Written(m *ordered.Object, list []ordered.Value) (out []ordered.Value) {
	if member(m, "content") != "" {
		out = append(out, m)
	}
	for _, v := range list {
		name, arguments, ok := function(v)
		if !ok {
			continue
		}
		m := message("assistant", spaced(arguments))
		m.Set("metadata", name)
		out = append(out, m)
	}
	return out
}
