package ordered

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of a JSON text.
const (
	maxDepth  = 1000 // levels of nested values
	maxDigits = 4300 // digits of an integer, as in Python
)

// ParseJSON reads one JSON text. If a key occurs twice, the last value counts. An unpaired
// surrogate becomes U+FFFD. An error in the JSON gives the offset in bytes at which it was found.
func ParseJSON(data []byte) (Value, error) {
	v, pos, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("parse JSON: offset %d: %w", pos, err)
	}
	return v, nil
}

// Fault says where and why a text is not JSON, as in "byte 2: found 'o' where a value is expected".
// It returns nil for JSON.
func Fault(data []byte) error {
	_, pos, err := parse(data)
	if err != nil {
		return fmt.Errorf("byte %d: %w", pos+1, err)
	}
	return nil
}

// parse also returns the offset in bytes of an error.
func parse(data []byte) (v Value, pos int, err error) {
	p := jsonParser{text: string(data)}
	if !utf8.ValidString(p.text) {
		return nil, notUTF8(p.text), errors.New("the text is not UTF-8")
	}
	v, err = p.value(0)
	if err == nil {
		p.space()
		if p.pos < len(p.text) {
			err = p.unexpected("the end")
		}
	}
	return v, p.pos, err
}

// notUTF8 returns the offset of the first byte that is not UTF-8.
func notUTF8(s string) int {
	for i, r := range s {
		if _, size := utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && size == 1 {
			return i
		}
	}
	return len(s)
}

type jsonParser struct {
	text string
	pos  int
}

func (p *jsonParser) unexpected(want string) error {
	if p.pos >= len(p.text) {
		return fmt.Errorf("the text ends where %s is expected", want)
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.pos:])
	return fmt.Errorf("found %q where %s is expected", r, want)
}

func (p *jsonParser) space() {
	for p.pos < len(p.text) && isSpace(p.text[p.pos]) {
		p.pos++
	}
}

// take skips white space, then c if it is the next character. It reports whether c was there.
func (p *jsonParser) take(c byte) bool {
	p.space()
	if p.pos < len(p.text) && p.text[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

func (p *jsonParser) value(depth int) (Value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("values are nested more than %d deep", maxDepth)
	}
	p.space()
	if p.pos >= len(p.text) {
		return nil, p.unexpected("a value")
	}
	switch c := p.text[p.pos]; {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		return p.str()
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	for _, word := range [...]struct {
		text  string
		value Value
	}{{"true", true}, {"false", false}, {"null", nil}} {
		if strings.HasPrefix(p.text[p.pos:], word.text) {
			p.pos += len(word.text)
			return word.value, nil
		}
	}
	return nil, p.unexpected("a value")
}

func (p *jsonParser) object(depth int) (Value, error) {
	o := NewObject()
	return o, p.list('}', "brace", func() error {
		p.space()
		if p.pos >= len(p.text) || p.text[p.pos] != '"' {
			return p.unexpected("a key")
		}
		key, err := p.str()
		if err != nil {
			return err
		}
		if !p.take(':') {
			return p.unexpected("a colon")
		}
		v, err := p.value(depth + 1)
		o.Set(key, v)
		return err
	})
}

func (p *jsonParser) array(depth int) (Value, error) {
	list := []Value{}
	err := p.list(']', "bracket", func() error {
		v, err := p.value(depth + 1)
		list = append(list, v)
		return err
	})
	return list, err
}

// list reads elements that commas separate, from the opening to the closing character.
func (p *jsonParser) list(closing byte, name string, element func() error) error {
	p.pos++
	if p.take(closing) {
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if p.take(closing) {
			return nil
		}
		if !p.take(',') {
			return p.unexpected("a comma or a closing " + name)
		}
	}
}

func (p *jsonParser) number() (Value, error) {
	start := p.pos
	p.take('-')
	if first := p.pos; !p.digits() {
		return nil, p.unexpected("a digit")
	} else if p.text[first] == '0' && p.pos > first+1 {
		p.pos = first + 1
		return nil, p.unexpected("the end of the number 0")
	}
	whole := true
	if p.pos < len(p.text) && p.text[p.pos] == '.' {
		whole = false
		p.pos++
		if !p.digits() {
			return nil, p.unexpected("a digit")
		}
	}
	if p.pos < len(p.text) && p.text[p.pos]|0x20 == 'e' {
		whole = false
		p.pos++
		if p.pos < len(p.text) && (p.text[p.pos] == '+' || p.text[p.pos] == '-') {
			p.pos++
		}
		if !p.digits() {
			return nil, p.unexpected("a digit")
		}
	}
	digits := p.text[start:p.pos]
	if !whole {
		f, _ := strconv.ParseFloat(digits, 64) // too large a number becomes infinite, as in Python
		return f, nil
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return n, nil
	}
	if len(digits) > maxDigits {
		return nil, fmt.Errorf("an integer has more than %d digits", maxDigits)
	}
	n, _ := new(big.Int).SetString(digits, 10)
	return n, nil
}

func (p *jsonParser) digits() bool {
	start := p.pos
	for p.pos < len(p.text) && p.text[p.pos] >= '0' && p.text[p.pos] <= '9' {
		p.pos++
	}
	return p.pos > start
}

// str reads a string, with pos at its opening quote. A string without escapes shares the memory of
// the text.
func (p *jsonParser) str() (string, error) {
	start, escapes := p.pos, false
	for p.pos++; p.pos < len(p.text); p.pos++ {
		switch c := p.text[p.pos]; {
		case c == '"':
			p.pos++
			s := p.text[start+1 : p.pos-1]
			if !escapes {
				return s, nil
			}
			err := json.Unmarshal([]byte(p.text[start:p.pos]), &s)
			return s, err
		case c < ' ':
			return "", fmt.Errorf("a string contains the control character %q, which must be escaped", c)
		case c == '\\':
			escapes = true
			if p.pos++; !beginsEscape(p.text[p.pos:]) {
				return "", p.unexpected("an escape of JSON")
			}
		}
	}
	return "", p.unexpected("a closing quote")
}

func beginsEscape(s string) bool {
	if len(s) >= 5 && s[0] == 'u' {
		_, err := strconv.ParseUint(s[1:5], 16, 32)
		return err == nil
	}
	return s != "" && strings.IndexByte(`"\/bfnrt`, s[0]) >= 0
}
