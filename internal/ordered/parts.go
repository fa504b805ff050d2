package ordered

import (
	"encoding/json"
	"iter"
)

// The functions of this file split valid JSON into parts, which share its memory. They are faster
// than encoding/json, which would read each part twice.

// Members returns the keys and values of an object, which must be valid JSON. A key that occurs
// twice is passed twice.
func Members(object []byte) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		var key json.RawMessage
		for part := range Items(object) { // keys and values in turn
			if key == nil {
				key = part
				continue
			}
			if !yield(keyOf(key), part) {
				return
			}
			key = nil
		}
	}
}

// Items returns the elements of an array, or the keys and values of an object, which must be valid
// JSON.
func Items(list []byte) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		for i := skipSpace(list, 0) + 1; ; i++ { // after the opening bracket, a comma or a colon
			i = skipSpace(list, i)
			if list[i] == ']' || list[i] == '}' {
				return
			}
			end := valueEnd(list, i)
			if !yield(list[i:end:end]) {
				return
			}
			if i = skipSpace(list, end); list[i] == ']' || list[i] == '}' {
				return
			}
		}
	}
}

func keyOf(quoted []byte) string {
	if s, ok := Plain(quoted); ok {
		return s
	}
	var s string
	json.Unmarshal(quoted, &s) //nolint:errcheck // it is valid
	return s
}

// Plain returns the text of a string, which must be valid JSON. ok is false if the value is not a
// string, or if the string has escapes or characters other than printable ASCII.
func Plain(value []byte) (text string, ok bool) {
	if value[0] != '"' {
		return "", false
	}
	value = value[1 : len(value)-1]
	for _, c := range value {
		if c < ' ' || c > '~' || c == '\\' {
			return "", false
		}
	}
	return string(value), true
}

func skipSpace(text []byte, i int) int {
	for isSpace(text[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func valueEnd(text []byte, i int) int {
	depth := 0
	for ; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			i = stringEnd(text, i)
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
			if depth == 0 {
				return i + 1
			}
		default:
			if depth == 0 && (c == ',' || isSpace(c)) {
				return i
			}
		}
	}
	return i
}

func stringEnd(text []byte, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}
