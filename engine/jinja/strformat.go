package jinja

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/ordered"
)

func strFormat(r *render, self Value, a args) (Value, error) {
	named := ordered.NewObject()
	for _, n := range a.named {
		named.Set(n.name, n.value)
	}
	return formatWith(r, self, a.pos, named)
}

func strFormatMap(r *render, self Value, a args) (Value, error) {
	named, ok := a.pos[0].(*ordered.Object)
	if !ok {
		return nil, fmt.Errorf("format_map needs a mapping, not '%s'", typeName(a.pos[0]))
	}
	return formatWith(r, self, nil, named)
}

func formatWith(r *render, self Value, pos []Value, named *ordered.Object) (Value, error) {
	f := formatter{r: r, pos: pos, named: named, escapes: isMarkup(self)}
	s, err := f.format(selfText(self), 2)
	return s, err
}

// formatter is str.format: {field!conversion:spec} in a text.
type formatter struct {
	r       *render
	pos     []Value
	named   *ordered.Object
	escapes bool // the text is marked, so what is filled in is escaped

	auto, manual bool // which kind of numbering the fields have used
	next         int
}

func (f *formatter) format(s string, depth int) (string, error) {
	if depth < 0 {
		return "", errors.New("max string recursion exceeded")
	}
	var out []byte
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			i = len(s)
		}
		out = append(out, s[:i]...)
		if s = s[i:]; s == "" {
			break
		}
		if len(s) > 1 && s[1] == s[0] {
			out = append(out, s[0])
			s = s[2:]
			continue
		}
		if s[0] == '}' {
			return "", errors.New("single '}' encountered in format string")
		}
		end := fieldEnd(s)
		if end < 0 {
			return "", errors.New("expected '}' before end of string")
		}
		text, err := f.field(s[1:end], depth)
		if err != nil {
			return "", err
		}
		out = append(out, text...)
		s = s[end+1:]
		if err := f.r.fits(len(out)); err != nil {
			return "", err
		}
		if err := f.r.spend(len(text) + stepCost); err != nil {
			return "", err
		}
	}
	return string(out), f.r.spend(len(out))
}

// fieldEnd is the offset of the } that closes the { at the start of s, or -1.
func fieldEnd(s string) int {
	open := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			open++
		case '}':
			if open--; open == 0 {
				return i
			}
		}
	}
	return -1
}

// field is the text of one field.
func (f *formatter) field(s string, depth int) (string, error) {
	name, conversion, spec := s, byte(0), ""
	inIndex := false
	for i := range len(s) {
		c := s[i]
		if c == '[' || c == ']' {
			inIndex = c == '['
		}
		if inIndex || c != '!' && c != ':' {
			continue
		}
		name, spec = s[:i], s[i+1:]
		if c == '!' {
			if len(spec) == 0 || len(spec) > 1 && spec[1] != ':' {
				return "", errors.New("expected ':' after conversion specifier")
			}
			conversion, spec = spec[0], strings.TrimPrefix(spec[1:], ":")
		}
		break
	}
	v, err := f.lookup(name)
	if err != nil {
		return "", err
	}
	switch conversion {
	case 0:
	case 's', 'r', 'a':
		if v, err = f.r.shown(conversion, v); err != nil {
			return "", err
		}
	default:
		return "", fmt.Errorf("unknown conversion specifier '%c'", conversion)
	}
	if spec, err = f.format(spec, depth-1); err != nil {
		return "", err
	}
	if f.escapes && isMarkup(v) && spec != "" {
		return "", errors.New("unsupported format specification for Markup")
	}
	text, err := f.r.formatValue(v, spec)
	if err != nil || !f.escapes || isMarkup(v) {
		return text, err
	}
	return string(escaped(text)), nil
}

// lookup is the value that a field names: an argument, and attributes and items of it.
func (f *formatter) lookup(name string) (Value, error) {
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	v, err := f.argument(name[:end], name == "")
	for rest := name[end:]; err == nil && rest != ""; {
		if err := f.r.step(); err != nil {
			return nil, err
		}
		if rest[0] == '[' {
			end := strings.IndexByte(rest, ']')
			if end < 2 {
				return nil, errors.New("empty or missing index in format string")
			}
			var key Value = rest[1:end]
			if n, err := strconv.ParseInt(rest[1:end], 10, 64); err == nil && rest[1] != '-' && rest[1] != '+' {
				key = n
			}
			v, err = f.r.getItem(v, key)
			if rest = rest[end+1:]; rest != "" && rest[0] != '.' && rest[0] != '[' {
				return nil, errors.New("only '.' or '[' may follow ']' in format field specifier")
			}
			continue
		}
		end := 1 + strings.IndexAny(rest[1:], ".[")
		if end == 0 {
			end = len(rest)
		}
		if end == 1 {
			return nil, errors.New("empty attribute in format string")
		}
		v, err = getAttr(v, rest[1:end])
		rest = rest[end:]
	}
	return v, err
}

// argument is the argument of a name or number, or the next one.
func (f *formatter) argument(name string, isNext bool) (Value, error) {
	i := f.next
	if isNext {
		f.next++
		f.auto = true
	} else {
		n, err := strconv.ParseUint(name, 10, 31)
		if err != nil {
			v, ok := f.named.Get(name)
			if !ok {
				return nil, fmt.Errorf("the format's field '%s' has no argument", name)
			}
			return v, nil
		}
		i = int(n)
		f.manual = true
	}
	if f.auto && f.manual {
		return nil, errors.New("cannot mix numbered and unnumbered fields in a format string")
	}
	if i >= len(f.pos) {
		return nil, fmt.Errorf("there is no argument %d for the format string", i)
	}
	return f.pos[i], nil
}
