package jinja

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/ordered"
)

// conversion is one %(name)-05.2f of a format for the operator %, after the text before it.
type conversion struct {
	text  string
	name  string // of an entry of a dictionary; empty for the next argument
	flags string // flags, width and precision, as in Go's fmt
	verb  byte   // s, d, i, f, or 0 at the end of the format
}

// conversions splits a format. The error names what is not supported: verbs other than s, d, i and f, widths of more than three
// digits, and flags that Go's fmt understands in another way than Python.
func conversions(format string) ([]conversion, error) {
	var out []conversion
	var text strings.Builder
	for {
		before, rest, found := strings.Cut(format, "%")
		text.WriteString(before)
		if !found {
			return append(out, conversion{text: text.String()}), nil
		}
		if strings.HasPrefix(rest, "%") {
			text.WriteByte('%')
			format = rest[1:]
			continue
		}
		c := conversion{text: text.String()}
		text.Reset()
		spec := rest
		if strings.HasPrefix(rest, "(") {
			name, after, closed := strings.Cut(rest[1:], ")")
			if !closed || name == "" {
				return nil, errors.New("incomplete format key")
			}
			c.name, rest = name, after
		}
		n := len(rest) - len(strings.TrimLeft(rest, "-+ 0123456789."))
		c.flags = rest[:n]
		if n == len(rest) {
			return nil, errors.New("incomplete format")
		}
		c.verb = rest[n]
		width, precision, _ := strings.Cut(strings.TrimLeft(c.flags, "-+ 0"), ".")
		known := strings.IndexByte("sdif", c.verb) >= 0 && len(width) <= 3 && len(precision) <= 3 &&
			strings.Trim(width+precision, "0123456789") == ""
		switch {
		case c.verb == 's':
			known = known && strings.Trim(c.flags[:len(c.flags)-len(strings.TrimLeft(c.flags, "-+ 0"))], "-") == ""
		case c.verb != 'f':
			known = known && !strings.Contains(c.flags, ".")
		}
		if !known {
			return nil, fmt.Errorf("the format %%%s is not supported in chat templates", spec[:len(spec)-len(rest)+n+1])
		}
		out = append(out, c)
		format = rest[n+1:]
	}
}

// percent is the operator % of a string.
func (r *render) percent(format string, v Value) string {
	r.spend(len(format))
	items, isTuple := v.(tuple)
	if !isTuple {
		items = tuple{v}
	}
	dict, _ := v.(*ordered.Object)
	used := 0
	var out []byte
	for _, c := range must(conversions(format)) {
		out = append(out, c.text...)
		if c.verb == 0 {
			break
		}
		var item Value
		switch {
		case c.name != "" && dict == nil:
			fail("format requires a mapping")
		case c.name != "":
			var ok bool
			if item, ok = dict.Get(c.name); !ok {
				fail("the format's key '%s' is missing", c.name)
			}
		case used == len(items):
			fail("not enough arguments for format string")
		default:
			item = items[used]
			used++
		}
		out = fmt.Appendf(out, "%"+c.flags+goVerb[c.verb], r.converted(c.verb, item))
		r.fits(len(out))
		r.spend(len(c.text) + stepCost)
	}
	if _, isUndefined := v.(*undefined); used < len(items) && dict == nil && !isList(v) && !isUndefined {
		fail("not all arguments converted during string formatting")
	}
	r.spend(len(out))
	return string(out)
}

var goVerb = map[byte]string{'s': "s", 'd': "d", 'i': "d", 'f': "f"}

// converted is the argument of Go's fmt for a value.
func (r *render) converted(verb byte, v Value) any {
	x, ok := float(v)
	switch {
	case verb == 's':
		return r.str(v)
	case !ok || isBig(v) || math.IsNaN(x) || math.IsInf(x, 0):
		fail("%%%c format: a number is required, not %s", verb, typeName(v))
	case verb == 'f':
		return x
	}
	if n, ok := integer(v); ok {
		return n
	}
	if math.Abs(x) >= 1<<63 {
		fail(overflow)
	}
	return int64(x)
}

// field is one {name} of a format for the method format, after the text before it.
type field struct {
	text string
	name string // of an argument; a number for the argument at a position, empty for the next one
	end  bool   // of the format: there is no field
	// integer is set for {name:d}.
	integer bool
}

// formatFields splits a format. The error names what is not supported: attributes, items, conversions and
// format specifications other than d.
func formatFields(format string) ([]field, error) {
	var out []field
	var text strings.Builder
	for {
		i := strings.IndexAny(format, "{}")
		if i < 0 {
			return append(out, field{text: text.String() + format, end: true}), nil
		}
		text.WriteString(format[:i])
		c := format[i]
		if format = format[i+1:]; strings.HasPrefix(format, string(c)) {
			text.WriteByte(c)
			format = format[1:]
			continue
		}
		inside, after, closed := strings.Cut(format, "}")
		name, isInteger := strings.CutSuffix(inside, ":d")
		switch {
		case c == '}':
			return nil, errors.New("single '}' encountered in format string")
		case !closed:
			return nil, errors.New("expected '}' before end of string")
		case strings.ContainsAny(name, "{.[!:"):
			return nil, fmt.Errorf("the format field {%s} is not supported in chat templates; use {} or {name}", inside)
		}
		out = append(out, field{text: text.String(), name: name, integer: isInteger})
		text.Reset()
		format = after
	}
}

// strFormat is the method format of strings.
func strFormat(r *render, self Value, a args) Value {
	var out []byte
	next := 0
	for _, f := range must(formatFields(self.(string))) {
		out = append(out, f.text...)
		if f.end {
			break
		}
		i, err := strconv.Atoi(f.name)
		v := missing
		switch {
		case f.name == "":
			v = a.or(next, missing)
			next++
		case err == nil && next > 0:
			fail("cannot mix numbered and unnumbered fields in a format string")
		case err == nil && i >= 0:
			v = a.or(i, missing)
		default:
			for _, n := range a.named {
				if n.name == f.name {
					v = n.value
				}
			}
		}
		if v == missing {
			fail("the format field {%s} has no argument", f.name)
		}
		if n, ok := integer(v); ok && f.integer {
			v = n
		} else if f.integer {
			fail("the format field {%s:d} needs an integer, not '%s'", f.name, typeName(v))
		}
		s := r.str(v)
		out = append(out, s...)
		r.fits(len(out))
		r.spend(len(s) + len(f.text) + stepCost)
	}
	r.spend(len(out))
	return string(out)
}
