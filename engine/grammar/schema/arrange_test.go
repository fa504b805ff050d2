package schema

import (
	"encoding/json"
	stdstrings "strings"

	"github.com/ingot-run/ingot/engine/grammar/regex"
	"github.com/ingot-run/ingot/internal/ordered"
)

// arrange writes a JSON value in the order and the spelling of a Value. It reports whether the
// Value has it. It looks at values, not at texts, so that it checks what rules are made from.
func (s *Schema) arrange(v Value, x any, spaced bool) (string, bool) {
	set, err := s.Expand(v)
	if err != nil {
		panic(err)
	}
	switch x := x.(type) {
	case nil:
		return "null", set.Null
	case bool:
		if x {
			return "true", set.True
		}
		return "false", set.False
	case string:
		body := s.bodyOf(set.strings)
		return Quote(x), body != regex.Nothing && s.re.Match(body, quoteBody(x))
	case json.Number:
		d, ok := parseDecimal(x)
		if !ok {
			return "", false
		}
		if d.whole() {
			return d.String(), s.re.Match(set.numbers.integers, d.String())
		}
		return d.String(), s.re.Match(set.numbers.others, d.String())
	case []any:
		for _, a := range set.Arrays {
			if text, ok := s.arrangeArray(a, x, spaced); ok {
				return text, true
			}
		}
	case *ordered.Object:
		for _, o := range set.Objects {
			if text, ok := s.arrangeObject(o, x, spaced); ok {
				return text, true
			}
		}
	}
	return "", false
}

func separator(text string, spaced bool) string {
	if spaced {
		return text + " "
	}
	return text
}

func (s *Schema) arrangeArray(a *Array, list []any, spaced bool) (string, bool) {
	if len(list) < a.Min || a.Max >= 0 && len(list) > a.Max {
		return "", false
	}
	seen := map[string]bool{}
	texts := make([]string, len(list))
	for i, x := range list {
		text, ok := s.arrange(a.item(i), x, spaced)
		if !ok || a.Unique != nil && seen[text] {
			return "", false
		}
		seen[text] = true
		texts[i] = text
	}
	for _, some := range a.Some {
		count := 0
		for _, x := range list[min(some.From, len(list)):] {
			if _, ok := s.arrange(some.Value, x, spaced); ok {
				count++
			}
		}
		if count < some.Count {
			return "", false
		}
	}
	return "[" + stdstrings.Join(texts, separator(",", spaced)) + "]", true
}

func (s *Schema) arrangeObject(o *Object, x *ordered.Object, spaced bool) (string, bool) {
	if x.Len() < o.Min || o.Max >= 0 && x.Len() > o.Max {
		return "", false
	}
	var texts []string
	add := func(name string, v Value, value any) bool {
		text, ok := s.arrange(v, value, spaced)
		texts = append(texts, Quote(name)+separator(":", spaced)+text)
		return ok
	}
	for _, m := range o.Members {
		value, ok := x.Get(m.Name)
		if !ok {
			if m.Required {
				return "", false
			}
			continue
		}
		if !add(m.Name, m.Value, value) {
			return "", false
		}
	}
	last := map[string]bool{} // an additional property that must occur comes last
	for _, some := range o.Some {
		found, named := []string(nil), false
		for name, value := range x.All() {
			if _, ok := s.arrange(some.Value, value, spaced); ok && s.hasKey(some.Keys, name) {
				_, member := o.Find(name)
				found, named = []string{name}, named || member
			}
		}
		switch {
		case found == nil:
			return "", false
		case !named:
			last[found[0]] = true
		}
	}
	for _, turn := range []bool{false, true} {
		for name, value := range x.All() {
			if _, ok := o.Find(name); !ok && last[name] == turn && !add(name, s.classOf(o.Classes, name), value) {
				return "", false
			}
		}
	}
	return "{" + stdstrings.Join(texts, separator(",", spaced)) + "}", true
}
