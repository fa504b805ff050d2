package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ingot-run/ingot/ordered"
)

// percent is the operator % of a string.
func (r *render) percent(format Value, s string, v Value) (Value, error) {
	if err := r.spend(len(s)); err != nil {
		return nil, err
	}
	out, err := r.percentText(s, v, isMarkup(format))
	return sameMarkup(format, out), err
}

// percenter formats with Python's printf rules.
type percenter struct {
	r      *render
	format string
	pos    int
	args   []Value // what is left of the tuple, or the only argument
	single bool    // the argument is a mapping or list, which need not be used
	dict   Value   // the argument, if it is a dictionary
	marked bool    // the format is marked, so what is filled in is escaped
	out    []byte
}

func (r *render) percentText(format string, v Value, marked bool) (string, error) {
	p := percenter{r: r, format: format, args: []Value{v}, marked: marked}
	switch v := v.(type) {
	case tuple, group:
		p.args, _ = elements(v)
	case *ordered.Object:
		p.single, p.dict = true, v
	case []Value, *span, *undefined:
		p.single = true
	}
	for p.pos < len(format) {
		if i := strings.IndexByte(format[p.pos:], '%'); i != 0 {
			if i < 0 {
				i = len(format) - p.pos
			}
			p.out = append(p.out, format[p.pos:p.pos+i]...)
			p.pos += i
			continue
		}
		p.pos++
		if err := p.conversion(); err != nil {
			return "", err
		}
		if err := r.fits(len(p.out)); err != nil {
			return "", err
		}
	}
	if len(p.args) > 0 && !p.single {
		return "", errors.New("not all arguments converted during string formatting")
	}
	return string(p.out), r.spend(len(p.out))
}

// next takes an argument.
func (p *percenter) next() (Value, error) {
	if len(p.args) == 0 {
		return nil, errors.New("not enough arguments for format string")
	}
	v := p.args[0]
	p.args = p.args[1:]
	return v, nil
}

// conversion formats one argument; pos is behind the %.
func (p *percenter) conversion() error {
	f := p.format
	var v Value
	named := false
	if strings.HasPrefix(f[p.pos:], "(") {
		key, err := p.key()
		if err != nil {
			return err
		}
		if p.dict == nil {
			return errors.New("format requires a mapping")
		}
		var ok bool
		if v, ok = p.dict.(*ordered.Object).Get(key); !ok {
			return fmt.Errorf("the format's key '%s' is missing", key)
		}
		named = true
		p.args = nil
	}
	spec := formatSpec{fill: ' ', align: '>', precision: -1}
	for ; p.pos < len(f) && strings.IndexByte("-+ #0", f[p.pos]) >= 0; p.pos++ {
		switch c := f[p.pos]; {
		case c == '-':
			spec.align = '<'
		case c == '#':
			spec.alternate = true
		case c == '0':
			spec.zero = true
		case spec.sign != '+':
			spec.sign = c
		}
	}
	var err error
	if spec.width, err = p.number(0); err != nil {
		return err
	}
	if spec.width < 0 {
		spec.align, spec.width = '<', -spec.width
	}
	if strings.HasPrefix(f[p.pos:], ".") {
		p.pos++
		if spec.precision, err = p.number(0); err != nil {
			return err
		}
		spec.precision = max(spec.precision, 0)
	}
	if p.pos < len(f) && strings.IndexByte("hlL", f[p.pos]) >= 0 {
		p.pos++
	}
	if p.pos >= len(f) {
		return errors.New("incomplete format")
	}
	if err := p.r.room(1, spec.width+max(spec.precision, 0)); err != nil {
		return err
	}
	spec.kind = f[p.pos]
	p.pos++
	if spec.kind == '%' {
		p.out = append(p.out, '%')
		return nil
	}
	if !named {
		if v, err = p.next(); err != nil {
			return err
		}
	}
	return p.convert(spec, v)
}

// key reads the (key) of a conversion, in which parentheses may be nested.
func (p *percenter) key() (string, error) {
	start, open := p.pos+1, 0
	for ; p.pos < len(p.format); p.pos++ {
		switch p.format[p.pos] {
		case '(':
			open++
		case ')':
			if open--; open == 0 {
				p.pos++
				return p.format[start : p.pos-1], nil
			}
		}
	}
	return "", errors.New("incomplete format key")
}

// number reads a width or precision, or takes it from the arguments for *.
func (p *percenter) number(def int) (int, error) {
	if strings.HasPrefix(p.format[p.pos:], "*") {
		p.pos++
		v, err := p.next()
		if err != nil {
			return 0, err
		}
		n, ok := v.(int64)
		if !ok || n > maxOutput || n < -maxOutput {
			return 0, errors.New("* wants a small integer")
		}
		return int(n), nil
	}
	end := digitsEnd(p.format, p.pos, 10)
	if end == p.pos {
		return def, nil
	}
	n, err := strconv.Atoi(p.format[p.pos:end])
	p.pos = end
	if err != nil || n > maxOutput {
		return 0, errors.New("width or precision too big")
	}
	return n, nil
}

func (p *percenter) convert(spec formatSpec, v Value) error {
	var n numberText
	switch spec.kind {
	case 's', 'r', 'a':
		s, err := p.r.shown(spec.kind, v)
		if err != nil {
			return err
		}
		if p.marked && (spec.kind != 's' || !isMarkup(v)) {
			s = string(escaped(s))
		}
		return p.text(spec, s)
	case 'c':
		s, err := percentChar(v)
		if err != nil {
			return err
		}
		spec.precision = -1
		return p.text(spec, s)
	case 'd', 'i', 'u', 'x', 'X', 'o':
		digits, negative, err := integerDigits(v, spec.kind)
		if err != nil {
			return err
		}
		digits = strings.Repeat("0", max(0, spec.precision-len(digits))) + digits
		n = numberText{negative: negative, digits: digits}
		if spec.alternate && strings.IndexByte("xXo", spec.kind) >= 0 {
			n.prefix = "0" + string(spec.kind)
		}
	case 'e', 'E', 'f', 'F', 'g', 'G':
		x, ok := float(v)
		if !ok {
			return fmt.Errorf("must be real number, not %s", typeName(v))
		}
		if spec.precision < 0 {
			spec.precision = 6
		}
		n = floatText(x, spec.kind, spec.precision, spec.alternate)
	default:
		return fmt.Errorf("unsupported format character '%c'", spec.kind)
	}
	if spec.zero && spec.align == '>' {
		spec.align, spec.fill = '=', '0'
	}
	p.out = n.appendTo(p.out, spec)
	return nil
}

func (p *percenter) text(spec formatSpec, s string) error {
	if spec.precision >= 0 {
		s = s[:runeOffset(s, spec.precision)]
	}
	p.out = appendPadded(p.out, s, spec)
	return nil
}

// shown is a value as s, r or a convert it.
func (r *render) shown(kind byte, v Value) (string, error) {
	if kind == 's' {
		return r.str(v)
	}
	s, err := r.repr(v)
	if kind == 'a' {
		s = ascii(s)
	}
	return s, err
}

func percentChar(v Value) (string, error) {
	if n, ok := integer(v); ok {
		if n < 0 || n > utf8.MaxRune {
			return "", errors.New("%c arg is no character")
		}
		return string(rune(n)), nil
	}
	if s, ok := text(v); ok && runeCount(s) == 1 {
		return s, nil
	}
	return "", errors.New("%c requires int or char")
}

// integerDigits are the digits of an integer, or for the decimal kinds of a float's whole part.
func integerDigits(v Value, kind byte) (digits string, negative bool, err error) {
	n, ok := v.(*big.Int)
	if i, isInt := integer(v); isInt {
		n, ok = big.NewInt(i), true
	}
	if f, isFloat := v.(float64); isFloat && strings.IndexByte("diu", kind) >= 0 {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return "", false, errors.New("cannot convert float infinity or NaN to integer")
		}
		n, _ = big.NewFloat(f).Int(nil)
		ok = true
	}
	if !ok {
		return "", false, fmt.Errorf("%%%c format: a number is required, not %s", kind, typeName(v))
	}
	base := map[byte]int{'x': 16, 'X': 16, 'o': 8, 'b': 2}[kind]
	if base == 0 {
		base = 10
	}
	digits = new(big.Int).Abs(n).Text(base)
	if kind == 'X' {
		digits = strings.ToUpper(digits)
	}
	return digits, n.Sign() < 0, nil
}
