package grammar

import (
	"github.com/ingot-run/ingot/engine/grammar/regex"
	"github.com/ingot-run/ingot/engine/grammar/schema"
)

// schemaRules returns the symbol of the JSON texts that a JSON Schema allows. The properties of
// objects are in the schema's order. White space is at most one space after each comma and colon:
// models write it, and a model that may not writes worse answers.
func schemaRules(r *rules, text string) (symbol, error) {
	s, root, err := schema.New(r.re, text)
	if err != nil {
		return none, placed(err)
	}
	space := r.re.Optional(r.re.Literal(" "))
	w := &schemaWriter{
		r: r, s: s, values: map[schema.Value]symbol{},
		comma: r.re.Concat(r.re.Literal(","), space), colon: r.re.Concat(r.re.Literal(":"), space),
	}
	start := w.value(root)
	for len(w.pending) > 0 && w.err == nil && r.failed() == nil {
		next := w.pending[0]
		w.pending = w.pending[1:]
		w.expand(next)
	}
	if w.err != nil {
		return none, placed(w.err)
	}
	if err := r.failed(); err != nil {
		return none, err
	}
	if r.whyEmpty == nil {
		r.whyEmpty = func() error { return placed(s.WhyEmpty(root)) }
	}
	return start, nil
}

// schemaWriter writes the rules of a schema's values. Each value is a nonterminal, whose rules are
// written one after the other, so that schemas may refer to themselves.
type schemaWriter struct {
	r       *rules
	s       *schema.Schema
	values  map[schema.Value]symbol
	pending []schema.Value
	comma   regex.Node // with the space after it
	colon   regex.Node
	err     error
}

func (w *schemaWriter) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// value returns the symbol of a value. Its rules may still have to be written.
func (w *schemaWriter) value(v schema.Value) symbol {
	if at, ok := w.values[v]; ok {
		return at
	}
	at := w.r.nonterminal("value")
	w.values[v] = at
	w.pending = append(w.pending, v)
	return at
}

func (w *schemaWriter) expand(v schema.Value) {
	set, err := w.s.Expand(v)
	if err != nil {
		w.fail(err)
		return
	}
	at := w.values[v]
	if scalars := w.s.Scalars(set); scalars != regex.Nothing {
		w.r.rule(at, w.r.lexeme(scalars))
	}
	for _, a := range set.Arrays {
		w.array(at, a)
	}
	for _, o := range set.Objects {
		split, err := w.s.SplitSome(o)
		if err != nil {
			w.fail(err)
			return
		}
		for _, one := range split {
			w.object(at, one)
		}
	}
}
