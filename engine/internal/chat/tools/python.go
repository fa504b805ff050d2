package tools

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

// The texts around calls of LFM2.
const (
	pythonOpen  = "<|tool_call_start|>"
	pythonClose = "<|tool_call_end|>"
)

// pythonStart reads content and calls in Python's syntax:
//
//	<|tool_call_start|>[NAME(KEY='VALUE', KEY=1), NAME()]<|tool_call_end|>
func pythonStart(p *Parser) bool {
	_, ok := p.content(pythonOpen)
	return ok && p.open(pythonOpen, pythonList)
}

func pythonList(p *Parser) bool {
	if !p.skipSpace() {
		return p.wait(pythonStart)
	}
	if p.in[0] == '[' {
		p.take(1)
	}
	p.state = pythonName
	return true
}

func pythonName(p *Parser) bool {
	n := strings.IndexByte(p.in, '(')
	switch {
	case n > maxKey || n < 0 && len(p.in) > maxKey:
		return p.fail(pythonStart)
	case n < 0:
		return p.wait(pythonStart)
	case !p.begin(strings.Trim(p.take(n), space)):
		return p.fail(pythonStart)
	}
	p.take(1)
	p.argue("{")
	p.state = pythonKey
	return true
}

func pythonKey(p *Parser) bool {
	if !p.skipSpace() {
		return p.wait(pythonStart)
	}
	if p.in[0] == ')' {
		return pythonEnd(p)
	}
	n := strings.IndexByte(p.in, '=')
	switch {
	case n > maxKey || n < 0 && len(p.in) > maxKey:
		return p.fail(pythonStart)
	case n < 0:
		return p.wait(pythonStart)
	}
	p.key(strings.Trim(p.take(n), space))
	p.take(1)
	p.literal = literal{}
	p.state = pythonValue
	return true
}

func pythonEnd(p *Parser) bool {
	p.take(1)
	p.argue("}")
	before := p.calls
	again := p.finish(pythonNext)
	if p.calls == before { // it is content
		p.state = pythonStart
	}
	return again
}

func pythonValue(p *Parser) bool {
	n, text, done := p.literal.feed(p.in, p.ended)
	p.take(n)
	p.argue(text)
	if !done {
		return p.wait(pythonStart)
	}
	if p.in[0] == ')' {
		return pythonEnd(p)
	}
	if p.take(1) != "," {
		return p.fail(pythonStart)
	}
	p.state = pythonKey
	return true
}

// pythonNext reads what follows a call: another one, or the end of the list.
func pythonNext(p *Parser) bool {
	rest := strings.TrimLeft(p.in, space)
	switch {
	case rest == "" && !p.ended:
		return false
	case strings.HasPrefix(rest, ","):
		return p.open(",", pythonName)
	case strings.HasPrefix(rest, "]"):
		p.in = rest[1:]
	}
	p.state = pythonEnded
	return true
}

// pythonEnded skips the mark after a list of calls. Some models leave it out.
func pythonEnded(p *Parser) bool {
	rest := strings.TrimLeft(p.in, space)
	if !p.ended && strings.HasPrefix(pythonClose, rest) && rest != pythonClose {
		return false
	}
	if after, ok := strings.CutPrefix(rest, pythonClose); ok {
		p.in = after
	}
	p.state = pythonStart
	return true
}

// literal converts a value in Python's or JSON's syntax, which comes in parts, to JSON. It does not
// check that the value is valid.
type literal struct {
	depth int
	quote byte // within a string; 0 outside
}

// feed returns how many bytes of the text it has converted, the result, and whether the value ends
// there. A value ends before a comma or a bracket that does not belong to it.
func (l *literal) feed(text string, ended bool) (n int, json string, done bool) {
	var b strings.Builder
	for n < len(text) {
		var used int
		if l.quote != 0 {
			used = l.inside(text[n:], ended, &b)
		} else {
			if l.depth == 0 && strings.IndexByte(",)]}", text[n]) >= 0 {
				return n, b.String(), true
			}
			used = l.outside(text[n:], ended, &b)
		}
		if used == 0 {
			break
		}
		n += used
	}
	return n, b.String(), false
}

// outside converts the beginning of a text outside of strings. It returns 0 if more text is needed.
func (l *literal) outside(text string, ended bool, b *strings.Builder) int {
	switch c := text[0]; c {
	case '\'', '"':
		l.quote = c
		b.WriteByte('"')
	case '[', '(':
		l.depth++
		b.WriteByte('[')
	case ']', ')':
		l.depth--
		b.WriteByte(']')
	case '{':
		l.depth++
		b.WriteByte(c)
	case '}':
		l.depth--
		b.WriteByte(c)
	case ' ', '\t', '\r', '\n', ',', ':':
		if l.depth > 0 {
			b.WriteByte(c)
		}
	default:
		word := strings.IndexAny(text, "'\"[](){},: \t\r\n")
		if word < 0 && !ended && len(text) <= maxKey {
			return 0
		}
		if word < 0 {
			word = len(text)
		}
		b.WriteString(pythonWord(text[:word]))
		return word
	}
	return 1
}

func pythonWord(word string) string {
	switch word {
	case "True", "False":
		return strings.ToLower(word)
	case "None":
		return "null"
	}
	return word
}

// inside converts the beginning of a text within a string. Templates write strings between single
// quotes without escapes, so such a quote ends a string only before a comma, a colon or a bracket.
func (l *literal) inside(text string, ended bool, b *strings.Builder) int {
	switch c := text[0]; c {
	case l.quote:
		rest := strings.TrimLeft(text[1:], space)
		if c == '\'' && rest == "" && !ended {
			return 0
		}
		if c == '\'' && rest != "" && strings.IndexByte(",:)]}", rest[0]) < 0 {
			b.WriteByte(c)
			return 1
		}
		l.quote = 0
		b.WriteByte('"')
		return 1
	case '\\':
		return l.escape(text, ended, b)
	}
	end := strings.IndexAny(text[1:], `'"\`) + 1
	if end == 0 {
		end = len(text)
	}
	if text[0] == '"' || text[0] == '\'' {
		end = 1
	}
	b.WriteString(inner(text[:end]))
	return end
}

// escape converts an escape sequence. A backslash that begins none is a backslash.
func (l *literal) escape(text string, ended bool, b *strings.Builder) int {
	const longest = len(`\u0000`)
	switch {
	case len(text) == 1 && !ended, strings.HasPrefix(text, `\u`) && len(text) < longest && !ended:
		return 0
	case len(text) == 1:
	case text[1] == '\'':
		b.WriteByte('\'')
		return 2
	case strings.IndexByte(`"\bfnrt`, text[1]) >= 0, text[1] == '/' && l.quote == '"':
		b.WriteString(text[:2])
		return 2
	case text[1] == 'u' && len(text) >= longest && strings.Trim(text[2:longest], "0123456789abcdefABCDEF") == "":
		b.WriteString(text[:longest])
		return longest
	}
	b.WriteString(`\\`)
	return 1
}

func pythonGrammar(g *writer) {
	items := "call"
	if !g.single {
		items = `call (", " call)*`
	}
	list := fmt.Sprintf("%s %s %s", g.text(pythonOpen+"["), items, g.text("]"+pythonClose))
	switch {
	case g.required:
		g.rule("start", "%s %s", lead, list)
	case g.form != "":
		g.rule("start", "%s %s | %s", lead, list, g.form)
	default:
		g.rule("start", "TEXT? | TEXT? %s TEXT?", list)
		g.rule("TEXT", "%s", without(pythonOpen))
	}
	g.alternatives(func(i int, name string) string { return quote(name+"(") + " " + g.keywords(i) + ` ")"` })
}

// keywords returns the symbols of a tool's arguments as keyword arguments, in the order of the
// schema. The values are JSON.
func (g *writer) keywords(i int) string {
	a := g.arguments[i]
	a.known(g, i, a.root, "", "type", "properties", "required", "additionalProperties")
	list, _ := a.root.Get("required")
	required, _ := list.([]ordered.Value)
	names := []string{}
	if a.properties != nil {
		names = a.properties.Keys()
	}
	for _, r := range required {
		if name, ok := r.(string); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return g.anyKeywords(i)
	}
	var first []string // what the arguments can begin with
	all := true        // no argument so far is required
	for n, name := range names {
		property, path := a.property(name)
		if name == "" || len(name) > maxKey || strings.ContainsAny(name, "=(),'\"<[] \t\r\n") {
			g.fail(i, "%s: the name is empty, is longer than %d bytes, or has a character with a meaning in this form", path, maxKey)
		}
		g.rule(fmt.Sprintf("json_%d_%d", i, n), "%%json %s", a.document(g, i, property, path))
		g.rule(fmt.Sprintf("pair_%d_%d", i, n), "%s json_%d_%d", quote(name+"="), i, n)
		rest := ""
		if n+1 < len(names) {
			rest = fmt.Sprintf(" rest_%d_%d", i, n+1)
		}
		if all {
			first = append(first, fmt.Sprintf("pair_%d_%d%s", i, n, rest))
		}
		must := slices.Contains(required, ordered.Value(name))
		all = all && !must
		if n > 0 {
			optional := "?"
			if must {
				optional = ""
			}
			g.rule(fmt.Sprintf("rest_%d_%d", i, n), `(", " pair_%d_%d)%s%s`, i, n, optional, rest)
		}
	}
	symbols := "(" + strings.Join(first, " | ") + ")"
	if all {
		symbols += "?"
	}
	return symbols
}

// anyKeywords returns the symbols of arguments whose names are free, if there can be any.
func (g *writer) anyKeywords(i int) string {
	a := g.arguments[i]
	others, _ := a.root.Get("additionalProperties")
	if a.kindOf(others, 0) == (kind{}) {
		return ""
	}
	g.rule(fmt.Sprintf("json_%d", i), "%%json %s", a.document(g, i, others, "/additionalProperties"))
	g.rule(fmt.Sprintf("pair_%d", i), `/[A-Za-z_][A-Za-z_0-9]{0,63}/ "=" json_%d`, i)
	return fmt.Sprintf(`(pair_%d (", " pair_%d)*)?`, i, i)
}

// pythonWritten writes calls into the text of a message.
func pythonWritten(m *ordered.Object, list []ordered.Value) []ordered.Value {
	var written []string
	for _, v := range list {
		name, v, ok := function(v)
		if !ok {
			continue
		}
		var pairs []string
		if arguments, ok := v.(*ordered.Object); ok {
			for key, value := range arguments.All() {
				pairs = append(pairs, key+"="+pythonText(value))
			}
		}
		written = append(written, name+"("+strings.Join(pairs, ", ")+")")
	}
	return []ordered.Value{withText(m, pythonOpen+"["+strings.Join(written, ", ")+"]"+pythonClose)}
}

// pythonText returns a value in Python's syntax. Objects are JSON, as in LFM2's own template.
func pythonText(v ordered.Value) string {
	switch v := v.(type) {
	case string:
		return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(v) + "'"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case nil:
		return "None"
	case []ordered.Value:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = pythonText(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return spaced(v)
}
