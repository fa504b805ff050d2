package jinja

import (
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

var strMethods, listMethods, dictMethods map[string]*builtin

func init() {
	dictMethods = map[string]*builtin{
		"keys":   def("/", dictView("dict_keys")),
		"values": def("/", dictView("dict_values")),
		"items":  def("/", dictView("dict_items")),
		"get":    def("key default? /", dictGet),
	}
	listMethods = map[string]*builtin{
		"index": def("value /", listIndex),
		"count": def("value /", listCount),
	}
	strMethods = map[string]*builtin{
		"upper":      mapped(upper),
		"lower":      mapped(lower),
		"title":      mapped(title),
		"capitalize": mapped(capitalize),

		"strip":        def("chars? /", strip(strings.TrimFunc)),
		"lstrip":       def("chars? /", strip(strings.TrimLeftFunc)),
		"rstrip":       def("chars? /", strip(strings.TrimRightFunc)),
		"removeprefix": def("prefix /", remove(strings.TrimPrefix)),
		"removesuffix": def("suffix /", remove(strings.TrimSuffix)),

		"split":      def("sep? maxsplit?", split(false)),
		"rsplit":     def("sep? maxsplit?", split(true)),
		"splitlines": def("keepends?", strSplitLines),
		"partition":  def("sep /", partition(strings.Index)),
		"rpartition": def("sep /", partition(strings.LastIndex)),

		"find":       def("sub /", find(strings.Index, false)),
		"rfind":      def("sub /", find(strings.LastIndex, false)),
		"index":      def("sub /", find(strings.Index, true)),
		"rindex":     def("sub /", find(strings.LastIndex, true)),
		"count":      def("sub /", strCount),
		"startswith": def("prefix /", affix(strings.HasPrefix)),
		"endswith":   def("suffix /", affix(strings.HasSuffix)),

		"replace": def("old new count? /", strReplace),
		"join":    def("iterable /", strJoin),
		"format":  def("*", strFormat),

		"isalpha": textTest(func(s string) bool { return every(s, isAlpha) }),
		"isdigit": textTest(func(s string) bool { return every(s, isDigit) }),
		"isspace": textTest(func(s string) bool { return every(s, isSpace) }),
		"islower": textTest(func(s string) bool { return hasCase(s, isLowerCase) }),
		"isupper": textTest(func(s string) bool { return hasCase(s, isUpperCase) }),
	}
}

// methodOf returns the method with the given name of the object's type; nil if there is none.
func methodOf(object Value, name string) *builtin {
	switch object.(type) {
	case string:
		return strMethods[name]
	case markup:
		failMarked("the method '" + name + "' of")
	case []Value:
		return listMethods[name]
	case *ordered.Object:
		return dictMethods[name]
	}
	return nil
}

func listIndex(r *render, self Value, a args) Value {
	for i, v := range self.([]Value) {
		r.spend(itemCost)
		if r.equal(v, a.pos[0]) {
			return int64(i)
		}
	}
	fail("index: %s is not in the list", r.repr(a.pos[0]))
	return nil
}

func listCount(r *render, self Value, a args) Value {
	n := 0
	for _, v := range self.([]Value) {
		r.spend(itemCost)
		if r.equal(v, a.pos[0]) {
			n++
		}
	}
	return int64(n)
}

func dictView(kind string) func(*render, Value, args) Value {
	return func(_ *render, self Value, _ args) Value { return &view{kind, self.(*ordered.Object)} }
}

func dictGet(r *render, self Value, a args) Value {
	if v, ok := r.lookUp(self.(*ordered.Object), a.pos[0]); ok {
		return v
	}
	return a.or(1, nil)
}

func strip(trim func(s string, in func(rune) bool) string) func(*render, Value, args) Value {
	return func(r *render, self Value, a args) Value {
		s := self.(string)
		if a.or(0, nil) == nil {
			return trim(s, isSpace)
		}
		chars := a.text(0)
		if len(chars) < 8 {
			return trim(s, func(c rune) bool { return strings.ContainsRune(chars, c) })
		}
		r.spend(len(chars))
		set := map[rune]bool{}
		for _, c := range chars {
			set[c] = true
		}
		return trim(s, func(c rune) bool { return set[c] })
	}
}

func remove(fn func(s, affix string) string) func(*render, Value, args) Value {
	return func(_ *render, self Value, a args) Value { return fn(self.(string), a.text(0)) }
}

func strReplace(r *render, self Value, a args) Value {
	return r.replace(self.(string), a.text(0), a.text(1), a.integer(2, -1))
}

// replace replaces a part of s: each occurrence of the string in the parameter from becomes the
// string in the parameter to. If n is not negative, only the first n occurrences are replaced.
func (r *render) replace(s, from, to string, n int64) string {
	hits := int64(strings.Count(s, from))
	if n >= 0 {
		hits = min(hits, n)
	}
	r.room(max(len(to)-len(from), 1), int(hits))
	r.room(1, len(s))
	return strings.Replace(s, from, to, int(hits))
}

func strJoin(r *render, self Value, a args) Value {
	return r.joinText(a.pos[0], self.(string), needText)
}

// separator returns the separator, which is the first argument. It fails if the separator is empty.
func (a *args) separator() string {
	sep := a.text(0)
	if sep == "" {
		fail("the separator must not be empty")
	}
	return sep
}

// partition returns the method partition or rpartition, which cuts a string into the text before a
// separator, the separator, and the text after it. index finds the separator: it is strings.Index
// or strings.LastIndex.
func partition(index func(s, sep string) int) func(*render, Value, args) Value {
	fromEnd := index("xx", "x") > 0
	return func(_ *render, self Value, a args) Value {
		s, sep := self.(string), a.separator()
		i := index(s, sep)
		switch {
		case i >= 0:
			return tuple{s[:i], sep, s[i+len(sep):]}
		case fromEnd:
			return tuple{"", "", s}
		}
		return tuple{s, "", ""}
	}
}

// split returns the method split or, if fromEnd is set, rsplit. They split a string at a separator
// or at white space into at most maxsplit+1 parts.
func split(fromEnd bool) func(*render, Value, args) Value {
	return func(r *render, self Value, a args) Value {
		s, limit := self.(string), a.integer(1, -1)
		if limit < 0 {
			limit = maxOutput
		}
		var parts []string
		if a.or(0, nil) == nil {
			r.list(min(fields(s), int(limit)+1))
			parts = splitSpace(s, int(limit), fromEnd)
		} else {
			sep := a.separator()
			r.list(min(strings.Count(s, sep), int(limit)) + 1)
			parts = splitAt(s, sep, int(limit), fromEnd)
		}
		return stringList(parts)
	}
}

func stringList(parts []string) []Value {
	out := make([]Value, len(parts))
	for i, p := range parts {
		out[i] = p
	}
	return out
}

func strSplitLines(r *render, self Value, a args) Value {
	return stringList(r.splitLines(self.(string), truth(a.or(0, false))))
}

func find(index func(s, sub string) int, mustFind bool) func(*render, Value, args) Value {
	return func(_ *render, self Value, a args) Value {
		s := self.(string)
		i := index(s, a.text(0))
		if i < 0 && mustFind {
			fail("the text to find does not occur in the string")
		}
		if i < 0 {
			return int64(-1)
		}
		return int64(runeCount(s[:i]))
	}
}

func strCount(_ *render, self Value, a args) Value {
	return int64(strings.Count(self.(string), a.text(0)))
}

// affix returns the method startswith or endswith. Its argument is a string, or a tuple of strings
// of which at least one must match.
func affix(has func(s, part string) bool) func(*render, Value, args) Value {
	return func(r *render, self Value, a args) Value {
		options, ok := a.pos[0].(tuple)
		if !ok {
			options = tuple{a.pos[0]}
		}
		s, found := self.(string), false
		for _, o := range options {
			part, ok := text(o)
			if !ok {
				fail("found a value of type '%s' where a string or a tuple of strings is needed", typeName(o))
			}
			r.spend(stepCost + min(len(s), len(part))/8)
			if has(s, part) {
				found = true
				break
			}
		}
		return found
	}
}
