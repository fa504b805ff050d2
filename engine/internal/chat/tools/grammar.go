package tools

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/generation"
)

// Vocabulary is what a grammar has to know of a model's vocabulary.
type Vocabulary interface {
	// Special returns the Reference to the control token with the given text, and whether there is
	// such a token.
	Special(text string) (reference string, ok bool)
}

// Reference returns the name by which grammars refer to a control token: <|end|> for "<|end|>", and
// <ARGS> for "[ARGS]".
func Reference(text string) string {
	if strings.HasPrefix(text, "<") && strings.HasSuffix(text, ">") {
		return text
	}
	return "<" + strings.Trim(text, "[]<>") + ">"
}

// writer writes the grammar of answers with calls, in the dialect of Lark of
// generation.Constraint.
type writer struct {
	format     *Format
	vocabulary Vocabulary
	tools      []generation.Tool // that may be called
	arguments  []*argumentSchema // of the tools
	required   bool              // the answer consists of calls
	single     bool              // there is at most one call
	form       string            // rule or terminal of the content, if that must have a form
	rules      []string
	err        error
}

// Constraint returns the form of an answer that calls the given tools as the request asks, or nil
// if the answer is free. content is the form of an answer without calls; nil if it is free. check
// returns an error if a JSON Schema cannot be kept in full: then a tool that is not strict may get
// any object.
func (f *Format) Constraint(set *Set, content *generation.Constraint, v Vocabulary, check func(schema string) error) (*generation.Constraint, error) {
	g := &writer{format: f, vocabulary: v, tools: set.Allowed(), required: set.choice.Mode != generation.ToolsAuto, single: set.single()}
	strict := slices.ContainsFunc(g.tools, func(t generation.Tool) bool { return t.Strict })
	switch {
	case len(g.tools) > 0 && !g.required && !g.single && !strict && content == nil:
		return nil, nil
	case len(g.tools) == 0 && (content == nil || !f.harmony):
		return content, nil
	}
	for i, t := range set.tools {
		if !set.callable(t.Name) {
			continue
		}
		a, err := newArgumentSchema(&t, check)
		if err != nil {
			return nil, fmt.Errorf(`"tools[%d].function.parameters" cannot be kept: %w`, i, err)
		}
		g.arguments = append(g.arguments, a)
	}
	if content != nil && !g.required {
		if content.Grammar != "" {
			if len(g.tools) == 0 {
				return content, nil
			}
			return nil, fmt.Errorf("a grammar cannot be combined with tools: give one of them, or set tool_choice to none or required")
		}
		g.content(content)
	}
	f.grammar(g)
	if g.err != nil {
		return nil, g.err
	}
	return &generation.Constraint{Grammar: strings.Join(g.rules, "\n") + "\n"}, nil
}

// content adds the rule of an answer without calls.
func (g *writer) content(c *generation.Constraint) {
	g.form = "form"
	switch {
	case c.Schema != "":
		g.rule("form", "%%json %s", c.Schema)
	case c.Regex != "":
		g.form = "FORM"
		g.rule("FORM", "/%s/", betweenSlashes(c.Regex))
	default:
		literals := make([]string, len(c.Choices))
		for i, t := range c.Choices {
			literals[i] = quote(t)
		}
		g.rule("form", "%s", strings.Join(literals, " | "))
	}
}

func (g *writer) rule(name, format string, args ...any) {
	g.rules = append(g.rules, name+": "+fmt.Sprintf(format, args...))
}

// text returns the symbols of a text, in which the format's marks can be control tokens.
func (g *writer) text(s string) string {
	var symbols []string
	literal := ""
	end := func() {
		if literal != "" {
			symbols = append(symbols, quote(literal))
			literal = ""
		}
	}
	for s != "" {
		if ref, mark := g.special(s); ref != "" {
			end()
			symbols, s = append(symbols, ref), s[len(mark):]
			continue
		}
		literal, s = literal+s[:1], s[1:]
	}
	end()
	return strings.Join(symbols, " ")
}

// special returns the reference to the control token with which a text begins, if it does.
func (g *writer) special(s string) (reference, mark string) {
	for _, m := range g.format.marks {
		if strings.HasPrefix(s, m) {
			if ref, ok := g.vocabulary.Special(m); ok {
				return ref, m
			}
		}
	}
	return "", ""
}

// without returns a terminal for a text of at least one character that does not contain one of
// several marks. Marks that are control tokens are excluded too, because the parser could not tell
// the token from a text with its name.
func without(marks ...string) string {
	return `/(?s:.+)/ & ` + excluding(marks...)
}

func excluding(marks ...string) string {
	list := make([]string, len(marks))
	for i, m := range marks {
		list[i] = expression(m)
	}
	return fmt.Sprintf(`~/(?s:.*)(%s)(?s:.*)/`, strings.Join(list, "|"))
}

// expression returns a regular expression for a text, for use between slashes.
func expression(text string) string {
	return strings.NewReplacer("/", `\/`, "\n", `\n`).Replace(regexp.QuoteMeta(text))
}

// betweenSlashes returns a regular expression for use between slashes on one line.
func betweenSlashes(regex string) string {
	var b strings.Builder
	for i := 0; i < len(regex); i++ {
		switch c := regex[i]; {
		case c == '\\' && i+1 < len(regex):
			i++
			b.WriteString(strings.ReplaceAll(regex[i-1:i+1], "\\\n", `\n`))
		case c == '/':
			b.WriteString(`\/`)
		case c == '\n':
			b.WriteString(`\n`)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// lead is the white space that models write after reasoning.
const lead = `/\n{0,2}/`

// answer writes the rules of an answer whose calls begin with a mark. The rule call must be written
// separately. between is the text between two calls.
func (g *writer) answer(mark, between string) {
	calls := "call"
	if !g.single {
		calls = fmt.Sprintf("call (%s)*", strings.TrimSpace(g.text(between)+" call"))
	}
	switch {
	case g.required:
		g.rule("start", "%s %s", lead, calls)
	case g.form != "":
		g.rule("start", "%s %s | %s", lead, calls, g.form)
	case g.single:
		g.rule("start", "TEXT? | TEXT? call TEXT?")
		g.rule("TEXT", "%s", without(mark))
	default:
		g.rule("start", "(TEXT? call)* TEXT?")
		g.rule("TEXT", "%s", without(mark))
	}
}

// alternatives writes the rule call, with an alternative for each tool.
func (g *writer) alternatives(of func(i int, name string) string) {
	list := make([]string, len(g.tools))
	for i := range g.tools {
		list[i] = fmt.Sprintf("call_%d", i)
	}
	g.rule("call", "%s", strings.Join(list, " | "))
	for i, t := range g.tools {
		g.rule(fmt.Sprintf("call_%d", i), "%s", of(i, t.Name))
	}
}

// object writes the rule of a tool's arguments as a JSON object and returns its name.
func (g *writer) object(i int) string {
	name := fmt.Sprintf("args_%d", i)
	g.rule(name, "%%json %s", g.arguments[i].text())
	return name
}

func hermesGrammar(g *writer) {
	g.answer(openMark, "\n")
	g.alternatives(func(i int, name string) string {
		return g.text(openMark+"\n"+`{"name": "`+name+`", "arguments": `) + " " + g.object(i) + " " + g.text("}\n"+closeMark)
	})
}

func mistralGrammar(g *writer) {
	g.answer(mistralMark, "")
	g.alternatives(func(i int, name string) string {
		return g.text(mistralMark+name+mistralArgs) + " " + g.object(i)
	})
}

func llamaGrammar(g *writer) {
	calls := "call"
	if !g.single {
		calls = `call ("; " call)*`
	}
	if ref, _ := g.special(pythonMark); ref != "" {
		calls = ref + "? " + calls
	}
	switch {
	case g.required:
		g.rule("start", "%s", calls)
	case g.form != "":
		g.rule("start", "%s | %s", calls, g.form)
	default:
		g.rule("start", "TEXT? | %s", calls)
		g.rule("TEXT", `/[ \t\r\n]*[^{ \t\r\n](?s:.*)/`)
	}
	g.alternatives(func(i int, name string) string {
		return g.text(`{"name": "`+name+`", "parameters": `) + " " + g.object(i) + " " + g.text("}")
	})
}

func harmonyGrammar(g *writer) {
	next := g.text(endMark + startMark + "assistant")
	before := func(channel string) string {
		return fmt.Sprintf("(%s TEXT? %s)?", g.text(channelMark+channel+messageMark), next)
	}
	last := "call"
	if !g.required {
		content := g.form
		if content == "" {
			content = "TEXT?"
		}
		final := g.text(channelMark+"final"+messageMark) + " " + content
		if len(g.tools) > 0 {
			final += " | call"
		}
		last = "(" + final + ")"
	}
	preamble := ""
	if !g.required && g.form == "" {
		preamble = before("commentary")
	}
	g.rule("start", "%s %s %s", before("analysis"), preamble, last)
	g.rule("TEXT", "%s", without(startMark, channelMark, messageMark, endMark, callMark, returnMark))
	if len(g.tools) == 0 {
		return
	}
	g.alternatives(func(i int, name string) string {
		return g.text(channelMark+"commentary to="+functionsPrefix+name+" "+constrainMark+"json"+messageMark) + " " + g.object(i)
	})
}
