package grammar

import (
	"github.com/ingot-run/ingot/engine/grammar/regex"
	"github.com/ingot-run/ingot/engine/grammar/schema"
)

// array adds the rules of a to at.
func (w *schemaWriter) array(at symbol, a *schema.Array) {
	switch {
	case a.Unique != nil && a.Max != 0 && a.Max != 1:
		w.uniqueArray(at, a)
		return
	case len(a.Some) > 0:
		w.someArray(at, a)
		return
	case len(a.Prefix) == 0 && w.scalarArray(at, a):
		return
	}
	open, end := w.r.literal("["), w.r.literal("]")
	if a.Min == 0 {
		w.r.rule(at, w.r.literal("[]"))
	}
	if a.Max == 0 {
		return
	}
	if len(a.Prefix) == 0 {
		if a.Max >= 0 && a.Max > maxCountedItems {
			w.fail(w.s.RefuseArray(a, "has too large a count of items that are no scalars"))
			return
		}
		w.r.rule(at, open, w.r.repeat(w.value(a.Rest), w.r.lexeme(w.comma), max(a.Min, 1), a.Max), end)
		return
	}
	w.r.rule(at, open, w.prefix(a, end))
}

// maxCountedItems is the largest count of items in a rule.
const maxCountedItems = 4096

// scalarArray writes an array of scalars with a large count as one expression. It reports whether
// the array is one.
func (w *schemaWriter) scalarArray(at symbol, a *schema.Array) bool {
	if max(a.Min, a.Max) <= 64 || a.Rest == schema.Any {
		return false
	}
	set, err := w.s.Expand(a.Rest)
	if err != nil || len(set.Arrays)+len(set.Objects) > 0 {
		return false // value reports the error
	}
	item, re := w.s.Scalars(set), w.r.re
	most := a.Max
	if most != regex.Unbounded {
		most--
	}
	items := re.Concat(item, re.Repeat(re.Concat(w.comma, item), max(a.Min-1, 0), most))
	if a.Min == 0 {
		items = re.Optional(items)
	}
	w.r.rule(at, w.r.lexeme(re.Concat(re.Literal("["), items, re.Literal("]"))))
	return true
}

// prefix returns the symbol of the items of an array that begins with prefix items, and of its end.
func (w *schemaWriter) prefix(a *schema.Array, end symbol) symbol {
	n := len(a.Prefix)
	if a.Max >= 0 {
		n = min(n, a.Max)
	}
	rest := end // what follows item n-1
	if a.Max < 0 || a.Max > n {
		least, most := max(a.Min-n, 0), a.Max
		if most >= 0 {
			most -= n
		}
		if max(least, most) > maxCountedItems {
			w.fail(w.s.RefuseArray(a, "has too large a count of items after prefixItems"))
			return none
		}
		more := w.r.repeat(w.r.sequence(w.r.lexeme(w.comma), w.value(a.Rest)), none, least, most)
		rest = w.r.sequence(more, end)
	}
	for i := n - 1; i >= 0; i-- {
		at := w.r.nonterminal("items")
		if i == 0 {
			w.r.rule(at, w.value(a.Prefix[0]), rest)
		} else {
			w.r.rule(at, w.r.lexeme(w.comma), w.value(a.Prefix[i]), rest)
		}
		if i > 0 && a.Min <= i {
			w.r.rule(at, end)
		}
		rest = at
	}
	return rest
}

// someArray writes an array of which some items must have other values too.
func (w *schemaWriter) someArray(at symbol, a *schema.Array) {
	x := &someWriter{w: w, a: a, states: map[someState]symbol{}}
	states := 1
	for _, some := range a.Some {
		if states *= some.Count + 1; states > maxSomeStates {
			w.fail(w.s.RefuseArray(a, "contains cannot be kept for so many items"))
			return
		}
	}
	last := len(a.Prefix)
	for _, some := range a.Some {
		last = max(last, some.From)
	}
	x.last = max(last, a.Min, a.Max)
	if x.last > maxCountedItems/states {
		w.fail(w.s.RefuseArray(a, "contains cannot be kept for so many items"))
		return
	}
	w.r.rule(at, w.r.literal("["), x.state(someState{}))
}

const maxSomeStates = 64

type someWriter struct {
	w      *schemaWriter
	a      *schema.Array
	last   int // from which index on all items are alike
	states map[someState]symbol
}

// someState is a place in an array: the index of the next item, and how many of each of Some have
// occurred, in a mixed base.
type someState struct{ next, seen int }

func (x *someWriter) state(at someState) symbol {
	if s, ok := x.states[at]; ok {
		return s
	}
	s := x.w.r.nonterminal("items")
	x.states[at] = s
	if x.w.r.failed() != nil {
		return s
	}
	done, base := true, 1
	type step struct {
		value schema.Value
		seen  int
	}
	item := x.a.Item(at.next)
	steps := []step{{item, at.seen}}
	for _, some := range x.a.Some {
		have := at.seen / base % (some.Count + 1)
		if have < some.Count {
			done = false
			if at.next >= some.From {
				for _, t := range steps { // an item may count for several
					steps = append(steps, step{x.w.s.And(t.value, some.Value), t.seen + base})
				}
			}
		}
		base *= some.Count + 1
	}
	if done && at.next >= x.a.Min {
		x.w.r.rule(s, x.w.r.literal("]"))
	}
	if x.a.Max >= 0 && at.next >= x.a.Max {
		return s
	}
	for _, t := range steps {
		after := x.state(someState{min(at.next+1, max(x.last, 1)), t.seen})
		if at.next == 0 {
			x.w.r.rule(s, x.w.value(t.value), after)
		} else {
			x.w.r.rule(s, x.w.r.lexeme(x.w.comma), x.w.value(t.value), after)
		}
	}
	return s
}

// uniqueArray writes an array whose items differ, if the values of an item are few.
func (w *schemaWriter) uniqueArray(at symbol, a *schema.Array) {
	texts, err := w.uniqueItems(a)
	if err != nil {
		w.fail(err)
		return
	}
	x := &uniqueWriter{w: w, a: a, texts: texts, states: map[uint32]symbol{}}
	if a.Min == 0 {
		w.r.rule(at, w.r.literal("[]"))
	}
	w.r.rule(at, w.r.literal("["), x.state(0))
}

const maxUnique = 8

// uniqueItems returns the spellings of the items of an array.
func (w *schemaWriter) uniqueItems(a *schema.Array) ([]string, error) {
	refusal := a.Unique.Fail("can be kept only if an item is one of at most %d scalars, as of enum", maxUnique)
	if len(a.Prefix) > 0 || len(a.Some) > 0 || a.Rest == schema.Any {
		return nil, refusal
	}
	set, err := w.s.Expand(a.Rest)
	if err != nil {
		return nil, err
	}
	texts, ok := w.s.Texts(set, maxUnique)
	if !ok {
		return nil, refusal
	}
	return texts, nil
}

type uniqueWriter struct {
	w      *schemaWriter
	a      *schema.Array
	texts  []string
	states map[uint32]symbol // by the items that have occurred
}

func (x *uniqueWriter) state(seen uint32) symbol {
	if s, ok := x.states[seen]; ok {
		return s
	}
	s := x.w.r.nonterminal("items")
	x.states[seen] = s
	count := 0
	for i := range x.texts {
		count += int(seen >> i & 1)
	}
	if count > 0 && count >= x.a.Min {
		x.w.r.rule(s, x.w.r.literal("]"))
	}
	if x.a.Max >= 0 && count >= x.a.Max {
		return s
	}
	for i, text := range x.texts {
		if seen>>i&1 != 0 {
			continue
		}
		item := x.w.r.re.Literal(text)
		if count > 0 {
			item = x.w.r.re.Concat(x.w.comma, item)
		}
		x.w.r.rule(s, x.w.r.lexeme(item), x.state(seen|1<<i))
	}
	return s
}
