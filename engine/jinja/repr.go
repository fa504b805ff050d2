package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ingot-run/ingot/internal/ordered"
)

// str returns Python's str of a value, which is what a template prints.
func (r *render) str(v Value) string {
	switch v := v.(type) {
	case string:
		return v
	case markup:
		return string(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case *undefined:
		v.loose()
		return ""
	}
	return r.repr(v)
}

// Str returns a value as a template prints it. The value must have one of the types of
// ordered.Value, and must be neither a list nor a dictionary.
func Str(v Value) string {
	r := newRender(&Template{}, nil, time.Time{})
	defer r.release()
	return r.str(v)
}

func (r *render) repr(v Value) string { return string(r.appendRepr(nil, v)) }

func (r *render) appendRepr(out []byte, v Value) []byte {
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
	case []Value:
		return r.appendItems(out, "[", "]", v)
	case tuple:
		if len(v) == 1 {
			return r.appendItems(out, "(", ",)", v)
		}
		return r.appendItems(out, "(", ")", v)
	case *ordered.Object:
		return r.appendObject(out, v)
	case *namespace:
		return append(r.appendObject(append(out, "<Namespace "...), v.attrs), '>')
	case *view:
		return r.appendItems(append(out, v.kind...), "([", "])", v.items())
	case *span:
		out = fmt.Appendf(out, "range(%d, %d", v.start, v.stop)
		if v.step != 1 {
			out = fmt.Appendf(out, ", %d", v.step)
		}
		out = append(out, ')')
	case *undefined:
		out = append(out, "Undefined"...)
	case markup, *iterator, *macro, *function, *loopContext:
		fail("a value of type '%s' cannot be printed", typeName(v))
	default:
		fail("a value of %s cannot be used in a template", typeName(v))
	}
	r.room(1, len(out)-start)
	return out
}

func (r *render) appendItems(out []byte, open, end string, items []Value) []byte {
	r.nest()
	defer r.unnest()
	out = append(out, open...)
	for i, item := range items {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = r.appendRepr(out, item)
		r.fits(len(out))
	}
	r.spend(2 * len(items))
	return append(out, end...)
}

func (r *render) appendObject(out []byte, o *ordered.Object) []byte {
	r.nest()
	defer r.unnest()
	out = append(out, '{')
	first := true
	for key, value := range entries(o) {
		if !first {
			out = append(out, ", "...)
		}
		first = false
		out = append(r.appendRepr(out, key), ": "...)
		out = r.appendRepr(out, value)
		r.fits(len(out))
	}
	r.spend(4 * o.Len())
	return append(out, '}')
}

// formatFloat returns Python's repr of a float: the shortest decimal number that parses to the same
// float. It has an exponent if the magnitude is below 1e-4 or at least 1e16.
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
		case unicode.IsPrint(c):
			out = utf8.AppendRune(out, c)
		case c < 0x100:
			out = fmt.Appendf(out, `\x%02x`, c)
		case c < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = fmt.Appendf(out, `\U%08x`, c)
		}
	}
	return append(out, quote)
}
