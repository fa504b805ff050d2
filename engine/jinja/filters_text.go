package jinja

import (
	"strings"
	"unicode/utf8"
)

// mapped returns a filter or method that applies fn to a string. It converts any other value to a
// string first.
func mapped(fn func(string) string) *builtin {
	return def("/", func(r *render, v Value, _ args) Value {
		s := fn(r.str(v))
		r.spend(len(s))
		return s
	})
}

func filterString(r *render, v Value, _ args) Value {
	if is[markup](v) {
		return v
	}
	return r.str(v)
}

// titleWords returns the result of Jinja's filter title. A word starts at the beginning or after
// white space, - ( { [ or <.
func titleWords(s string) string {
	isSeparator := func(r rune) bool { return isSpace(r) || strings.ContainsRune("-({[<", r) }
	var b strings.Builder
	for s != "" {
		_, first := utf8.DecodeRuneInString(s)
		end := strings.IndexFunc(s, isSeparator)
		if end == 0 {
			end = len(s) - len(strings.TrimLeftFunc(s, isSeparator))
		} else if end < 0 {
			end = len(s)
		}
		b.WriteString(upper(s[:first]))
		b.WriteString(lower(s[first:end]))
		s = s[end:]
	}
	return b.String()
}

func filterReplace(r *render, v Value, a args) Value {
	n := int64(-1)
	if a.or(2, nil) != nil {
		n = a.integer(2, -1)
	}
	return r.replace(r.str(v), r.str(a.pos[0]), r.str(a.pos[1]), n)
}

func filterJoin(r *render, v Value, a args) Value {
	g := newGetter(a.or(1, nil), true)
	return r.joinText(v, r.str(a.or(0, "")), func(item Value) string { return r.str(g.get(r, item)) })
}

func (r *render) joinText(v Value, sep string, shown func(Value) string) string {
	it := r.iterate(v)
	var b strings.Builder
	for first := true; ; first = false {
		item, ok := it.step()
		if !ok {
			return b.String()
		}
		s := shown(item)
		if !first {
			b.WriteString(sep)
		}
		b.WriteString(s)
		r.fits(b.Len())
		r.spend(len(s) + len(sep) + 1)
	}
}

// filterFormat is the filter format: the operator % with a string on the left and the filter's
// arguments on the right.
func filterFormat(r *render, v Value, a args) Value {
	if len(a.named) > 0 {
		fail("the filter format with named arguments is not supported")
	}
	return r.percent(r.str(v), tuple(a.pos))
}

func filterIndent(r *render, v Value, a args) Value {
	s := needText(v)
	by, isText := text(a.or(0, nil))
	if !isText {
		n := int(min(max(a.integer(0, 4), 0), maxOutput+1))
		r.room(1, n)
		by = strings.Repeat(" ", n)
	}
	lines := r.splitLines(s+"\n", false)
	r.room(len(by)+1, len(lines))
	first, blank := truth(a.or(1, false)), truth(a.or(2, false))
	var b strings.Builder
	for i, line := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		if i == 0 && first || i > 0 && (blank || line != "") {
			b.WriteString(by)
		}
		b.WriteString(line)
	}
	return b.String()
}
