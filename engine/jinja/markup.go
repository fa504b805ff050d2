package jinja

import (
	"html"
	"strings"
)

// Escaping is off in chat templates, but the filters safe and escape still mark a string, and joining a marked string
// with another by + escapes the other: '<b>' + x|safe starts with &lt;b&gt;. This file is what markupsafe does there.

var htmlEscapes = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;")

func isMarkup(v Value) bool {
	_, ok := v.(markup)
	return ok
}

// escaped is a string, escaped unless it is marked.
func escaped(v Value) markup {
	if m, ok := v.(markup); ok {
		return m
	}
	return markup(htmlEscapes.Replace(selfText(v)))
}

// escape is escaped for values of any type.
func (r *render) escape(v Value) (markup, error) {
	if _, ok := text(v); !ok {
		s, err := r.str(v)
		if err != nil {
			return "", err
		}
		v = s
	}
	m := escaped(v)
	return m, r.room(1, len(m))
}

// sameMarkup is s, marked if like is.
func sameMarkup(like Value, s string) Value {
	if isMarkup(like) {
		return markup(s)
	}
	return s
}

var markupMethods map[string]*builtin

// markupVariants are the methods of strings for marked ones: what comes out is marked, and what goes in escaped.
func markupVariants(methods map[string]*builtin) map[string]*builtin {
	out := map[string]*builtin{}
	for name, b := range methods {
		escapes := -1 // the argument to escape
		switch name {
		case "replace", "ljust", "rjust", "center":
			escapes = 1
		case "join":
			b = def("iterable /", markupJoin)
		}
		out[name] = &builtin{b.params, b.required, b.positionalOnly, b.variadic,
			func(r *render, self Value, a args) (Value, error) {
				if escapes >= 0 && a.or(escapes, missing) != missing {
					m, err := r.escape(a.pos[escapes])
					if err != nil {
						return nil, err
					}
					a.pos = append([]Value(nil), a.pos...)
					a.pos[escapes] = m
				}
				v, err := b.fn(r, self, a)
				return mark(v), err
			}}
	}
	return out
}

func markupJoin(r *render, self Value, a args) (Value, error) {
	it, err := r.iterate(a.pos[0])
	if err != nil {
		return nil, err
	}
	return r.joinText(it, selfText(self), func(v Value) (string, error) {
		m, err := r.escape(v)
		return string(m), err
	})
}

// mark marks a string, or the strings of a list or tuple.
func mark(v Value) Value {
	if s, ok := v.(string); ok {
		return markup(s)
	}
	items, _ := elements(v)
	for i := range items {
		items[i] = mark(items[i])
	}
	return v
}

// stripTags takes comments and tags off a string, joins what is left by single spaces and resolves entities.
func (r *render) stripTags(s string) (string, error) {
	for _, tag := range [2][2]string{{"<!--", "-->"}, {"<", ">"}} {
		for {
			start := strings.Index(s, tag[0])
			if start < 0 {
				break
			}
			length := strings.Index(s[start:], tag[1])
			if length < 0 {
				break
			}
			s = s[:start] + s[start+length+len(tag[1]):]
			if err := r.room(1, len(s)); err != nil {
				return "", err
			}
		}
	}
	if err := r.list(fields(s, isSpace)); err != nil {
		return "", err
	}
	return html.UnescapeString(strings.Join(strings.FieldsFunc(s, isSpace), " ")), nil
}
