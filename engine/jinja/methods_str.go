package jinja

import (
	"errors"
	"fmt"
	"strings"
)

var strMethods map[string]*builtin

func init() {
	strMethods = map[string]*builtin{
		"upper":      mapped(upper),
		"lower":      mapped(lower),
		"casefold":   mapped(casefold),
		"title":      mapped(title),
		"capitalize": mapped(capitalize),
		"swapcase":   mapped(swapCase),

		"strip":        def("chars? /", strip(strings.TrimFunc)),
		"lstrip":       def("chars? /", strip(strings.TrimLeftFunc)),
		"rstrip":       def("chars? /", strip(strings.TrimRightFunc)),
		"removeprefix": def("prefix /", remove(strings.TrimPrefix)),
		"removesuffix": def("suffix /", remove(strings.TrimSuffix)),

		"split":      def("sep? maxsplit?", split(false)),
		"rsplit":     def("sep? maxsplit?", split(true)),
		"splitlines": def("keepends?", strSplitLines),
		"partition":  def("sep /", partition(false)),
		"rpartition": def("sep /", partition(true)),

		"find":       def("sub start? end? /", find(strings.Index, false)),
		"rfind":      def("sub start? end? /", find(strings.LastIndex, false)),
		"index":      def("sub start? end? /", find(strings.Index, true)),
		"rindex":     def("sub start? end? /", find(strings.LastIndex, true)),
		"count":      def("sub start? end? /", strCount),
		"startswith": def("prefix start? end? /", affix(strings.HasPrefix)),
		"endswith":   def("suffix start? end? /", affix(strings.HasSuffix)),

		"replace":    def("old new count? /", strReplace),
		"join":       def("iterable /", strJoin),
		"center":     def("width fillchar? /", pad(center)),
		"ljust":      def("width fillchar? /", pad(func(n, _ int) int { return 0 })),
		"rjust":      def("width fillchar? /", pad(func(n, _ int) int { return n })),
		"zfill":      def("width /", zfill),
		"expandtabs": def("tabsize?", expandTabs),

		"format":     def("*", strFormat),
		"format_map": def("mapping /", strFormatMap),

		"isalpha":   is(func(s string) bool { return every(s, isAlpha) }),
		"isalnum":   is(func(s string) bool { return every(s, isAlnum) }),
		"isdecimal": is(func(s string) bool { return every(s, isDecimal) }),
		"isdigit":   is(func(s string) bool { return every(s, isDigit) }),
		"isnumeric": is(func(s string) bool { return every(s, isNumeric) }),
		"isspace":   is(func(s string) bool { return every(s, isSpace) }),
		"islower":   is(func(s string) bool { return hasCase(s, isLowerCase) }),
		"isupper":   is(func(s string) bool { return hasCase(s, isUpperCase) }),
		"istitle":   is(isTitled),
		"isascii":   is(isASCII),
		"isprintable": is(func(s string) bool {
			return s == "" || every(s, isPrintable)
		}),
		"isidentifier": is(func(s string) bool { return s != "" && nameLength(s) == len(s) }),
	}
	markupMethods = markupVariants(strMethods)
}

// selfText is the string that a method is applied to.
func selfText(v Value) string {
	s, _ := text(v)
	return s
}

// mapped is a method without arguments that gives a string.
func mapped(fn func(string) string) *builtin {
	return def("/", func(r *render, self Value, _ args) (Value, error) {
		s := fn(selfText(self))
		return s, r.spend(len(s))
	})
}

// is is a method without arguments that gives a bool.
func is(fn func(string) bool) *builtin {
	return def("/", func(_ *render, self Value, _ args) (Value, error) { return fn(selfText(self)), nil })
}

func strip(trim func(s string, in func(rune) bool) string) func(*render, Value, args) (Value, error) {
	return func(r *render, self Value, a args) (Value, error) {
		if a.or(0, nil) == nil {
			return trim(selfText(self), isSpace), nil
		}
		chars, err := a.text(0, "")
		if err != nil {
			return nil, err
		}
		set := map[rune]bool{}
		for _, c := range chars {
			set[c] = true
		}
		return trim(selfText(self), func(c rune) bool { return set[c] }), r.spend(len(chars))
	}
}

func remove(fn func(s, affix string) string) func(*render, Value, args) (Value, error) {
	return func(_ *render, self Value, a args) (Value, error) {
		part, err := a.text(0, "")
		return fn(selfText(self), part), err
	}
}

func strReplace(r *render, self Value, a args) (Value, error) {
	from, err := a.text(0, "")
	if err != nil {
		return nil, err
	}
	to, err := a.text(1, "")
	if err != nil {
		return nil, err
	}
	n, err := a.integer(2, -1)
	if err != nil {
		return nil, err
	}
	return r.replace(selfText(self), from, to, n)
}

func (r *render) replace(s, from, to string, n int64) (Value, error) {
	hits := int64(strings.Count(s, from))
	if n >= 0 {
		hits = min(hits, n)
	}
	if err := r.room(max(len(to)-len(from), 1), int(hits)); err != nil {
		return nil, err
	}
	return strings.Replace(s, from, to, int(hits)), r.room(1, len(s))
}

func strJoin(r *render, self Value, a args) (Value, error) {
	it, err := r.iterate(a.pos[0])
	if err != nil {
		return nil, err
	}
	return r.joinText(it, selfText(self), func(v Value) (string, error) {
		s, ok := text(v)
		if !ok {
			return "", fmt.Errorf("a string is needed, not '%s'", typeName(v))
		}
		return s, nil
	})
}

// joinText joins what shown makes of the elements.
func (r *render) joinText(it cursor, sep string, shown func(Value) (string, error)) (string, error) {
	var b strings.Builder
	for first := true; ; first = false {
		v, ok, err := it.step()
		if err != nil || !ok {
			return b.String(), err
		}
		s, err := shown(v)
		if err != nil {
			return "", err
		}
		if !first {
			b.WriteString(sep)
		}
		b.WriteString(s)
		if err := r.fits(b.Len()); err != nil {
			return "", err
		}
		if err := r.spend(len(s) + len(sep) + 1); err != nil {
			return "", err
		}
	}
}

// center is how many of n fill characters stand on the left, as CPython has it.
func center(n, width int) int { return n/2 + n&width&1 }

// pad fills a string up to a width. before says how many of n fill characters stand on the left.
func pad(before func(n, width int) int) func(*render, Value, args) (Value, error) {
	return func(r *render, self Value, a args) (Value, error) {
		width, err := a.integer(0, 0)
		if err != nil {
			return nil, err
		}
		fill, err := a.text(1, " ")
		if err != nil {
			return nil, err
		}
		if runeCount(fill) != 1 {
			return nil, errors.New("the fill character must be exactly one character long")
		}
		s := selfText(self)
		n := min(width, maxOutput+1) - int64(runeCount(s))
		if n <= 0 {
			return s, nil
		}
		if err := r.room(len(fill), int(n)); err != nil {
			return nil, err
		}
		left := before(int(n), int(width))
		return strings.Repeat(fill, left) + s + strings.Repeat(fill, int(n)-left), nil
	}
}

func zfill(r *render, self Value, a args) (Value, error) {
	width, err := a.integer(0, 0)
	if err != nil {
		return nil, err
	}
	s := selfText(self)
	n := int(min(width, maxOutput+1)) - runeCount(s)
	if n <= 0 {
		return s, nil
	}
	if err := r.room(1, n); err != nil {
		return nil, err
	}
	if strings.HasPrefix(s, "+") || strings.HasPrefix(s, "-") {
		return s[:1] + strings.Repeat("0", n) + s[1:], nil
	}
	return strings.Repeat("0", n) + s, nil
}

func expandTabs(r *render, self Value, a args) (Value, error) {
	size, err := a.integer(0, 8)
	if err != nil {
		return nil, err
	}
	s := selfText(self)
	size = min(max(size, 0), maxOutput)
	if err := r.room(int(size), strings.Count(s, "\t")); err != nil {
		return nil, err
	}
	var b strings.Builder
	column := int64(0)
	for _, c := range s {
		switch c {
		case '\t':
			if size > 0 {
				n := size - column%size
				b.WriteString(strings.Repeat(" ", int(n)))
				column += n
			}
			continue
		case '\n', '\r':
			column = -1
		}
		b.WriteRune(c)
		column++
	}
	return b.String(), nil
}
