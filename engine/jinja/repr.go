package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ingot-run/ingot/ordered"
)

// str is Python's str of a value, which is what a template prints.
func (r *render) str(v Value) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case markup:
		return string(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case *undefined:
		return "", nil
	}
	return r.repr(v)
}

// repr is Python's repr of a value.
func (r *render) repr(v Value) (string, error) {
	out, err := r.appendRepr(nil, v)
	return string(out), err
}

func (r *render) appendRepr(out []byte, v Value) ([]byte, error) {
	start := len(out)
	switch v := v.(type) {
	case nil:
		out = append(out, "None"...)
	case bool:
		if v {
			out = append(out, "True"...)
		} else {
			out = append(out, "False"...)
		}
	case int64:
		out = strconv.AppendInt(out, v, 10)
	case *big.Int:
		out = v.Append(out, 10)
	case float64:
		out = append(out, formatFloat(v)...)
	case string:
		out = appendQuoted(out, v)
	case markup:
		out = append(appendQuoted(append(out, "Markup("...), string(v)), ')')
	case []Value:
		return r.appendItems(out, "[", "]", v)
	case tuple:
		return r.appendTuple(out, v)
	case group:
		return r.appendTuple(out, tuple(v))
	case *ordered.Object:
		return r.appendObject(out, v)
	case *namespace:
		out, err := r.appendObject(append(out, "<Namespace "...), v.attrs)
		return append(out, '>'), err
	case *view:
		out, err := r.appendItems(append(out, v.kind...), "([", "])", v.items())
		return out, err
	case *span:
		out = fmt.Appendf(out, "range(%d, %d", v.start, v.stop)
		if v.step != 1 {
			out = fmt.Appendf(out, ", %d", v.step)
		}
		out = append(out, ')')
	case *undefined:
		out = append(out, "Undefined"...)
	case *macro:
		name := "anonymous"
		if v.def.name != "" {
			name = string(appendQuoted(nil, v.def.name))
		}
		out = fmt.Appendf(out, "<Macro %s>", name)
	case *loopContext:
		n, err := v.length()
		if err != nil {
			return out, err
		}
		out = fmt.Appendf(out, "<LoopContext %d/%d>", v.index+1, n)
	case *iterator, *function, *cycler:
		out = fmt.Appendf(out, "<%s object>", typeName(v))
	default:
		return out, fmt.Errorf("a value of %s cannot be used in a template", typeName(v))
	}
	return out, r.room(1, len(out)-start)
}

func (r *render) appendTuple(out []byte, items tuple) ([]byte, error) {
	if len(items) == 1 {
		return r.appendItems(out, "(", ",)", items)
	}
	return r.appendItems(out, "(", ")", items)
}

func (r *render) appendItems(out []byte, open, end string, items []Value) ([]byte, error) {
	if err := r.nest(); err != nil {
		return out, err
	}
	defer r.unnest()
	out = append(out, open...)
	for i, item := range items {
		if i > 0 {
			out = append(out, ", "...)
		}
		var err error
		if out, err = r.appendRepr(out, item); err != nil {
			return out, err
		}
		if err := r.fits(len(out)); err != nil {
			return out, err
		}
	}
	return append(out, end...), r.spend(2 * len(items))
}

func (r *render) appendObject(out []byte, o *ordered.Object) ([]byte, error) {
	if err := r.nest(); err != nil {
		return out, err
	}
	defer r.unnest()
	out = append(out, '{')
	first := true
	for key, value := range entries(o) {
		if !first {
			out = append(out, ", "...)
		}
		first = false
		var err error
		if out, err = r.appendRepr(out, key); err != nil {
			return out, err
		}
		out = append(out, ": "...)
		if out, err = r.appendRepr(out, value); err != nil {
			return out, err
		}
		if err := r.fits(len(out)); err != nil {
			return out, err
		}
	}
	return append(out, '}'), r.spend(4 * o.Len())
}

// formatFloat is Python's repr of a float: the shortest digits that give the float back, with an exponent from 1e16 on
// and below 1e-4.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// appendQuoted is Python's repr of a string.
func appendQuoted(out []byte, s string) []byte {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	out = append(out, quote)
	for _, c := range s {
		switch {
		case c == rune(quote) || c == '\\':
			out = append(out, '\\', byte(c))
		case c == '\n':
			out = append(out, `\n`...)
		case c == '\r':
			out = append(out, `\r`...)
		case c == '\t':
			out = append(out, `\t`...)
		case isPrintable(c):
			out = utf8.AppendRune(out, c)
		default:
			out = appendEscaped(out, c)
		}
	}
	return append(out, quote)
}

// appendEscaped writes a character by its code.
func appendEscaped(out []byte, c rune) []byte {
	switch {
	case c < 0x100:
		return fmt.Appendf(out, `\x%02x`, c)
	case c < 0x10000:
		return fmt.Appendf(out, `\u%04x`, c)
	}
	return fmt.Appendf(out, `\U%08x`, c)
}

// ascii is a repr in which every character is ASCII.
func ascii(repr string) string {
	var out []byte
	for _, c := range repr {
		if c < utf8.RuneSelf {
			out = append(out, byte(c))
		} else {
			out = appendEscaped(out, c)
		}
	}
	return string(out)
}
