package grammar

import (
	"context"
	"errors"
	"fmt"

	"github.com/ingot-run/ingot/engine/grammar/regex"
)

// A symbol is a part of a rule: a nonterminal, a lexeme or a special token.
type symbol int32

// none is the symbol of a failed constructor. Rules ignore it; rules.err has the reason.
const none symbol = 0

type symbolKind uint8

const (
	kindNone symbolKind = iota
	kindNonterminal
	kindLexeme
	kindSpecial
)

type symbolInfo struct {
	kind         symbolKind
	name         string // of a nonterminal, for messages; of a special token
	lexeme       regex.Node
	alternatives [][]symbol // of a nonterminal
}

// rules are a context-free grammar whose terminals are regular expressions over bytes (lexemes) and
// special tokens. Its language is exact: a lexeme may end wherever its expression matches, longest
// or not, and two lexemes may match the same text. A text is in the language if some way to split
// it fits. Nothing is skipped between lexemes.
//
// A repetition is best made by repeat, whose parser states recur; a lexeme is cheaper than rules.
type rules struct {
	re      *regex.Builder // makes the expressions of lexemes
	ctx     context.Context
	limits  Limits
	symbols []symbolInfo
	size    int // symbols of all alternatives
	lexemes map[regex.Node]symbol
	special map[string]symbol
	repeats map[repetition]symbol
	err     error
	// whyEmpty names the place in a schema because of which there is no text; nil without a schema.
	whyEmpty func() error
}

type repetition struct {
	item, separator symbol
	least, most     int
}

func newRules(ctx context.Context, limits Limits) *rules {
	r := &rules{
		re:      regex.NewBuilder(regex.Limits{Nodes: limits.Expressions, Work: limits.CompileWork}),
		ctx:     ctx,
		limits:  limits,
		symbols: make([]symbolInfo, 1),
		lexemes: map[regex.Node]symbol{},
		special: map[string]symbol{},
		repeats: map[repetition]symbol{},
	}
	r.re.OnWork(ctx.Err)
	return r
}

// fail records err, unless there is one already, and returns none.
func (r *rules) fail(err error) symbol {
	if r.err == nil {
		r.err = err
	}
	return none
}

// failed returns the first error of the rules or of their expressions. Front ends ask for it in
// their loops, and at the end.
func (r *rules) failed() error {
	switch {
	case r.err != nil:
		return r.err
	case r.re.Err() != nil:
		return r.re.Err()
	}
	return r.ctx.Err()
}

func (r *rules) add(info symbolInfo) symbol {
	if r.failed() != nil {
		return none
	}
	if r.size++; r.size > r.limits.Symbols {
		return r.fail(errSymbols)
	}
	r.symbols = append(r.symbols, info)
	return symbol(len(r.symbols) - 1)
}

var errSymbols = errors.New("the grammar has too many parts")

// nonterminal returns a nonterminal without alternatives. name is for messages.
func (r *rules) nonterminal(name string) symbol {
	return r.add(symbolInfo{kind: kindNonterminal, name: name})
}

// rule adds an alternative to nt: the symbols of sequence, one after the other. An empty sequence
// matches the empty text.
func (r *rules) rule(nt symbol, sequence ...symbol) {
	if r.failed() != nil {
		return
	}
	if r.symbols[nt].kind != kindNonterminal {
		r.fail(fmt.Errorf("symbol %d has no alternatives", nt))
		return
	}
	for _, s := range sequence {
		if s <= none || int(s) >= len(r.symbols) {
			r.fail(fmt.Errorf("a rule of %q has a symbol that is not of these rules", r.symbols[nt].name))
			return
		}
	}
	if r.size += 1 + len(sequence); r.size > r.limits.Symbols {
		r.fail(errSymbols)
		return
	}
	info := &r.symbols[nt]
	info.alternatives = append(info.alternatives, append([]symbol(nil), sequence...))
}

// lexeme returns the symbol of texts that n matches. n may match the empty text.
func (r *rules) lexeme(n regex.Node) symbol {
	if s, ok := r.lexemes[n]; ok {
		return s
	}
	s := r.add(symbolInfo{kind: kindLexeme, lexeme: n})
	if s != none {
		r.lexemes[n] = s
	}
	return s
}

// literal returns the symbol of text.
func (r *rules) literal(text string) symbol { return r.lexeme(r.re.Literal(text)) }

// specialToken returns the symbol of a special token, by its name in the vocabulary. Compiling
// fails if the vocabulary does not have it.
func (r *rules) specialToken(name string) symbol {
	if s, ok := r.special[name]; ok {
		return s
	}
	s := r.add(symbolInfo{kind: kindSpecial, name: name})
	if s != none {
		r.special[name] = s
	}
	return s
}

// sequence returns a symbol for list, one after the other.
func (r *rules) sequence(list ...symbol) symbol {
	if len(list) == 1 {
		return list[0]
	}
	nt := r.nonterminal("")
	r.rule(nt, list...)
	return nt
}

// choice returns a symbol for one of list. Without any, nothing matches.
func (r *rules) choice(list ...symbol) symbol {
	if len(list) == 1 {
		return list[0]
	}
	nt := r.nonterminal("")
	for _, s := range list {
		r.rule(nt, s)
	}
	return nt
}

// optional returns a symbol for s or the empty text.
func (r *rules) optional(s symbol) symbol {
	nt := r.nonterminal("")
	r.rule(nt)
	r.rule(nt, s)
	return nt
}

// repeat returns a symbol for item from least to most times (regex.Unbounded is no bound), with
// separator between two of them unless it is none.
func (r *rules) repeat(item, separator symbol, least, most int) symbol {
	switch {
	case least < 0 || most != regex.Unbounded && most < least:
		return r.choice()
	case most == 0:
		return r.sequence()
	}
	key := repetition{item, separator, least, most}
	if s, ok := r.repeats[key]; ok {
		return s
	}
	s := r.newRepeat(item, separator, least, most)
	if s != none {
		r.repeats[key] = s
	}
	return s
}

func (r *rules) newRepeat(item, separator symbol, least, most int) symbol {
	next := item // what follows the first item
	if separator != none {
		next = r.sequence(separator, item)
	}
	tail := none // what may follow the least items
	if most == regex.Unbounded {
		// Recursion on the left: the states after each item are the same.
		tail = r.nonterminal("")
		r.rule(tail)
		r.rule(tail, tail, next)
	}
	// From the end: tail after k items, each in the last place of a rule, whose return the parser
	// skips.
	for k := most - 1; most != regex.Unbounded && k >= max(least, 1) && r.failed() == nil; k-- {
		nt := r.nonterminal("")
		r.rule(nt)
		if tail == none {
			r.rule(nt, next)
		} else {
			r.rule(nt, next, tail)
		}
		tail = nt
	}
	for k := least - 1; k >= 1 && r.failed() == nil; k-- {
		if tail == none {
			tail = next
		} else {
			tail = r.sequence(next, tail)
		}
	}
	if tail == none {
		tail = r.sequence()
	}
	all := r.sequence(item, tail)
	if least == 0 {
		all = r.optional(all)
	}
	return all
}
