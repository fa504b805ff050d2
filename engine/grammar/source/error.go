// Package source says where in the text of a constraint something cannot be kept.
package source

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error means that a constraint cannot be kept in full, or is not well formed. It names the place.
type Error struct {
	Path    string // in a JSON Schema, the JSON pointer to the keyword: "/properties/a/contains"
	Line    int    // in a grammar, from 1
	Column  int    // in a grammar, in characters, from 1
	Offset  int    // in a regular expression, in bytes
	Message string // what is wrong there and what to do about it
}

func (e *Error) Error() string {
	switch {
	case e.Line > 0:
		return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
	case e.Path != "":
		return fmt.Sprintf("%s: %s", e.Path, e.Message)
	}
	return e.Message
}

// At returns an error at an offset in bytes of the text of a grammar.
func At(text string, offset int, format string, args ...any) *Error {
	before := text[:min(offset, len(text))]
	line := 1 + strings.Count(before, "\n")
	column := 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	return &Error{Line: line, Column: column, Offset: offset, Message: fmt.Sprintf(format, args...)}
}

// Quote quotes a text for an error, and cuts a long one.
func Quote(text string) string {
	const limit = 60
	if len(text) <= limit {
		return fmt.Sprintf("%q", text)
	}
	cut := limit
	for cut > limit-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return fmt.Sprintf("%q...", text[:cut])
}
