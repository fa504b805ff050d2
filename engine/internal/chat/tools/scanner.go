package tools

import (
	"bytes"
	"encoding/json"
	"strings"
)

// scanner finds the end of a JSON value in a text that comes in parts. It does not check that the
// value is valid.
type scanner struct {
	depth   int
	quoted  bool // in a string
	escaped bool // after a backslash
	begun   bool
}

// feed returns how many bytes of the text belong to the value, and whether the value ends there.
// The end of a number or a word is found only if another character follows.
func (s *scanner) feed(text string) (n int, done bool) {
	for i := range len(text) {
		c := text[i]
		switch {
		case s.escaped:
			s.escaped = false
		case s.quoted && c == '\\':
			s.escaped = true
		case s.quoted:
			if s.quoted = c != '"'; !s.quoted && s.depth == 0 {
				return i + 1, true
			}
		case s.depth == 0 && s.begun && strings.IndexByte(",]}: \t\r\n", c) >= 0:
			return i, true
		case c == '"':
			s.quoted = true
		case c == '{' || c == '[':
			s.depth++
		case c == '}' || c == ']':
			if s.depth--; s.depth <= 0 {
				return i + 1, true
			}
		}
		s.begun = true
	}
	return len(text), false
}

// within reports whether the value is within a string after a text.
func (s *scanner) within(text string) bool {
	s.feed(text)
	return s.quoted
}

// isObject reports whether a text is a JSON object.
func isObject(text string) bool {
	return strings.HasPrefix(strings.TrimLeft(text, space), "{") && json.Valid([]byte(text))
}

// quote returns a text as a JSON string.
func quote(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(text) //nolint:errcheck,errchkjson // a text can always be encoded
	return strings.TrimSuffix(b.String(), "\n")
}

// inner returns a text as the inside of a JSON string.
func inner(text string) string {
	q := quote(text)
	return q[1 : len(q)-1]
}
