package ebnf

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// literal reads a text in quotes, in Lark also with the flag i or as the first of a range.
func (p *parser) literal() (*Expr, error) {
	start := p.pos
	text, err := p.quoted()
	if err != nil {
		return nil, err
	}
	if p.gbnf {
		return p.new(Expr{Kind: Text, Text: text, Offset: start})
	}
	if strings.HasPrefix(p.text[p.pos:], `.."`) {
		p.pos += 2
		last, err := p.quoted()
		if err != nil {
			return nil, err
		}
		if utf8.RuneCountInString(text) != 1 || utf8.RuneCountInString(last) != 1 {
			return nil, p.failAt(start, "a range must be between two characters")
		}
		lo, _ := utf8.DecodeRuneInString(text)
		hi, _ := utf8.DecodeRuneInString(last)
		if lo > hi {
			return nil, p.failAt(start, "the range %q..%q is empty", lo, hi)
		}
		return p.new(Expr{Kind: Regex, Text: fmt.Sprintf(`[\u{%x}-\u{%x}]`, lo, hi), Offset: start})
	}
	fold := p.take("i")
	return p.new(Expr{Kind: Text, Text: text, Fold: fold, Offset: start})
}

// quoted reads a text in quotes, with the escapes of both dialects.
func (p *parser) quoted() (string, error) {
	start := p.pos
	var b strings.Builder
	for p.pos++; p.pos < len(p.text); {
		switch c := p.text[p.pos]; c {
		case '"':
			p.pos++
			return b.String(), nil
		case '\n':
			return "", p.failAt(start, "a quote is not closed on its line")
		case '\\':
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			b.WriteRune(r)
		default:
			b.WriteByte(c)
			p.pos++
		}
	}
	return "", p.failAt(start, "a quote is not closed")
}

func (p *parser) escape() (rune, error) {
	start := p.pos
	p.pos++
	if p.pos >= len(p.text) {
		return 0, p.failAt(start, "a backslash ends the grammar")
	}
	r, n := utf8.DecodeRuneInString(p.text[p.pos:])
	p.pos += n
	var digits int
	switch r {
	case 'n':
		return '\n', nil
	case 't':
		return '\t', nil
	case 'r':
		return '\r', nil
	case 'f':
		return '\f', nil
	case 'b':
		return '\b', nil
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	default:
		if isNameRune(r) && r != '_' && r != '-' {
			return 0, p.failAt(start, "the escape \\%c is not known", r)
		}
		return r, nil
	}
	if len(p.text) < p.pos+digits {
		return 0, p.failAt(start, "%d hexadecimal digits are expected", digits)
	}
	v, err := strconv.ParseUint(p.text[p.pos:p.pos+digits], 16, 32)
	if err != nil || !utf8.ValidRune(rune(v)) {
		return 0, p.failAt(start, "%q is not the number of a character", p.text[p.pos:p.pos+digits])
	}
	p.pos += digits
	return rune(v), nil
}

// special reads a special token: <name>.
func (p *parser) special() (*Expr, error) {
	start := p.pos
	end := strings.IndexAny(p.text[p.pos:], ">\n")
	if end < 0 || p.text[p.pos+end] == '\n' {
		return nil, p.fail("the name of a special token is not closed with >")
	}
	name := p.text[start : start+end+1]
	if strings.HasPrefix(name, "<[") {
		return nil, p.fail("special tokens by their number are not supported; use the name")
	}
	p.pos += end + 1
	return p.new(Expr{Kind: Special, Text: name, Offset: start})
}

// object reads a JSON object that is embedded in a grammar, and returns its text.
func (p *parser) object() (string, error) {
	p.space(true)
	d := json.NewDecoder(strings.NewReader(p.text[p.pos:]))
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return "", p.fail("JSON is expected: %v", err)
	}
	text := p.text[p.pos : p.pos+int(d.InputOffset())]
	p.pos += len(text)
	return text, nil
}
