package schema

import (
	"errors"

	"github.com/ingot-run/ingot/engine/grammar/regex"
	"github.com/ingot-run/ingot/engine/grammar/source"
)

// Item returns the Value of the item at an index.
func (a *Array) Item(i int) Value { return a.item(i) }

// And returns the Value of what both have.
func (s *Schema) And(a, b Value) Value { return s.values.and(a, b) }

// Texts returns the canonical spellings of a set that has at most limit values, all of them
// scalars.
func (s *Schema) Texts(set *Set, limit int) ([]string, bool) {
	if len(set.Arrays)+len(set.Objects) > 0 {
		return nil, false
	}
	exact := *set
	exact.numbers.exact = true
	w := textWriter{s: s, limit: limit}
	w.classOf, w.representatives = s.re.Classes()
	w.walk(s.Scalars(&exact), nil)
	return w.texts, !w.failed
}

// textWriter lists the texts that an expression matches.
type textWriter struct {
	s               *Schema
	classOf         [256]uint8
	representatives []byte
	texts           []string
	limit           int
	failed          bool
}

// maxTextLength is the length in bytes of a text that textWriter lists.
const maxTextLength = 200

func (w *textWriter) walk(n regex.Node, prefix []byte) {
	switch {
	case w.failed || w.s.noText(n):
		return
	case len(prefix) > maxTextLength, w.s.spend(1) != nil:
		w.failed = true
		return
	}
	if w.s.re.Nullable(n) {
		w.texts = append(w.texts, string(prefix))
		w.failed = len(w.texts) > w.limit
	}
	for _, first := range w.representatives {
		d := w.s.re.Derivative(n, first)
		if d == regex.Nothing {
			continue
		}
		for c := range 256 {
			if w.classOf[c] == w.classOf[first] {
				w.walk(d, append(prefix, byte(c)))
			}
		}
	}
}

// RefuseObject returns an error about an object.
func (s *Schema) RefuseObject(o *Object, reason string) error {
	if o.minPlace != nil {
		return o.minPlace.other("properties").Fail("%s", reason)
	}
	return &source.Error{Message: "an object " + reason}
}

// RefuseCount returns an error about the number of an object's properties.
func (s *Schema) RefuseCount(o *Object, reason string) error {
	if o.minPlace != nil && o.minPlace.node.has(o.minPlace.keyword) {
		return o.minPlace.Fail("%s", reason)
	}
	return errors.New(reason)
}

// RefuseArray returns an error about the number of an array's items.
func (s *Schema) RefuseArray(a *Array, reason string) error {
	if a.place != nil {
		return a.place.Fail("%s", reason)
	}
	return &source.Error{Message: reason}
}
