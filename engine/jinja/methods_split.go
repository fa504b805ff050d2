package jinja

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

func strSplitLines(r *render, self Value, a args) (Value, error) {
	s := selfText(self)
	if err := r.list(mostLines(s)); err != nil {
		return nil, err
	}
	return stringList(splitLines(s, truth(a.or(0, false)))), nil
}

// mostLines is at least as many as splitLines gives.
func mostLines(s string) int {
	n := 1
	for _, c := range s {
		if isLineEnd(c) {
			n++
		}
	}
	return n
}

// fields is the number of stretches of s without a separator.
func fields(s string, isSeparator func(rune) bool) int {
	n, inside := 0, false
	for _, c := range s {
		separates := isSeparator(c)
		if !separates && !inside {
			n++
		}
		inside = !separates
	}
	return n
}

func stringList(parts []string) []Value {
	out := make([]Value, len(parts))
	for i, p := range parts {
		out[i] = p
	}
	return out
}

// partition cuts a string in three at the first or the last separator.
func partition(right bool) func(*render, Value, args) (Value, error) {
	return func(_ *render, self Value, a args) (Value, error) {
		s := selfText(self)
		sep, err := a.text(0, "")
		if err != nil {
			return nil, err
		}
		if sep == "" {
			return nil, errors.New("empty separator")
		}
		i := strings.Index(s, sep)
		if right {
			i = strings.LastIndex(s, sep)
		}
		switch {
		case i >= 0:
			return tuple{s[:i], sep, s[i+len(sep):]}, nil
		case right:
			return tuple{"", "", s}, nil
		}
		return tuple{s, "", ""}, nil
	}
}

// split splits at white space, or at a separator; from the right if asked to and there is a limit.
func split(right bool) func(*render, Value, args) (Value, error) {
	return func(r *render, self Value, a args) (Value, error) {
		s := selfText(self)
		limit, err := a.integer(1, -1)
		if err != nil {
			return nil, err
		}
		most := func(parts int) int {
			if limit < 0 {
				return parts
			}
			return int(min(int64(parts-1), limit)) + 1
		}
		if a.or(0, nil) == nil {
			if err := r.list(most(fields(s, isSpace))); err != nil {
				return nil, err
			}
			return stringList(splitSpace(s, limit, right)), nil
		}
		sep, err := a.text(0, "")
		if err != nil {
			return nil, err
		}
		if sep == "" {
			return nil, errors.New("empty separator")
		}
		if err := r.list(most(strings.Count(s, sep) + 1)); err != nil {
			return nil, err
		}
		return stringList(splitAt(s, sep, limit, right)), nil
	}
}

func splitAt(s, sep string, limit int64, right bool) []string {
	if limit < 0 || limit >= int64(len(s)) {
		return strings.Split(s, sep)
	}
	if !right {
		return strings.SplitN(s, sep, int(limit)+1)
	}
	var last []string // from the end
	for ; limit > 0; limit-- {
		i := strings.LastIndex(s, sep)
		if i < 0 {
			break
		}
		last = append(last, s[i+len(sep):])
		s = s[:i]
	}
	return backwards(append(last, s))
}

func splitSpace(s string, limit int64, right bool) []string {
	if limit < 0 {
		return strings.FieldsFunc(s, isSpace)
	}
	var parts []string
	if right {
		for s = strings.TrimRightFunc(s, isSpace); s != ""; s = strings.TrimRightFunc(s, isSpace) {
			i := strings.LastIndexFunc(s, isSpace)
			if int64(len(parts)) == limit || i < 0 {
				parts = append(parts, s)
				break
			}
			_, size := utf8.DecodeRuneInString(s[i:])
			parts = append(parts, s[i+size:])
			s = s[:i]
		}
		return backwards(parts)
	}
	for s = strings.TrimLeftFunc(s, isSpace); s != ""; s = strings.TrimLeftFunc(s, isSpace) {
		end := strings.IndexFunc(s, isSpace)
		if int64(len(parts)) == limit || end < 0 {
			return append(parts, s)
		}
		parts = append(parts, s[:end])
		s = s[end:]
	}
	return parts
}

func backwards(parts []string) []string {
	out := make([]string, len(parts))
	for i, p := range parts {
		out[len(parts)-1-i] = p
	}
	return out
}

// within is the part of s that the arguments at i and i+1 bound, and the number of characters before it. It is not ok
// if the part would start behind the end.
func within(s string, a args, i int) (part string, before int, ok bool, err error) {
	if a.or(i, nil) == nil && a.or(i+1, nil) == nil {
		return s, 0, true, nil
	}
	n := runeCount(s)
	start, _, count, err := sliceBounds([3]Value{a.or(i, nil), a.or(i+1, nil)}, n)
	if err != nil {
		return "", 0, false, err
	}
	if v, isInt := integer(a.or(i, nil)); isInt && v > int64(n) {
		return "", 0, false, nil
	}
	from := runeOffset(s, start)
	return s[from : from+runeOffset(s[from:], count)], start, true, nil
}

func find(index func(s, sub string) int, mustFind bool) func(*render, Value, args) (Value, error) {
	return func(_ *render, self Value, a args) (Value, error) {
		sub, err := a.text(0, "")
		if err != nil {
			return nil, err
		}
		part, before, ok, err := within(selfText(self), a, 1)
		if err != nil {
			return nil, err
		}
		if ok {
			if i := index(part, sub); i >= 0 {
				return int64(before + runeCount(part[:i])), nil
			}
		}
		if mustFind {
			return nil, errors.New("substring not found")
		}
		return int64(-1), nil
	}
}

func strCount(_ *render, self Value, a args) (Value, error) {
	sub, err := a.text(0, "")
	if err != nil {
		return nil, err
	}
	part, _, ok, err := within(selfText(self), a, 1)
	if !ok || err != nil {
		return int64(0), err
	}
	return int64(strings.Count(part, sub)), nil
}

// affix is startswith or endswith, of one string or of any in a tuple.
func affix(has func(s, part string) bool) func(*render, Value, args) (Value, error) {
	return func(r *render, self Value, a args) (Value, error) {
		part, _, ok, err := within(selfText(self), a, 1)
		if err != nil {
			return nil, err
		}
		options, isTuple := a.pos[0].(tuple)
		if !isTuple {
			options = tuple{a.pos[0]}
		}
		for _, o := range options {
			if err := r.step(); err != nil {
				return nil, err
			}
			s, isText := text(o)
			if !isText {
				return nil, fmt.Errorf("a string or a tuple of strings is needed, not '%s'", typeName(o))
			}
			if err := r.spend(min(len(part), len(s)) / 8); err != nil {
				return nil, err
			}
			if ok && has(part, s) {
				return true, nil
			}
		}
		return false, nil
	}
}
