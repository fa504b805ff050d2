package jinja

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ingot-run/ingot/ordered"
)

// textFilter is a filter of a string; any other value is printed first.
func textFilter(fn func(string) string) *builtin {
	return def("", func(r *render, v Value, _ args) (Value, error) {
		s, err := r.str(v)
		if err != nil {
			return nil, err
		}
		s = fn(s)
		return sameMarkup(v, s), r.spend(len(s))
	})
}

// softMethod is a filter that calls a method of the value as a string.
func softMethod(name string) func(*render, Value, args) (Value, error) {
	return func(r *render, v Value, a args) (Value, error) {
		s, err := r.str(v)
		if err != nil {
			return nil, err
		}
		out, err := strMethods[name].fn(r, s, a)
		if isMarkup(v) {
			out = mark(out)
		}
		return out, err
	}
}

func filterCenter(r *render, v Value, a args) (Value, error) {
	return softMethod("center")(r, v, args{pos: []Value{a.or(0, int64(80))}})
}

// titleWords is Jinja's title, whose words start after white space, - ( { [ and <.
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

func filterReplace(r *render, v Value, a args) (Value, error) {
	var words [3]string // the text, what to look for and what to put in its place
	for i, w := range []Value{v, a.pos[0], a.pos[1]} {
		var err error
		if words[i], err = r.str(w); err != nil {
			return nil, err
		}
	}
	n := int64(-1)
	if a.or(2, nil) != nil {
		var err error
		if n, err = a.integer(2, -1); err != nil {
			return nil, err
		}
	}
	return r.replace(words[0], words[1], words[2], n)
}

func filterJoin(r *render, v Value, a args) (Value, error) {
	sep, err := r.str(a.or(0, ""))
	if err != nil {
		return nil, err
	}
	it, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	g := newGetter(a.or(1, nil), true)
	return r.joinText(it, sep, func(item Value) (string, error) {
		got, err := g.get(r, item)
		if err != nil {
			return "", err
		}
		return r.str(got)
	})
}

func filterFormat(r *render, v Value, a args) (Value, error) {
	s, err := r.str(v)
	if err != nil {
		return nil, err
	}
	if len(a.named) == 0 {
		return r.percent(v, s, tuple(a.pos))
	}
	if len(a.pos) > 0 {
		return nil, errors.New("can't handle positional and keyword arguments at the same time")
	}
	o := ordered.NewObject()
	for _, n := range a.named {
		o.Set(n.name, n.value)
	}
	return r.percent(v, s, o)
}

func filterIndent(r *render, v Value, a args) (Value, error) {
	s, ok := text(v)
	if !ok {
		return nil, fmt.Errorf("a string is needed, not '%s'", typeName(v))
	}
	by, isText := text(a.or(0, nil))
	if !isText {
		n, err := a.integer(0, 4)
		if err != nil {
			return nil, err
		}
		n = max(n, 0)
		if err := r.room(1, int(min(n, maxOutput+1))); err != nil {
			return nil, err
		}
		by = strings.Repeat(" ", int(n))
	}
	if err := r.list(mostLines(s)); err != nil {
		return nil, err
	}
	lines := splitLines(s+"\n", false)
	if err := r.room(len(by)+1, len(lines)); err != nil {
		return nil, err
	}
	blank := truth(a.or(2, false))
	var b strings.Builder
	for i, line := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		if i == 0 && truth(a.or(1, false)) || i > 0 && (blank || line != "") {
			b.WriteString(by)
		}
		b.WriteString(line)
	}
	return sameMarkup(v, b.String()), nil
}

func filterTruncate(r *render, v Value, a args) (Value, error) {
	n, err := r.length(v)
	if err != nil {
		return nil, err
	}
	length, err := a.integer(0, 255)
	if err != nil {
		return nil, err
	}
	end, err := a.text(2, "...")
	if err != nil {
		return nil, err
	}
	leeway := int64(5)
	if a.or(3, nil) != nil {
		if leeway, err = a.integer(3, 5); err != nil {
			return nil, err
		}
	}
	keep := length - int64(runeCount(end))
	if keep < 0 || leeway < 0 {
		return nil, fmt.Errorf("expected length >= %d and leeway >= 0, got %d and %d", runeCount(end), length, leeway)
	}
	if int64(n)-length <= leeway {
		return v, nil
	}
	s, ok := text(v)
	if !ok {
		return nil, fmt.Errorf("a string is needed, not '%s'", typeName(v))
	}
	s = s[:runeOffset(s, int(keep))]
	if i := strings.LastIndexByte(s, ' '); i >= 0 && !truth(a.or(1, false)) {
		s = s[:i]
	}
	if isMarkup(v) {
		return markup(s) + escaped(a.or(2, end)), nil
	}
	return s + end, r.room(1, len(s)+len(end))
}

func filterWordCount(r *render, v Value, _ args) (Value, error) {
	s, err := r.str(v)
	return int64(fields(s, func(c rune) bool { return c != '_' && !isAlnum(c) })), err
}

func filterStripTags(r *render, v Value, _ args) (Value, error) {
	s, err := r.str(v)
	if err != nil {
		return nil, err
	}
	return r.stripTags(s)
}

func filterSafe(r *render, v Value, _ args) (Value, error) {
	s, err := r.str(v)
	return markup(s), err
}

// filterURLEncode quotes a string for a URL, or makes a query of a dictionary or of pairs.
func filterURLEncode(r *render, v Value, _ args) (Value, error) {
	_, isText := text(v)
	items, err := r.items(v)
	if isText || err != nil {
		s, err := r.str(v)
		return urlQuote(s, "/"), err
	}
	if o, ok := v.(*ordered.Object); ok {
		items = (&view{"dict_items", o}).items()
	}
	var b strings.Builder
	for i, item := range items {
		pair, err := r.items(item)
		if err != nil {
			return nil, err
		}
		if len(pair) != 2 {
			return nil, errors.New("a query needs pairs of key and value")
		}
		if i > 0 {
			b.WriteByte('&')
		}
		for k, word := range pair {
			s, err := r.str(word)
			if err != nil {
				return nil, err
			}
			if k > 0 {
				b.WriteByte('=')
			}
			b.WriteString(strings.ReplaceAll(urlQuote(s, ""), "%20", "+"))
			if err := r.room(1, 4*len(s)+1); err != nil {
				return nil, err
			}
		}
	}
	return b.String(), nil
}

func urlQuote(s, safe string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c < utf8.RuneSelf && isAlnum(rune(c)) || strings.IndexByte("_.-~"+safe, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
	return b.String()
}
