package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ingot-run/ingot/ordered"
)

// jsonWriter writes a value as Python's json.dumps does.
type jsonWriter struct {
	r          *render
	out        []byte
	ascii      bool    // ensure_ascii
	sorted     bool    // sort_keys
	indent     *string // of one level; nil to write all on one line
	comma, col string
	depth      int
	charged    int // length of out that the budget has paid for
}

// charge makes the budget pay for what was written since the last call.
func (w *jsonWriter) charge() error {
	n := len(w.out) - w.charged
	w.charged = len(w.out)
	if err := w.r.fits(w.charged); err != nil {
		return err
	}
	return w.r.spend(n)
}

// filterToJSON is the filter that transformers puts in place of Jinja's: it does not escape HTML and keeps the keys'
// order.
func filterToJSON(r *render, v Value, a args) (Value, error) {
	w := jsonWriter{r: r, ascii: truth(a.or(0, false)), sorted: truth(a.or(3, false)), comma: ", ", col: ": "}
	switch indent := a.or(1, nil).(type) {
	case nil:
	case string:
		w.indent = &indent
	default:
		n, ok := integer(indent)
		if !ok || n > maxOutput {
			return nil, fmt.Errorf("indent must be a number or a string, not %s", typeName(indent))
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
			return nil, errors.New("separators must be two strings")
		}
		var ok1, ok2 bool
		w.comma, ok1 = text(pair[0])
		w.col, ok2 = text(pair[1])
		if !ok1 || !ok2 {
			return nil, errors.New("separators must be two strings")
		}
	}
	if err := w.value(v); err != nil {
		return nil, err
	}
	return string(w.out), nil
}

func (w *jsonWriter) value(v Value) error {
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
		return w.object(v)
	default:
		items, ok := elements(v)
		if !ok {
			return fmt.Errorf("object of type %s is not JSON serializable", typeName(v))
		}
		return w.array(items)
	}
	return w.charge()
}

func (w *jsonWriter) array(items []Value) error {
	if len(items) == 0 {
		w.out = append(w.out, "[]"...)
		return w.charge()
	}
	if err := w.open('['); err != nil {
		return err
	}
	for i, item := range items {
		if err := w.next(i); err != nil {
			return err
		}
		if err := w.value(item); err != nil {
			return err
		}
	}
	return w.close(']')
}

func (w *jsonWriter) object(o *ordered.Object) error {
	if o.Len() == 0 {
		w.out = append(w.out, "{}"...)
		return w.charge()
	}
	keys := o.Keys()
	if w.sorted {
		var failed error
		slices.SortStableFunc(keys, func(a, b string) int {
			c, err := w.r.order(loadedKey(a), loadedKey(b))
			if err != nil {
				failed = err
			}
			return int(c)
		})
		if failed != nil {
			return failed
		}
	}
	if err := w.open('{'); err != nil {
		return err
	}
	for i, key := range keys {
		if err := w.next(i); err != nil {
			return err
		}
		w.out = appendJSONString(w.out, strings.TrimPrefix(key, intKey), w.ascii)
		w.out = append(w.out, w.col...)
		value, _ := o.Get(key)
		if err := w.value(value); err != nil {
			return err
		}
	}
	return w.close('}')
}

func (w *jsonWriter) open(c byte) error {
	w.depth++
	if w.depth > maxDepth {
		return errDepth
	}
	w.out = append(w.out, c)
	return nil
}

// next starts the element with the given place.
func (w *jsonWriter) next(i int) error {
	if i > 0 {
		w.out = append(w.out, w.comma...)
	}
	return w.newline()
}

func (w *jsonWriter) close(c byte) error {
	w.depth--
	if err := w.newline(); err != nil {
		return err
	}
	w.out = append(w.out, c)
	return w.charge()
}

func (w *jsonWriter) newline() error {
	if w.indent == nil {
		return w.charge()
	}
	if err := w.r.room(len(*w.indent), w.depth); err != nil {
		return err
	}
	w.out = append(w.out, '\n')
	for range w.depth {
		w.out = append(w.out, *w.indent...)
	}
	return w.charge()
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
