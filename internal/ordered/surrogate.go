package ordered

import "strconv"

// HalfSurrogate returns the offset of the first escape in a JSON text that is half of a surrogate
// pair without the other half, such as \ud800; -1 if there is none. No text has such a character,
// and encoding/json reads U+FFFD in its place.
func HalfSurrogate(text []byte) int {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		code := escapedUnit(text[i:])
		switch {
		case code < 0xD800 || code > 0xDFFF:
			i++ // what is escaped
		case code > 0xDBFF:
			return i
		default:
			if low := escapedUnit(text[i+6:]); low < 0xDC00 || low > 0xDFFF {
				return i
			}
			i += 11
		}
	}
	return -1
}

// escapedUnit returns the code of an escape \uXXXX at the beginning of text, or -1.
func escapedUnit(text []byte) int {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	code, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return int(code)
}
