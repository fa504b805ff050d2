package jinja

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

type piece struct {
	text  string
	field string // for the operator %, a format of Go's fmt; for the method format, the name or index of an argument
	verb  byte   // s, d or f; 0 for the method format without :d
	last  bool   // the format ends without a field
}

// percentField matches the supported fields of the operator %. Their flags have the same meaning in
// Go's fmt.
var percentField = regexp.MustCompile(`^%(?:-?\d{0,3}(?:\.\d{1,3})?s|[-+ 0]*\d{0,3}[di]|[-+ 0]*\d{0,3}(?:\.\d{1,3})?f)`)

func percentPieces(format string) ([]piece, error) {
	return formatted(format, "%", func(rest string) (piece, int, error) {
		given := percentField.FindString(rest)
		if given == "" {
			return piece{}, 0, unsupported(fmt.Sprintf("the format field at the start of %.10q is", rest), "%s, %d or %f")
		}
		field := strings.TrimSuffix(given, "i")
		if !strings.HasSuffix(field, "s") && !strings.HasSuffix(field, "f") {
			field = strings.TrimSuffix(field, "d") + "d"
		}
		return piece{field: field, verb: field[len(field)-1]}, len(given), nil
	})
}

// formatted splits a format into pieces. A field begins with one of the characters in marks; twice
// such a character stands for the character itself. read returns the field at the start of a text,
// and its length.
func formatted(format, marks string, read func(rest string) (field piece, length int, err error)) ([]piece, error) {
	var out []piece
	var text strings.Builder
	for {
		i := strings.IndexAny(format, marks)
		if i < 0 {
			return append(out, piece{text: text.String() + format, last: true}), nil
		}
		text.WriteString(format[:i])
		format = format[i:]
		if len(format) > 1 && format[0] == format[1] {
			text.WriteByte(format[0])
			format = format[2:]
			continue
		}
		p, length, err := read(format)
		if err != nil {
			return nil, err
		}
		p.text = text.String()
		out = append(out, p)
		text.Reset()
		format = format[length:]
	}
}

func (r *render) percent(format string, v Value) string {
	r.spend(len(format))
	items, ok := v.(tuple)
	if !ok {
		items = tuple{v}
	}
	var out []byte
	for _, p := range must(percentPieces(format)) {
		out = append(out, p.text...)
		r.spend(len(p.text) + stepCost)
		switch {
		case p.last && len(items) > 0 && isConverted(v):
			fail("the format has fewer fields than values")
		case p.last:
			continue
		case len(items) == 0:
			fail("the format has more fields than values")
		}
		out = fmt.Appendf(out, p.field, r.converted(p.verb, items[0]))
		items = items[1:]
		r.fits(len(out))
	}
	r.spend(len(out))
	return string(out)
}

// isConverted reports whether Python's operator % fails if the format uses only some of the values
// in its right operand v.
func isConverted(v Value) bool {
	switch v.(type) {
	case *undefined, []Value, *ordered.Object:
		return false
	}
	return true
}

// converted converts a value to a Go value that fmt can format with the given verb: s, d or f.
func (r *render) converted(verb byte, v Value) any {
	if verb == 's' {
		return r.str(v)
	}
	x, ok := float(v)
	if !ok || is[*big.Int](v) || math.IsNaN(x) || math.Abs(x) >= 1<<63 {
		fail("the format field %%%c needs a number with a magnitude below 2^63; found a value of type '%s'", verb, typeName(v))
	}
	if verb == 'f' {
		return x
	}
	if n, ok := integer(v); ok {
		return n
	}
	return int64(x)
}

// formatField matches the supported fields of the method format: {}, {0} and {name}, with :d for an
// integer.
var formatField = regexp.MustCompile(`^\{(\w*)(:d)?\}`)

func formatPieces(format string) ([]piece, error) {
	return formatted(format, "{}", func(rest string) (piece, int, error) {
		m := formatField.FindStringSubmatch(rest)
		if m == nil {
			return piece{}, 0, unsupported(fmt.Sprintf("the format field at the start of %q is", rest), "{} or {name}")
		}
		p := piece{field: m[1]}
		if m[2] != "" {
			p.verb = 'd'
		}
		return p, len(m[0]), nil
	})
}

func strFormat(r *render, self Value, a args) Value {
	var out []byte
	next, numbered := 0, false
	for _, p := range must(formatPieces(self.(string))) {
		out = append(out, p.text...)
		if p.last {
			break
		}
		v := missing
		i, err := strconv.Atoi(p.field)
		switch {
		case p.field == "":
			v = a.or(next, missing)
			next++
		case err == nil:
			v = a.or(i, missing)
			numbered = true
		default:
			if k := slices.IndexFunc(a.named, func(n named) bool { return n.name == p.field }); k >= 0 {
				v = a.named[k].value
			}
		}
		if v == missing || numbered && next > 0 {
			fail("the format field {%s} has no argument, or the format has both {} and numbered fields", p.field)
		}
		if n, ok := integer(v); ok && p.verb == 'd' {
			v = n
		} else if p.verb == 'd' {
			fail("the format field {%s:d} needs a 64-bit integer, not a value of type '%s'", p.field, typeName(v))
		}
		s := r.str(v)
		out = append(out, s...)
		r.fits(len(out))
		r.spend(len(s) + len(p.text) + stepCost)
	}
	r.spend(len(out))
	return string(out)
}
