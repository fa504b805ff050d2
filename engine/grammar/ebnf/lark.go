package ebnf

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ingot-run/ingot/engine/grammar/pattern"
)

// larkItems reads definitions and directives.
func (p *parser) larkItems() error {
	for {
		p.space(true)
		if p.pos >= len(p.text) {
			return nil
		}
		var err error
		if p.text[p.pos] == '%' {
			err = p.directive()
		} else {
			err = p.larkRule()
		}
		if err != nil {
			return err
		}
		if c := p.peek(); c != 0 && c != '\n' {
			return p.fail("%q is not expected here", c)
		}
	}
}

// larkRule reads name: expression. The marks ? and !, a priority and an alias are about Lark's
// trees, and do not change which texts match.
func (p *parser) larkRule() error {
	for p.pos < len(p.text) && (p.text[p.pos] == '?' || p.text[p.pos] == '!') {
		p.pos++
	}
	d := &Definition{Offset: p.pos}
	if d.Name = p.name(); d.Name == "" {
		return p.fail("the name of a rule or a terminal is expected")
	}
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(d.Name, "_"))
	d.Terminal = unicode.IsUpper(first)
	if p.take(".") {
		p.take("-")
		if p.digits() == "" {
			return p.fail("a priority is expected after the point")
		}
	}
	if strings.HasPrefix(p.text[p.pos:], "{") {
		return p.fail("templates are not supported")
	}
	wrap, err := p.attributes(d)
	if err != nil {
		return err
	}
	p.space(false)
	if strings.HasPrefix(p.text[p.pos:], "::") {
		return p.fail("rules with parameters are not supported")
	}
	if !p.take(":") {
		return p.fail("a colon is expected after %s", d.Name)
	}
	p.space(true)
	if d.Body, err = p.choice(); err != nil {
		return err
	}
	if d.Body, err = wrap(d.Body); err != nil {
		return err
	}
	return p.define(d)
}

// attributes reads what llguidance has in brackets after a name. wrap applies it to the rule's
// body.
func (p *parser) attributes(d *Definition) (wrap func(*Expr) (*Expr, error), err error) {
	wrap = func(e *Expr) (*Expr, error) { return e, nil }
	if !p.take("[") {
		return wrap, nil
	}
	for {
		p.space(true)
		start := p.pos
		name := p.name()
		p.space(true)
		var value *Expr
		if p.take("=") {
			p.space(true)
			if value, err = p.attributeValue(); err != nil {
				return nil, err
			}
		}
		switch name {
		case "capture", "stop_capture": // which part of the text it is
		case "lazy", "suffix":
			d.Terminal = true
			suffix := value
			if name == "lazy" {
				suffix = nil
			}
			wrap = func(e *Expr) (*Expr, error) {
				if suffix != nil {
					if e, err = p.new(Expr{Kind: Sequence, Subs: []*Expr{e, suffix}, Offset: e.Offset}); err != nil {
						return nil, err
					}
				}
				return p.new(Expr{Kind: Lazy, Subs: []*Expr{e}, Offset: e.Offset})
			}
		default:
			return nil, p.failAt(start, "the attribute %q is not supported; capture, lazy and suffix are", name)
		}
		p.space(true)
		if p.take("]") {
			return wrap, nil
		}
		if !p.take(",") {
			return nil, p.fail("a comma or a closing bracket is expected")
		}
	}
}

func (p *parser) attributeValue() (*Expr, error) {
	if c := p.peek(); c == '"' || c == '/' || isNameRune(rune(c)) && (c < '0' || c > '9') {
		return p.item()
	}
	return nil, p.fail("a text, a regular expression or a name is expected")
}

// regex reads /.../ and its flags.
func (p *parser) regex() (*Expr, error) {
	start := p.pos
	within := false // a class, where a slash is a character
	for p.pos++; ; p.pos++ {
		if p.pos >= len(p.text) || p.text[p.pos] == '\n' {
			return nil, p.failAt(start, "a regular expression is not closed with /")
		}
		switch c := p.text[p.pos]; {
		case c == '\\':
			p.pos++
			continue
		case c == '[':
			within = true
			continue
		case c == ']':
			within = false
			continue
		case c != '/' || within:
			continue
		}
		break
	}
	text := p.text[start+1 : p.pos]
	p.pos++
	flags := ""
	for p.pos < len(p.text) && strings.ContainsRune("imslux", rune(p.text[p.pos])) {
		switch c := p.text[p.pos]; c {
		case 'i', 's':
			flags += string(c)
		case 'u':
		default:
			return nil, p.fail("the flag %q of a regular expression is not supported; i and s are", c)
		}
		p.pos++
	}
	if flags != "" {
		text = "(?" + flags + ")" + text
	}
	return p.new(Expr{Kind: Regex, Text: text, Syntax: pattern.Python, Offset: start})
}

// embedded reads %json {...} or %regex {...}.
func (p *parser) embedded() (*Expr, error) {
	start := p.pos
	p.pos++
	switch name := p.name(); name {
	case "json":
		text, err := p.object()
		if err != nil {
			return nil, err
		}
		return p.new(Expr{Kind: JSON, Text: text, Offset: start})
	case "regex":
		text, err := p.object()
		if err != nil {
			return nil, err
		}
		return p.substring(start, text)
	default:
		return nil, p.failAt(start, "%%%s is not supported here; %%json and %%regex are", name)
	}
}

const maxChunks = 2_000

// substring reads a %regex.
func (p *parser) substring(start int, text string) (*Expr, error) {
	var options map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &options); err != nil || len(options) != 1 {
		return nil, p.failAt(start, "%%regex must have one of substring_chunks, substring_words and substring_chars")
	}
	var chunks []string
	for key, value := range options {
		var all string
		switch key {
		case "substring_chunks":
			if json.Unmarshal(value, &chunks) != nil {
				return nil, p.failAt(start, "substring_chunks must be an array of strings")
			}
			continue
		case "substring_words", "substring_chars":
			if json.Unmarshal(value, &all) != nil {
				return nil, p.failAt(start, "%s must be a string", key)
			}
		default:
			return nil, p.failAt(start, "%q is not supported in %%regex; substring_chunks, substring_words and substring_chars are", key)
		}
		chunks = split(all, key == "substring_words")
	}
	if len(chunks) > maxChunks {
		return nil, p.failAt(start, "%%regex has more than %d chunks", maxChunks)
	}
	return p.new(Expr{Kind: Substring, Chunks: chunks, Offset: start})
}

// split splits a text into words and what is between them, or into characters.
func split(text string, words bool) []string {
	var chunks []string
	was := false
	for _, r := range text {
		is := words && (r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r))
		if is && was {
			chunks[len(chunks)-1] += string(r)
		} else {
			chunks = append(chunks, string(r))
		}
		was = is
	}
	return chunks
}

// directive reads a line that begins with %.
func (p *parser) directive() error {
	start := p.pos
	p.pos++
	switch name := p.name(); name {
	case "ignore":
		p.space(false)
		e, err := p.choice()
		p.g.Ignore = append(p.g.Ignore, e)
		return err
	case "import":
		return p.imports()
	case "llguidance":
		text, err := p.object()
		if err != nil {
			return err
		}
		var options map[string]any
		if json.Unmarshal([]byte(text), &options) != nil || len(options) > 0 {
			return p.failAt(start, "options in %%llguidance are not supported")
		}
		return nil
	default:
		return p.failAt(start, "%%%s is not supported; %%ignore and %%import are", name)
	}
}

// imports reads %import common.NAME, with -> OTHER or a list of names in parentheses.
func (p *parser) imports() error {
	p.space(false)
	start := p.pos
	if !p.take("common") {
		return p.fail("only terminals of common can be imported")
	}
	if p.take(".") {
		at := p.pos
		name := p.name()
		alias := name
		if p.peek() == '-' && p.take("->") {
			p.peek()
			alias = p.name()
		}
		return p.importOne(at, name, alias)
	}
	if p.peek() != '(' {
		return p.failAt(start, "a point and a name are expected after common")
	}
	p.pos++
	p.depth++
	for {
		p.peek()
		at := p.pos
		name := p.name()
		if err := p.importOne(at, name, name); err != nil {
			return err
		}
		c := p.peek()
		p.pos++
		if c == ')' {
			p.depth--
			return nil
		}
		if c != ',' {
			return p.failAt(at, "a comma or a closing parenthesis is expected after %s", name)
		}
	}
}

func (p *parser) importOne(at int, name, alias string) error {
	text, ok := commonTerminals[name]
	if !ok || alias == "" {
		return p.failAt(at, "common has no terminal %q", name)
	}
	body, err := p.new(Expr{Kind: Regex, Text: text, Syntax: pattern.Python, Offset: at})
	if err != nil {
		return err
	}
	return p.define(&Definition{Name: alias, Terminal: true, Body: body, Offset: at})
}

// commonTerminals are the terminals of Lark's grammar "common".
var commonTerminals = map[string]string{
	"DIGIT":          `[0-9]`,
	"HEXDIGIT":       `[a-fA-F0-9]`,
	"INT":            `[0-9]+`,
	"SIGNED_INT":     `[+-]?[0-9]+`,
	"DECIMAL":        `[0-9]+\.[0-9]*|\.[0-9]+`,
	"FLOAT":          `[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?`,
	"SIGNED_FLOAT":   `[+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)`,
	"NUMBER":         `[0-9]+|[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?`,
	"SIGNED_NUMBER":  `[+-]?(?:[0-9]+|[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)`,
	"ESCAPED_STRING": `"(?:[^"\\\n]|\\[^\n])*"`,
	"LCASE_LETTER":   `[a-z]`,
	"UCASE_LETTER":   `[A-Z]`,
	"LETTER":         `[a-zA-Z]`,
	"WORD":           `[a-zA-Z]+`,
	"CNAME":          `[a-zA-Z_][a-zA-Z0-9_]*`,
	"WS_INLINE":      `[ \t]+`,
	"WS":             `[ \t\f\r\n]+`,
	"CR":             `\r`,
	"LF":             `\n`,
	"NEWLINE":        `(?:\r?\n)+`,
	"SH_COMMENT":     `#[^\n]*`,
	"CPP_COMMENT":    `//[^\n]*`,
	"C_COMMENT":      `/\*(?:[^*]|\*+[^*/])*\*+/`,
	"SQL_COMMENT":    `--[^\n]*`,
}
