// Package schema reads JSON Schemas. It turns a schema into the sets of values that it allows: by
// type, with expressions for scalars, and with alternatives for arrays and objects whose items and
// properties are values again.
//
// All of allOf, anyOf, oneOf, not, if and the keywords that depend on others are conjunctions,
// disjunctions and complements of such sets, so that a schema is kept exactly or refused.
package schema

import (
	"errors"
	"fmt"

	"github.com/ingot-run/ingot/engine/grammar/regex"
	"github.com/ingot-run/ingot/engine/grammar/source"
)

// Limits of the sets of a schema.
const (
	maxAlternatives = 256     // arrays or objects of one Value
	maxValues       = 30_000  // formulas
	maxSteps        = 100_000 // of meeting sets
	maxEmptyDepth   = 16      // levels down to which a conjunction is searched for contradictions
	emptinessWork   = 2_000   // of finding whether an expression matches anything
)

var (
	errAlternatives = fmt.Errorf("it has more than %d alternatives when all that it combines is multiplied out", maxAlternatives)
	errSteps        = errors.New("the schema takes too long to prepare")
	errCounted      = errors.New("minContains above 1 cannot be kept under not, oneOf or if")
)

// Schema is a schema whose values can be asked for. It is not safe for concurrent use.
type Schema struct {
	re       *regex.Builder
	document *document
	values   values
	interned map[string]int // equal schemas, for node keys
	keys     map[any]int
	steps    int
	depth    int // of expansions

	number  numberParts
	char    regex.Node // one character of a string, in canonical spelling
	anyChar regex.Node // one character of a string, in any spelling
	formats map[string]regex.Node
}

// New reads a schema. Its expressions are made by re.
func New(re *regex.Builder, text string) (*Schema, Value, error) {
	value, err := decode(text)
	if err != nil {
		return nil, None, err
	}
	d, err := newDocument(value)
	if err != nil {
		return nil, None, err
	}
	s := &Schema{
		re: re, document: d, values: newValues(), interned: map[string]int{}, keys: map[any]int{},
		number: newNumberParts(re), formats: map[string]regex.Node{},
	}
	s.char = Quoted{}.Runes(re, []regex.RuneRange{{Lo: 0, Hi: 0x10FFFF}})
	s.anyChar = anyCharacter(re)
	root := s.valueOfNode(d.root)
	return s, root, re.Err()
}

// spend counts steps, and returns an error if there are too many.
func (s *Schema) spend(n int) error {
	if s.steps += n; s.steps > maxSteps || len(s.values.list) > maxValues {
		return errSteps
	}
	return s.re.Err()
}

// place adds the path of n to an error that has none.
func (s *Schema) place(n *node, err error) error {
	var placed *source.Error
	if err == nil || errors.As(err, &placed) || n == nil {
		return err
	}
	return &source.Error{Path: n.path(), Message: err.Error()}
}

// Expand returns what values v has.
func (s *Schema) Expand(v Value) (*Set, error) {
	f := &s.values.list[v]
	if f.expanded != nil || f.err != nil {
		return f.expanded, f.err
	}
	if f.expanding {
		return nil, s.loop(v)
	}
	f.expanding = true
	if s.depth++; s.depth > maxExpansion {
		return nil, errSteps
	}
	set, err := s.expand(v)
	s.depth--
	f = &s.values.list[v] // the list may have grown
	f.expanding = false
	if err == nil {
		err = s.re.Err()
	}
	if err == nil && s.jointMultiples(set.numbers) {
		err = errJoint
	}
	if err != nil {
		err = s.place(f.node, err)
		f.err = err
		return nil, err
	}
	f.expanded = set
	return set, nil
}

// maxExpansion is how many schemas may be combined within each other in one place.
const maxExpansion = 1_000

func (s *Schema) loop(v Value) error {
	n := s.values.list[v].node
	if n == nil {
		return errors.New("a schema refers to itself without a property or an item in between")
	}
	return &source.Error{Path: n.path(), Message: "a schema refers to itself without a property or an item in between"}
}

func (s *Schema) expand(v Value) (*Set, error) {
	switch f := s.values.list[v]; f.kind {
	case kindConstant:
		if v == None {
			return s.emptySet(), nil
		}
		return s.fullSet(), nil
	case kindSet:
		return f.set, nil
	case kindNode:
		return s.expandNode(f.node)
	case kindNot:
		set, err := s.Expand(f.kids[0])
		if err != nil {
			return nil, err
		}
		return s.subtract(s.fullSet(), set)
	default:
		return s.expandList(f)
	}
}

func (s *Schema) emptySet() *Set {
	return &Set{numbers: numberSet{integers: regex.Nothing, others: regex.Nothing}, strings: noString}
}

// expandList expands a conjunction, with its negations last, or a disjunction.
func (s *Schema) expandList(f formula) (*Set, error) {
	var out *Set
	var sets []*Set
	var negated []Value
	for _, kid := range f.kids {
		if k := s.values.list[kid]; f.kind == kindAnd && k.kind == kindNot {
			negated = append(negated, k.kids[0])
			continue
		}
		set, err := s.Expand(kid)
		switch {
		case err != nil:
		case f.kind == kindOr:
			sets = append(sets, set)
		case out == nil:
			out = set
		default:
			out, err = s.meet(out, set)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case f.kind == kindOr:
		return s.join(sets...)
	case out == nil:
		out = s.fullSet()
	}
	for _, v := range negated {
		set, err := s.Expand(v)
		if err == nil {
			out, err = s.subtract(out, set)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// isEmpty reports whether v is known to have no value. It looks for contradictions in conjunctions
// and gives up where that would take long.
func (s *Schema) isEmpty(v Value) bool {
	if v <= Any {
		return v == None
	}
	f := &s.values.list[v]
	switch {
	case f.empty == isEmpty:
		return true
	case f.empty != notAsked, f.expanding, s.depth > maxEmptyDepth, f.kind == kindNode && f.expanded == nil:
		return false
	}
	f.empty = asking
	set, err := s.Expand(v)
	empty := err == nil && s.emptySetOf(set)
	f = &s.values.list[v]
	switch {
	case err != nil: // it is reported where the value is used
		f.empty = isNotEmpty
	case empty:
		f.empty = isEmpty
	default:
		f.empty = isNotEmpty
	}
	return empty
}

func (s *Schema) emptySetOf(set *Set) bool {
	if set.Null || set.False || set.True || !s.noText(s.Scalars(set)) {
		return false
	}
	for _, a := range set.Arrays {
		if !s.emptyArray(a) {
			return false
		}
	}
	for _, o := range set.Objects {
		if !s.emptyObject(o) {
			return false
		}
	}
	return true
}

func (s *Schema) emptyArray(a *Array) bool {
	for i := range min(a.Min, len(a.Prefix)) {
		if s.isEmpty(a.Prefix[i]) {
			return true
		}
	}
	return false
}

func (s *Schema) emptyObject(o *Object) bool {
	for _, m := range o.Members {
		if m.Required && s.isEmpty(m.Value) {
			return true
		}
	}
	if len(o.Some) == 0 {
		return false
	}
	split, err := s.SplitSome(o)
	return err == nil && len(split) == 0
}

// noText reports whether an expression is known to match nothing.
func (s *Schema) noText(n regex.Node) bool {
	if n == regex.Nothing || n == regex.All {
		return n == regex.Nothing
	}
	empty, err := s.re.IsEmpty(n, emptinessWork)
	return err == nil && empty
}

// valueOfNode returns the Value of a schema. Schemas that say the same are one Value.
func (s *Schema) valueOfNode(n *node) Value {
	switch v := n.value.(type) {
	case bool:
		if v {
			return Any
		}
		return None
	default:
		key := fmt.Sprintf("schema %d %p", s.key(n.value), n.resource)
		return s.values.add(key, formula{kind: kindNode, node: n})
	}
}

// valueAt returns the Value of a schema within n.
func (s *Schema) valueAt(n *node, value any, tokens ...string) Value {
	return s.valueOfNode(s.document.child(n, value, tokens...))
}
