package jinja

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ingot-run/ingot/internal/ordered"
)

type jsonWriter struct {
	r          *render
	out        []byte
	ascii      bool    // ensure_ascii
	sorted     bool    // sort_keys
	indent     *string // indentation of one level; nil to write everything on one line
	comma, col string  // separators between elements, and between a key and its value
	depth      int
	charged    int // number of bytes in the field out whose cost was subtracted from the budget
}

// charge subtracts from the budget the cost of the bytes that were written since the last call.
func (w *jsonWriter) charge() {
	n := len(w.out) - w.charged
	w.charged = len(w.out)
	w.r.fits(w.charged)
	w.r.spend(n)
}

// filterToJSON is the filter tojson of transformers. Unlike Jinja's, it does not escape HTML and
// keeps the order of keys.
func filterToJSON(r *render, v Value, a args) Value {
	w := jsonWriter{r: r, ascii: truth(a.or(0, false)), sorted: truth(a.or(3, false)), comma: ", ", col: ": "}
	switch indent := a.or(1, nil).(type) {
	case nil:
	case string:
		w.indent = &indent
	default:
		n, ok := integer(indent)
		if !ok || n > maxOutput {
			fail("tojson: indent must be a string or an integer up to %d", maxOutput)
		}
		s := strings.Repeat(" ", int(max(n, 0)))
		w.indent = &s
	}
	if w.indent != nil {
		w.comma = ","
	}
	if separators := a.or(2, nil); separators != nil {
		pair, _ := elements(separators)
		if len(pair) != 2 {
			fail("tojson: separators must be a list of two strings")
		}
		w.comma, w.col = needText(pair[0]), needText(pair[1])
	}
	w.value(v)
	return string(w.out)
}

func (w *jsonWriter) value(v Value) {
	switch v := v.(type) {
	case nil:
		w.out = append(w.out, "null"...)
	case bool:
		w.out = strconv.AppendBool(w.out, v)
	case int64:
		w.out = strconv.AppendInt(w.out, v, 10)
	case *big.Int:
		w.out = v.Append(w.out, 10)
	case float64:
		w.out = append(w.out, jsonFloat(v)...)
	case string:
		w.out = appendJSONString(w.out, v, w.ascii)
	case markup:
		w.out = appendJSONString(w.out, string(v), w.ascii)
	case *ordered.Object:
		w.object(v)
	default:
		items, ok := elements(v)
		if !ok {
			fail("tojson: a value of type '%s' cannot be written as JSON", typeName(v))
		}
		w.open('[')
		for i, item := range items {
			w.next(i)
			w.value(item)
		}
		w.close(']', len(items))
	}
	w.charge()
}

func (w *jsonWriter) object(o *ordered.Object) {
	w.open('{')
	if w.sorted {
		o = w.sortedKeys(o)
	}
	i := 0
	for key, value := range o.All() {
		w.next(i)
		w.out = append(appendJSONString(w.out, strings.TrimPrefix(key, intKey), w.ascii), w.col...)
		w.value(value)
		i++
	}
	w.close('}', i)
}

func (w *jsonWriter) sortedKeys(o *ordered.Object) *ordered.Object {
	keys := o.Keys()
	w.r.list(2 * len(keys))
	slices.SortFunc(keys, func(a, b string) int { return int(w.r.order(loadedKey(a), loadedKey(b))) })
	out := ordered.NewObject()
	for _, key := range keys {
		value, _ := o.Get(key)
		out.Set(key, value)
	}
	return out
}

func (w *jsonWriter) open(c byte) {
	w.depth++
	if w.depth > maxDepth {
		failWith(errDepth)
	}
	w.out = append(w.out, c)
}

func (w *jsonWriter) next(i int) {
	if i > 0 {
		w.out = append(w.out, w.comma...)
	}
	w.newline()
}

func (w *jsonWriter) close(c byte, n int) {
	w.depth--
	if n > 0 {
		w.newline()
	}
	w.out = append(w.out, c)
}

func (w *jsonWriter) newline() {
	if w.indent != nil {
		w.r.room(len(*w.indent), w.depth)
		w.out = append(w.out, '\n')
		for range w.depth {
			w.out = append(w.out, *w.indent...)
		}
	}
	w.charge()
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return formatFloat(f)
}

func appendJSONString(out []byte, s string, ascii bool) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && (c < 0x7f || !ascii) {
			i++
			continue
		}
		out = append(out, s[start:i]...)
		size := 1
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c == '\n':
			out = append(out, `\n`...)
		case c == '\r':
			out = append(out, `\r`...)
		case c == '\t':
			out = append(out, `\t`...)
		case c == '\b':
			out = append(out, `\b`...)
		case c == '\f':
			out = append(out, `\f`...)
		case c < ' ':
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			var char rune
			char, size = utf8.DecodeRuneInString(s[i:])
			for _, unit := range utf16.Encode([]rune{char}) {
				out = append(out, '\\', 'u', hex[unit>>12], hex[unit>>8&15], hex[unit>>4&15], hex[unit&15])
			}
		}
		i += size
		start = i
	}
	out = append(out, s[start:]...)
	return append(out, '"')
}
