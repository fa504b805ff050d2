// Package grammar computes which tokens may follow in an answer that must have a given form: JSON
// that a schema allows, a text that a regular expression matches, one of a list of choices, or a
// text of a context-free grammar. A [Compiler] makes a [Grammar] of a constraint, for the
// [Vocabulary] of a model, and a [Matcher] follows the tokens of one answer.
//
// All constraints become rules whose terminals are regular expressions (package regex). Their
// parser is an automaton over bytes, which all matchers of a grammar fill in (automaton.go).
package grammar

import (
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/engine/grammar/regex"
)

// A dot is what is left of a rule's alternative: a symbol, then another dot. Equal ends of
// alternatives are one dot. Dot 0 is the end.
type dot struct {
	symbol symbol
	next   int32
}

const end = 0

// table is a grammar in the form that the parser reads. It does not change.
type table struct {
	symbols []tableSymbol // by symbol; kindNone if it is not used
	dots    []dot
	start   symbol
	plain   regex.Node     // one plain character
	re      *regex.Builder // the lexemes' expressions; copied for each automaton
}

type tableSymbol struct {
	kind         symbolKind
	nullable     bool
	lexeme       regex.Node
	token        int32   // of a special token
	alternatives []int32 // dots, of a nonterminal
}

// errNoText means that a grammar has no text at all.
var errNoText = &Error{Message: "no text satisfies the constraint"}

// noText returns errNoText, or an error that names the place in a schema.
func (r *rules) noText() error {
	if r.whyEmpty != nil {
		if err := r.whyEmpty(); err != nil {
			return err
		}
	}
	return errNoText
}

// newTable prepares the rules below start: alternatives that no text matches are left out.
func newTable(r *rules, start symbol, v *Vocabulary) (*table, error) {
	if start != none && r.symbols[start].kind != kindNonterminal {
		nt := r.nonterminal("start")
		r.rule(nt, start)
		start = nt
	}
	if err := r.failed(); err != nil {
		return nil, err
	}
	t := &table{symbols: make([]tableSymbol, len(r.symbols)), dots: make([]dot, 1), start: start, plain: plainRune(r.re), re: r.re}
	productive := make([]bool, len(r.symbols))
	for i, s := range r.symbols {
		e := &t.symbols[i]
		e.kind = s.kind
		switch s.kind {
		case kindLexeme:
			empty, err := r.re.IsEmpty(s.lexeme, r.limits.CompileWork)
			if err != nil {
				return nil, err
			}
			productive[i] = !empty
			e.lexeme, e.nullable = s.lexeme, r.re.Nullable(s.lexeme)
		case kindSpecial:
			if v == nil {
				productive[i] = true
				continue
			}
			id, ok := v.special[s.name]
			if !ok {
				return nil, &Error{Keyword: s.name, Message: fmt.Sprintf("the model has no special token %s", s.name)}
			}
			e.token, productive[i] = id, true
		}
	}
	settle(r, productive)
	if start == none || !productive[start] {
		return nil, r.noText()
	}
	nullable := make([]bool, len(r.symbols))
	for i := range t.symbols {
		nullable[i] = t.symbols[i].nullable
	}
	settle(r, nullable)
	known := map[dot]int32{}
	for i, s := range r.symbols {
		t.symbols[i].nullable = nullable[i]
		for _, sequence := range s.alternatives {
			if slices.ContainsFunc(sequence, func(s symbol) bool { return !productive[s] }) {
				continue
			}
			t.symbols[i].alternatives = append(t.symbols[i].alternatives, t.add(known, sequence))
		}
		slices.Sort(t.symbols[i].alternatives)
		t.symbols[i].alternatives = slices.Compact(t.symbols[i].alternatives)
	}
	return t, r.failed()
}

// settle sets holds for each nonterminal that has an alternative of symbols that all hold, until
// nothing changes.
func settle(r *rules, holds []bool) {
	type alternative struct {
		of      symbol
		missing int // symbols that do not hold
	}
	var list []alternative
	users := make([][]int32, len(r.symbols)) // of a symbol: indexes of list
	var queue []symbol
	for i, s := range r.symbols {
		if holds[i] {
			queue = append(queue, symbol(i))
		}
		for _, sequence := range s.alternatives {
			for _, part := range sequence {
				users[part] = append(users[part], int32(len(list)))
			}
			list = append(list, alternative{symbol(i), len(sequence)})
			if len(sequence) == 0 && !holds[i] {
				holds[i] = true
				queue = append(queue, symbol(i))
			}
		}
	}
	for len(queue) > 0 {
		s := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, u := range users[s] {
			a := &list[u]
			if a.missing--; a.missing == 0 && !holds[a.of] {
				holds[a.of] = true
				queue = append(queue, a.of)
			}
		}
	}
}

func (t *table) add(known map[dot]int32, sequence []symbol) int32 {
	next := int32(end)
	for _, s := range slices.Backward(sequence) {
		if t.symbols[s].kind == kindLexeme && t.symbols[s].lexeme == regex.Empty {
			continue
		}
		d := dot{s, next}
		id, ok := known[d]
		if !ok {
			id = int32(len(t.dots))
			t.dots = append(t.dots, d)
			known[d] = id
		}
		next = id
	}
	return next
}
