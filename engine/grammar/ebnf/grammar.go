// Package ebnf reads grammars in two dialects: Lark's, as llguidance extends it, and GBNF, that of
// llama.cpp.
package ebnf

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ingot-run/ingot/engine/grammar/pattern"
	"github.com/ingot-run/ingot/engine/grammar/source"
)

// Kind is the kind of an expression.
type Kind uint8

// Kinds of expressions.
const (
	Text      Kind = iota // Text itself
	Regex                 // what the regular expression Text matches, in Syntax
	Rule                  // what the rule with the name Text matches
	JSON                  // JSON that the schema Text allows
	Special               // the special token with the name Text
	Sequence              // Subs, one after the other; none is the empty text
	Choice                // one of Subs
	Repeat                // Subs[0] from Min to Max times; Max is -1 for no limit
	And                   // what all of Subs match; in terminals alone
	Not                   // what Subs[0] does not match; in terminals alone
	Substring             // any number of Chunks that follow one another, from none to all
	Lazy                  // the texts of Subs[0] that begin with no shorter text of it; in terminals alone
)

// Expr is an expression.
type Expr struct {
	Kind     Kind
	Text     string
	Fold     bool // of Text: letters match whatever their case
	Syntax   pattern.Syntax
	Chunks   []string
	Subs     []*Expr
	Min, Max int
	Offset   int // in the text of the grammar, in bytes
}

// Definition is a rule or a terminal.
type Definition struct {
	Name     string
	Terminal bool // an expression of characters, within which nothing is ignored
	Body     *Expr
	Offset   int
}

// Grammar is a grammar that was read.
type Grammar struct {
	Start       string
	Definitions map[string]*Definition
	Ignore      []*Expr // texts that may be between terminals
	text        string
}

// Fail returns an error at an offset of the grammar's text.
func (g *Grammar) Fail(offset int, format string, args ...any) error {
	return source.At(g.text, offset, format, args...)
}

// Limits of the text of a grammar.
const (
	maxText    = 1 << 20 // bytes
	maxNesting = 200
	maxParts   = 100_000
)

// Parse reads a grammar. It is GBNF if it has a definition with "::=", otherwise Lark's dialect.
func Parse(text string) (*Grammar, error) {
	switch {
	case len(text) > maxText:
		return nil, &source.Error{Message: "the grammar has more than 1 MiB"}
	case !utf8.ValidString(text):
		return nil, &source.Error{Message: "the grammar is not UTF-8"}
	}
	p := &parser{text: text, g: &Grammar{Definitions: map[string]*Definition{}, text: text}}
	var err error
	if isGBNF(text) {
		p.gbnf = true
		p.g.Start = "root"
		err = p.gbnfRules()
	} else {
		p.g.Start = "start"
		err = p.larkItems()
	}
	if err != nil {
		return nil, err
	}
	if p.g.Definitions[p.g.Start] == nil {
		return nil, &source.Error{Message: "the grammar has no rule " + p.g.Start + ", with which it begins"}
	}
	return p.g, p.check()
}

// isGBNF reports whether a line begins with a name and "::=".
func isGBNF(text string) bool {
	for line := range strings.Lines(text) {
		name, _, ok := strings.Cut(line, "::=")
		if name = strings.TrimSpace(name); ok && name != "" && strings.IndexFunc(name, func(r rune) bool { return !isNameRune(r) }) < 0 {
			return true
		}
	}
	return false
}

func isNameRune(r rune) bool {
	return r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// check returns an error for a reference to a rule that is not defined, or that a terminal must not
// have.
func (p *parser) check() error {
	for _, d := range p.ordered {
		if err := p.checkExpr(d.Body, d); err != nil {
			return err
		}
	}
	for _, e := range p.g.Ignore {
		if err := p.checkExpr(e, &Definition{Name: "%ignore", Terminal: true}); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) checkExpr(e *Expr, within *Definition) error {
	switch e.Kind {
	case Rule:
		d := p.g.Definitions[e.Text]
		switch {
		case d == nil:
			return p.failAt(e.Offset, "the rule %s is not defined", e.Text)
		case within.Terminal && !d.Terminal:
			return p.failAt(e.Offset, "the terminal %s must not refer to the rule %s", within.Name, e.Text)
		}
	case JSON, Special:
		if within.Terminal {
			return p.failAt(e.Offset, "the terminal %s must not have %%json or a special token; write its name in lower case to make it a rule", within.Name)
		}
	}
	for _, sub := range e.Subs {
		if err := p.checkExpr(sub, within); err != nil {
			return err
		}
	}
	return nil
}
