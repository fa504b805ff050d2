package grammar

import (
	"errors"
	"fmt"
	"slices"
	"unicode"

	"github.com/ingot-run/ingot/engine/grammar/ebnf"
	"github.com/ingot-run/ingot/engine/grammar/pattern"
	"github.com/ingot-run/ingot/engine/grammar/regex"
	"github.com/ingot-run/ingot/engine/grammar/source"
)

// grammarRules returns the symbol of the texts of a grammar, in Lark's dialect or GBNF.
func grammarRules(r *rules, text string) (symbol, error) {
	g, err := ebnf.Parse(text)
	if err != nil {
		return none, placed(err)
	}
	w := &ebnfWriter{
		r: r, g: g, ignore: regex.Empty,
		states: map[string]ruleState{}, sizes: map[string]int{}, crossed: map[string]bool{}, parts: map[*ebnf.Expr]int{},
		nodes: map[string]regex.Node{}, symbols: map[string]symbol{}, regexes: map[regexKey]regex.Node{},
	}
	start, err := w.start()
	if err == nil {
		err = r.failed()
	}
	return start, placed(err)
}

// ebnfWriter writes the rules of a grammar. Expressions that do not recur become lexemes where they
// are small, since one lexeme is cheaper than rules. Lexemes are exact, so that this does not
// change which texts match.
type ebnfWriter struct {
	r       *rules
	g       *ebnf.Grammar
	ignore  regex.Node // what may follow each terminal of a rule
	states  map[string]ruleState
	sizes   map[string]int  // of definitions that can be lexemes; notRegular for others
	crossed map[string]bool // definitions with & or ~
	parts   map[*ebnf.Expr]int
	nodes   map[string]regex.Node
	symbols map[string]symbol
	regexes map[regexKey]regex.Node
	pending []*ebnf.Definition
}

// regexKey is a regular expression that a grammar may have several times.
type regexKey struct {
	text   string
	syntax pattern.Syntax
}

type ruleState uint8

const (
	notVisited ruleState = iota
	visiting
	visited
)

const (
	maxLexemeSize = 80      // parts of a rule's expression that becomes a lexeme
	notRegular    = 1 << 30 // the size of what cannot be a lexeme
)

func (w *ebnfWriter) start() (symbol, error) {
	if len(w.g.Ignore) > 0 {
		var list []regex.Node
		for _, e := range w.g.Ignore {
			n, err := w.node(e, true)
			if err != nil {
				return none, err
			}
			list = append(list, n)
		}
		w.ignore = w.r.re.Repeat(w.r.re.Or(list...), 0, regex.Unbounded)
	}
	start := w.rule(w.g.Definitions[w.g.Start])
	for len(w.pending) > 0 && w.r.failed() == nil {
		d := w.pending[0]
		w.pending = w.pending[1:]
		body, err := w.symbol(d.Body, d.Terminal)
		if err != nil {
			return none, err
		}
		w.r.rule(w.symbols[d.Name], body)
	}
	if w.ignore != regex.Empty {
		start = w.r.sequence(w.r.lexeme(w.ignore), start)
	}
	return start, nil
}

// rule returns the nonterminal of a definition. Its rule may still have to be written.
func (w *ebnfWriter) rule(d *ebnf.Definition) symbol {
	if s, ok := w.symbols[d.Name]; ok {
		return s
	}
	s := w.r.nonterminal(d.Name)
	w.symbols[d.Name] = s
	w.pending = append(w.pending, d)
	return s
}

// size returns how many parts an expression has when all definitions are put in their places, or
// notRegular if one refers to itself, or has JSON or special tokens.
func (w *ebnfWriter) size(e *ebnf.Expr) int {
	if n, ok := w.parts[e]; ok {
		return n
	}
	n := 1
	switch e.Kind {
	case ebnf.JSON, ebnf.Special:
		return notRegular
	case ebnf.Rule:
		return w.sizeOf(w.g.Definitions[e.Text])
	case ebnf.Substring:
		n += len(e.Chunks)
	}
	for _, sub := range e.Subs {
		n = min(n+w.size(sub), notRegular)
	}
	w.parts[e] = n
	return n
}

func (w *ebnfWriter) sizeOf(d *ebnf.Definition) int {
	switch w.states[d.Name] {
	case visiting:
		return notRegular
	case visited:
		return w.sizes[d.Name]
	}
	w.states[d.Name] = visiting
	n := w.size(d.Body)
	w.crossed[d.Name] = w.intersects(d.Body)
	switch {
	case !d.Terminal || n == notRegular:
	case w.crossed[d.Name]:
		n = maxLexemeSize // always a lexeme, but not joined with its neighbours
	default:
		n = 1 // always a lexeme
	}
	w.states[d.Name] = visited
	w.sizes[d.Name] = n
	return n
}

// intersects reports whether an expression has & or ~. Such expressions are expensive parts of
// longer ones, since each beginning of the rest is derived in every of their states. The
// definitions to which it refers have been visited.
func (w *ebnfWriter) intersects(e *ebnf.Expr) bool {
	switch e.Kind {
	case ebnf.And, ebnf.Not:
		return true
	case ebnf.Rule:
		return w.crossed[e.Text]
	}
	return slices.ContainsFunc(e.Subs, w.intersects)
}

// symbol returns the symbol of an expression of a rule or, where nothing is ignored, of a terminal.
func (w *ebnfWriter) symbol(e *ebnf.Expr, terminal bool) (symbol, error) {
	if terminal || w.size(e) <= maxLexemeSize {
		n, err := w.node(e, terminal)
		if err != nil {
			return none, err
		}
		return w.r.lexeme(n), nil
	}
	switch e.Kind {
	case ebnf.Rule:
		return w.rule(w.g.Definitions[e.Text]), nil
	case ebnf.JSON:
		s, err := schemaRules(w.r, e.Text)
		if err != nil {
			return none, w.within(e, err)
		}
		return w.ignoring(s), nil
	case ebnf.Special:
		return w.ignoring(w.r.specialToken(e.Text)), nil
	case ebnf.Sequence:
		return w.sequence(e)
	case ebnf.Choice:
		list := make([]symbol, len(e.Subs))
		for i, sub := range e.Subs {
			var err error
			if list[i], err = w.symbol(sub, false); err != nil {
				return none, err
			}
		}
		return w.r.choice(list...), nil
	case ebnf.Repeat:
		s, err := w.symbol(e.Subs[0], false)
		if err != nil {
			return none, err
		}
		return w.r.repeat(s, none, e.Min, e.Max), nil
	case ebnf.And, ebnf.Not:
		return none, w.g.Fail(e.Offset, "& and ~ are for terminals, whose names are in upper case")
	}
	n, err := w.node(e, false)
	return w.r.lexeme(n), err
}

func (w *ebnfWriter) ignoring(s symbol) symbol {
	if w.ignore == regex.Empty {
		return s
	}
	return w.r.sequence(s, w.r.lexeme(w.ignore))
}

// within adds the place of an embedded schema to an error.
func (w *ebnfWriter) within(e *ebnf.Expr, err error) error {
	var inner *Error
	if !errors.As(err, &inner) {
		return err
	}
	return w.g.Fail(e.Offset, "%%json: %v", inner)
}

// sequence joins small neighbours into one lexeme.
func (w *ebnfWriter) sequence(e *ebnf.Expr) (symbol, error) {
	var list []symbol
	var joined []regex.Node
	size := 0
	flush := func() {
		if len(joined) > 0 {
			list = append(list, w.r.lexeme(w.r.re.Concat(joined...)))
			joined, size = nil, 0
		}
	}
	for _, sub := range e.Subs {
		n := w.size(sub)
		if size+n > maxLexemeSize {
			flush()
		}
		if n <= maxLexemeSize {
			node, err := w.node(sub, false)
			if err != nil {
				return none, err
			}
			joined = append(joined, node)
			size += n
			continue
		}
		s, err := w.symbol(sub, false)
		if err != nil {
			return none, err
		}
		list = append(list, s)
	}
	flush()
	return w.r.sequence(list...), nil
}

// node returns the expression of what does not recur. In a rule, what is ignored may follow each
// terminal.
func (w *ebnfWriter) node(e *ebnf.Expr, terminal bool) (regex.Node, error) {
	re := w.r.re
	list := make([]regex.Node, len(e.Subs))
	for i, sub := range e.Subs {
		var err error
		if list[i], err = w.node(sub, terminal); err != nil {
			return regex.Nothing, err
		}
	}
	switch e.Kind {
	case ebnf.Sequence:
		return re.Concat(list...), nil
	case ebnf.Choice:
		return re.Or(list...), nil
	case ebnf.Repeat:
		return re.Repeat(list[0], e.Min, e.Max), nil
	case ebnf.Rule:
		return w.definition(e, terminal)
	}
	if !terminal && (e.Kind == ebnf.And || e.Kind == ebnf.Not) {
		return regex.Nothing, w.g.Fail(e.Offset, "& and ~ are for terminals, whose names are in upper case")
	}
	n, err := w.terminal(e, list)
	if err != nil || terminal {
		return n, err
	}
	return re.Concat(n, w.ignore), nil
}

func (w *ebnfWriter) definition(e *ebnf.Expr, terminal bool) (regex.Node, error) {
	d := w.g.Definitions[e.Text]
	if w.sizeOf(d) >= notRegular {
		return regex.Nothing, w.g.Fail(e.Offset, "the terminal %s refers to itself; write it as a rule, in lower case", d.Name)
	}
	n, ok := w.nodes[d.Name]
	if !ok {
		var err error
		if n, err = w.node(d.Body, d.Terminal); err != nil {
			return n, err
		}
		w.nodes[d.Name] = n
	}
	if d.Terminal && !terminal {
		n = w.r.re.Concat(n, w.ignore)
	}
	return n, nil
}

func (w *ebnfWriter) terminal(e *ebnf.Expr, subs []regex.Node) (regex.Node, error) {
	re := w.r.re
	switch e.Kind {
	case ebnf.Text:
		if !e.Fold {
			return re.Literal(e.Text), nil
		}
		return foldedText(re, e.Text), nil
	case ebnf.Regex:
		key := regexKey{e.Text, e.Syntax}
		if n, ok := w.regexes[key]; ok {
			return n, nil
		}
		n, err := pattern.Whole(re, e.Text, e.Syntax, pattern.UTF8{})
		w.regexes[key] = n
		var at *source.Error
		if errors.As(err, &at) {
			err = w.g.Fail(e.Offset, "%s", at.Message)
		}
		return n, err
	case ebnf.Substring:
		return substring(re, e.Chunks), nil
	case ebnf.And:
		return re.And(subs...), nil
	case ebnf.Not:
		return re.Minus(re.Text(), subs[0]), nil
	case ebnf.Lazy:
		return re.Minus(subs[0], re.Concat(subs[0], re.Repeat(re.AnyRune(), 1, regex.Unbounded))), nil
	}
	return regex.Nothing, fmt.Errorf("an expression of kind %d is in a terminal", e.Kind)
}

// foldedText matches text whatever the case of its letters.
func foldedText(re *regex.Builder, text string) regex.Node {
	var list []regex.Node
	for _, r := range text {
		ranges := []regex.RuneRange{{Lo: r, Hi: r}}
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			ranges = append(ranges, regex.RuneRange{Lo: f, Hi: f})
		}
		list = append(list, re.Runes(ranges...))
	}
	return re.Concat(list...)
}

// substring matches any number of chunks that follow one another.
func substring(re *regex.Builder, chunks []string) regex.Node {
	starts := []regex.Node{regex.Empty}
	rest := regex.Empty
	for i := len(chunks) - 1; i >= 0; i-- {
		rest = re.Concat(re.Literal(chunks[i]), re.Optional(rest))
		starts = append(starts, rest)
	}
	return re.Or(starts...)
}
