package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// formatSpec says how a value is laid out, for % and for str.format.
type formatSpec struct {
	fill      rune
	align     byte // < > ^ =, or 0
	sign      byte // + - space, or 0
	alternate bool // #
	zero      bool
	width     int
	group     byte // , _ or 0
	precision int  // -1 if not given
	kind      byte // of conversion, or 0
}

// parseSpec reads [[fill]align][sign][#][0][width][group][.precision][kind].
func parseSpec(s string) (formatSpec, error) {
	spec := formatSpec{fill: ' ', precision: -1}
	isAlign := func(s string) bool { return s != "" && strings.IndexByte("<>=^", s[0]) >= 0 }
	fill, size := utf8.DecodeRuneInString(s)
	filled := isAlign(s[size:])
	if filled {
		spec.fill, spec.align = fill, s[size]
		s = s[size+1:]
	} else if isAlign(s) {
		spec.align = s[0]
		s = s[1:]
	}
	if s != "" && strings.IndexByte("+- ", s[0]) >= 0 {
		spec.sign = s[0]
		s = s[1:]
	}
	s, spec.alternate = strings.CutPrefix(s, "#")
	if s, spec.zero = strings.CutPrefix(s, "0"); spec.zero && !filled {
		spec.fill = '0'
	}
	var err error
	if s, spec.width, err = cutNumber(s, 0); err != nil {
		return spec, err
	}
	if s != "" && (s[0] == ',' || s[0] == '_') {
		spec.group = s[0]
		s = s[1:]
	}
	if rest, ok := strings.CutPrefix(s, "."); ok {
		if s, spec.precision, err = cutNumber(rest, -1); err != nil {
			return spec, err
		}
		if spec.precision < 0 {
			return spec, errors.New("format specifier missing precision")
		}
	}
	if len(s) > 1 {
		return spec, errors.New("invalid format specifier")
	}
	if s != "" {
		spec.kind = s[0]
	}
	return spec, nil
}

func cutNumber(s string, def int) (rest string, n int, err error) {
	end := 0
	for end < len(s) && digitOf(s[end], 10) {
		end++
	}
	if end == 0 {
		return s, def, nil
	}
	n, err = strconv.Atoi(s[:end])
	if err != nil || n > maxOutput {
		return s, 0, errors.New("too many decimal digits in format string")
	}
	return s[end:], n, nil
}

// formatValue is Python's format(v, spec).
func (r *render) formatValue(v Value, layout string) (string, error) {
	s, isText := text(v)
	if layout == "" {
		return r.str(v)
	}
	spec, err := parseSpec(layout)
	if err != nil {
		return "", err
	}
	if err := r.room(2, spec.width+max(spec.precision, 0)); err != nil {
		return "", err
	}
	if isText {
		return formatText(s, spec)
	}
	if _, ok := float(v); !ok {
		return "", fmt.Errorf("unsupported format string passed to %s.__format__", typeName(v))
	}
	n, err := formatNumber(v, spec)
	if err != nil {
		return "", err
	}
	switch {
	case spec.align != 0:
	case spec.zero:
		spec.align = '='
	default:
		spec.align = '>'
	}
	return string(n.appendTo(nil, spec)), nil
}

func formatText(s string, spec formatSpec) (string, error) {
	switch {
	case spec.kind != 0 && spec.kind != 's':
		return "", fmt.Errorf("unknown format code '%c' for object of type 'str'", spec.kind)
	case spec.sign != 0 || spec.alternate || spec.group != 0 || spec.align == '=':
		return "", errors.New("the format specifier is not allowed for strings")
	}
	if spec.precision >= 0 {
		s = s[:runeOffset(s, spec.precision)]
	}
	if spec.align == 0 {
		spec.align = '<'
	}
	return string(appendPadded(nil, s, spec)), nil
}

// numberText is a number before it is laid out.
type numberText struct {
	negative bool
	prefix   string // such as 0x
	digits   string // of the whole part
	rest     string // the point and what follows
}

func formatNumber(v Value, spec formatSpec) (numberText, error) {
	kind := spec.kind
	if _, isFloat := v.(float64); !isFloat && strings.IndexByte("\x00dnboxXc", kind) >= 0 {
		if spec.precision >= 0 {
			return numberText{}, errors.New("precision not allowed in integer format specifier")
		}
		if kind == 'c' {
			s, err := percentChar(v)
			return numberText{digits: s}, err
		}
		digits, negative, err := integerDigits(v, kind)
		n := numberText{negative: negative, digits: digits}
		if spec.alternate && strings.IndexByte("boxX", kind) >= 0 {
			n.prefix = "0" + string(kind)
		}
		return n, err
	}
	x, _ := float(v)
	if _, isBig := v.(*big.Int); isBig && math.IsInf(x, 0) {
		return numberText{}, errors.New("int too large to convert to float")
	}
	switch kind {
	case 0:
		if spec.precision < 0 {
			return splitNumber(x, strings.TrimPrefix(formatFloat(x), "-")), nil
		}
		return splitNumber(x, shortest(math.Abs(x), spec.precision)), nil
	case '%':
		if spec.precision < 0 {
			spec.precision = 6
		}
		n := floatText(x*100, 'f', spec.precision, spec.alternate)
		n.rest += "%"
		return n, nil
	case 'n':
		kind = 'g'
	case 'e', 'E', 'f', 'F', 'g', 'G':
	default:
		return numberText{}, fmt.Errorf("unknown format code '%c' for object of type '%s'", kind, typeName(v))
	}
	if spec.precision < 0 {
		spec.precision = 6
	}
	return floatText(x, kind, spec.precision, spec.alternate), nil
}

// shortest formats a float with a number of significant digits and at least one behind the point.
func shortest(x float64, precision int) string {
	precision = max(precision, 1)
	e := strconv.FormatFloat(x, 'e', precision-1, 64)
	mantissa, exponent, ok := strings.Cut(e, "e")
	if !ok {
		return e // inf or nan
	}
	if n, _ := strconv.Atoi(exponent); n >= -4 && n < precision-1 {
		s := strconv.FormatFloat(x, 'g', precision, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	if strings.Contains(mantissa, ".") {
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	}
	return mantissa + "e" + exponent
}

// floatText formats with e, f or g.
func floatText(x float64, kind byte, precision int, alternate bool) numberText {
	lower := kind | 0x20
	if lower == 'g' && precision == 0 {
		precision = 1
	}
	s := strconv.FormatFloat(math.Abs(x), lower, precision, 64)
	if alternate && lower == 'g' && !math.IsInf(x, 0) && !math.IsNaN(x) {
		s = withZeros(s, precision)
	} else if alternate && !strings.Contains(s, ".") {
		mantissa, exponent, hasExponent := strings.Cut(s, "e")
		s = mantissa + "."
		if hasExponent {
			s += "e" + exponent
		}
	}
	s = strings.TrimPrefix(strings.ToLower(s), "+")
	if kind != lower {
		s = strings.ToUpper(s)
	}
	return splitNumber(x, s)
}

// withZeros gives the mantissa a point and zeros up to a number of significant digits, as # asks of g.
func withZeros(s string, precision int) string {
	mantissa, exponent, hasExponent := strings.Cut(s, "e")
	digits := len(strings.TrimLeft(strings.Replace(mantissa, ".", "", 1), "0"))
	if !strings.Contains(mantissa, ".") {
		mantissa += "."
	}
	mantissa += strings.Repeat("0", max(0, precision-max(digits, 1)))
	if hasExponent {
		return mantissa + "e" + exponent
	}
	return mantissa
}

// splitNumber separates the sign of x and the whole part of its absolute value's text.
func splitNumber(x float64, s string) numberText {
	end := 0
	for end < len(s) && digitOf(s[end], 10) {
		end++
	}
	return numberText{negative: math.Signbit(x) && !math.IsNaN(x), digits: s[:end], rest: s[end:]}
}

// appendTo lays the number out.
func (n numberText) appendTo(out []byte, spec formatSpec) []byte {
	sign := ""
	switch {
	case n.negative:
		sign = "-"
	case spec.sign == '+' || spec.sign == ' ':
		sign = string(spec.sign)
	}
	sign += n.prefix
	digits := n.digits
	if spec.group != 0 {
		digits = grouped(digits, spec, spec.width-len(sign)-len(n.rest))
	}
	if spec.align != '=' {
		return appendPadded(out, sign+digits+n.rest, spec)
	}
	fill := spec.width - len(sign) - runeCount(digits) - len(n.rest)
	out = append(out, sign...)
	for range fill {
		out = utf8.AppendRune(out, spec.fill)
	}
	return append(append(out, digits...), n.rest...)
}

// grouped puts a separator between groups of digits. Where zeros fill the number up to a width, they are grouped too.
func grouped(digits string, spec formatSpec, width int) string {
	size := 3
	if strings.IndexByte("boxX", spec.kind) >= 0 && spec.kind != 0 {
		size = 4
	}
	if digits != "" && spec.align == '=' && spec.fill == '0' {
		separators := (width - 1) / (size + 1)
		digits = strings.Repeat("0", max(0, width-separators-len(digits))) + digits
	}
	var b strings.Builder
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%size == 0 {
			b.WriteByte(spec.group)
		}
		b.WriteRune(c)
	}
	return b.String()
}

// appendPadded adds s with its fill. An = stands for > here.
func appendPadded(out []byte, s string, spec formatSpec) []byte {
	n := max(0, spec.width-runeCount(s))
	left := n
	switch spec.align {
	case '<':
		left = 0
	case '^':
		left = n / 2
	}
	for range left {
		out = utf8.AppendRune(out, spec.fill)
	}
	out = append(out, s...)
	for range n - left {
		out = utf8.AppendRune(out, spec.fill)
	}
	return out
}
