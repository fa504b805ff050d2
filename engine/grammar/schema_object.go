package grammar

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/grammar/regex"
	"github.com/ingot-run/ingot/engine/grammar/schema"
)

// objectWriter writes the rules of an object. Its members come in order; each state is a symbol for
// the rest of the object from one member on.
type objectWriter struct {
	w       *schemaWriter
	o       *schema.Object
	members []schema.Member // those that may occur
	extras  []property      // properties that are no members
	some    *property       // one that must occur, too
	states  map[objectState]symbol
}

// property is the key of a property without punctuation, as an expression, and its value.
type property struct {
	key   regex.Node
	value symbol
}

// objectState is a place within an object: the next member, whether a property was written before
// it, how many were (as far as that matters), and whether some has occurred.
type objectState struct {
	next    int
	started bool
	count   int
	some    bool
}

// maxOptional is how many members may not be required: as many keys may come next.
const maxOptional = 2_000

// object adds the rules of o to at.
func (w *schemaWriter) object(at symbol, o *schema.Object) {
	x := &objectWriter{w: w, o: o, states: map[objectState]symbol{}}
	required := 0
	for _, m := range o.Members {
		if m.Value != schema.None {
			x.members = append(x.members, m)
		}
		if m.Required {
			required++
		}
	}
	for _, c := range o.Classes {
		x.extras = append(x.extras, x.extra(c))
	}
	for _, c := range o.Some {
		some := x.extra(c)
		x.some = &some
	}
	switch {
	case len(x.members)-required > maxOptional:
		w.fail(w.s.RefuseObject(o, fmt.Sprintf("has more than %d properties that are not required", maxOptional)))
		return
	case len(o.Some) > 1:
		// The second could have the key of the first and replace it.
		w.fail(w.s.RefuseObject(o, "would need two properties without a name that differ in their names; name them in properties"))
		return
	case len(x.extras) > 0 && o.Min > required+1:
		// Keys may occur twice, which counts once.
		w.fail(w.s.RefuseCount(o, "cannot be kept: more than one property without a name would have to differ in their names; name them in properties"))
		return
	}
	w.r.rule(at, x.state(objectState{}))
}

func (x *objectWriter) extra(c schema.Class) property {
	return property{key: x.w.s.FreeKeys(x.o, c.Keys), value: x.w.value(c.Value)}
}

// write adds a rule to at: a property that is no member, and what follows it.
func (x *objectWriter) write(at symbol, open regex.Node, p property, after symbol) {
	re := x.w.r.re
	key := x.w.r.lexeme(re.Concat(open, re.Literal(`"`), p.key, re.Literal(`"`), x.w.colon))
	x.w.r.rule(at, key, p.value, after)
}

func (x *objectWriter) state(at objectState) symbol {
	if s, ok := x.states[at]; ok {
		return s
	}
	s := x.w.r.nonterminal("object")
	x.states[at] = s
	if x.w.r.failed() != nil {
		return s
	}
	re := x.w.r.re
	open := re.Literal("{")
	if at.started {
		open = x.w.comma
	}
	room := x.o.Max < 0 || at.count < x.o.Max
	if at.next < len(x.members) {
		m := x.members[at.next]
		if room {
			after := objectState{at.next + 1, true, x.counted(at.count), at.some}
			key := x.w.r.lexeme(re.Concat(open, re.Literal(schema.Quote(m.Name)), x.w.colon))
			x.w.r.rule(s, key, x.w.value(m.Value), x.state(after))
		}
		if !m.Required {
			skipped := at
			skipped.next++
			x.w.r.rule(s, x.state(skipped))
		}
		return s
	}
	if at.count >= x.o.Min && (x.some == nil || at.some) {
		end := "{}"
		if at.started {
			end = "}"
		}
		x.w.r.rule(s, x.w.r.literal(end))
	}
	if !room || at.some {
		return s
	}
	after := objectState{at.next, true, x.counted(at.count), false}
	for _, e := range x.extras {
		x.write(s, open, e, x.state(after))
	}
	if x.some != nil { // it comes last: where a key occurs twice, the last counts
		after.some = true
		x.write(s, open, *x.some, x.state(after))
	}
	return s
}

// counted returns the next count of properties, as far as the limits need it.
func (x *objectWriter) counted(n int) int { return min(n+1, max(x.o.Min, x.o.Max)) }
