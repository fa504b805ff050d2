package task

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ingot-run/ingot/internal/ordered"
)

// literal parses a Python list of texts, numbers, True, False, None and dictionaries. Templates of
// the harness write lists in this form.
func literal(s string) (ordered.Value, error) {
	p := literalParser{rest: strings.TrimSpace(s)}
	v, err := p.value(0)
	if err == nil && strings.TrimSpace(p.rest) != "" {
		err = fmt.Errorf("unexpected text %.20q after the list", p.rest)
	}
	return v, err
}

type literalParser struct{ rest string }

const maxLiteralDepth = 8

func (p *literalParser) value(depth int) (ordered.Value, error) {
	p.rest = strings.TrimLeft(p.rest, " \n\t")
	switch {
	case depth > maxLiteralDepth:
		return nil, fmt.Errorf("lists are nested more than %d deep", maxLiteralDepth)
	case p.rest == "":
		return nil, errors.New("the text ends within the list")
	case p.rest[0] == '[' || p.rest[0] == '(':
		return p.list(depth)
	case p.rest[0] == '{':
		return p.dict(depth)
	case p.rest[0] == '\'' || p.rest[0] == '"':
		return p.text()
	}
	end := strings.IndexAny(p.rest, ",])}: \n\t")
	if end < 0 {
		end = len(p.rest)
	}
	word := p.rest[:end]
	p.rest = p.rest[end:]
	switch word {
	case "True":
		return true, nil
	case "False":
		return false, nil
	case "None":
		return nil, nil
	}
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		return n, nil
	}
	x, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return nil, fmt.Errorf("%.20q is not a text or number", word)
	}
	return x, nil
}

// dict parses a dictionary whose keys are texts.
func (p *literalParser) dict(depth int) (ordered.Value, error) {
	p.rest = p.rest[1:]
	o := ordered.NewObject()
	for {
		if p.skip("}") {
			return o, nil
		}
		key, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok || !p.skip(":") {
			return nil, errors.New("a dictionary needs texts as keys, each with a colon and a value")
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		o.Set(name, v)
		if !p.skip(",") && !strings.HasPrefix(p.rest, "}") {
			return nil, errors.New("a comma or the closing brace is missing after a value")
		}
	}
}

// skip skips white space, and a text if it follows. It reports whether the text followed.
func (p *literalParser) skip(text string) bool {
	p.rest = strings.TrimLeft(p.rest, " \n\t")
	rest, ok := strings.CutPrefix(p.rest, text)
	p.rest = rest
	return ok
}

func (p *literalParser) list(depth int) (ordered.Value, error) {
	end := map[byte]byte{'[': ']', '(': ')'}[p.rest[0]]
	p.rest = p.rest[1:]
	list := []ordered.Value{}
	for {
		p.rest = strings.TrimLeft(p.rest, " \n\t")
		if p.rest == "" {
			return nil, errors.New("the closing bracket is missing")
		}
		if p.rest[0] == end {
			p.rest = p.rest[1:]
			return list, nil
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		p.rest = strings.TrimLeft(p.rest, " \n\t")
		if strings.HasPrefix(p.rest, ",") {
			p.rest = p.rest[1:]
		} else if p.rest == "" || p.rest[0] != end {
			return nil, errors.New("a comma or the closing bracket is missing after an element")
		}
	}
}

var escapes = map[byte]rune{'n': '\n', 't': '\t', 'r': '\r', '\\': '\\', '\'': '\'', '"': '"', 'a': '\a', 'b': '\b', 'f': '\f', 'v': '\v', '0': 0}

var hexDigits = map[byte]int{'x': 2, 'u': 4, 'U': 8}

func (p *literalParser) text() (ordered.Value, error) {
	quote := p.rest[:1]
	if three := strings.Repeat(quote, 3); strings.HasPrefix(p.rest, three) {
		quote = three
	}
	var b strings.Builder
	for i := len(quote); i < len(p.rest); i++ {
		c := p.rest[i]
		switch {
		case strings.HasPrefix(p.rest[i:], quote):
			p.rest = p.rest[i+len(quote):]
			return b.String(), nil
		case c != '\\':
			b.WriteByte(c)
			continue
		}
		i++
		if i == len(p.rest) {
			break
		}
		if r, ok := escapes[p.rest[i]]; ok {
			b.WriteRune(r)
			continue
		}
		n, ok := hexDigits[p.rest[i]]
		if !ok || i+n >= len(p.rest) {
			return nil, fmt.Errorf("the escape \\%c is not known or not complete", p.rest[i])
		}
		code, err := strconv.ParseUint(p.rest[i+1:i+1+n], 16, 32)
		if err != nil || code > utf8.MaxRune {
			return nil, fmt.Errorf("the escape \\%s is not a character", p.rest[i:i+1+n])
		}
		b.WriteRune(rune(code))
		i += n
	}
	return nil, errors.New("the closing quote of a text is missing")
}
