package table

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// ParseComma returns the character that a text names: the character itself, or "tab" or "\\t".
func ParseComma(s string) (rune, error) {
	switch strings.ToLower(s) {
	case "tab", `\t`:
		return '\t', nil
	case "comma":
		return ',', nil
	case "semicolon":
		return ';', nil
	}
	if len(s) != 1 || s[0] >= utf8.RuneSelf || strings.ContainsAny(s, "\"\r\n\x00") {
		return 0, fmt.Errorf("%q is not one character of ASCII: give one, such as ';', or tab", s)
	}
	return rune(s[0]), nil
}

// DelimiterHint says that the columns of a CSV file are probably separated by another character
// than the comma. It is empty unless there is one column, and its name has such a character.
func DelimiterHint(columns []string) string {
	if len(columns) != 1 {
		return ""
	}
	i := slices.IndexFunc([]string{";", "\t", "|"}, func(s string) bool { return strings.Contains(columns[0], s) })
	if i < 0 {
		return ""
	}
	return "; if the columns are separated by " + []string{"semicolons, give --delimiter ';'", "tabs, give --delimiter tab", "bars, give --delimiter '|'"}[i]
}
