package main

import (
	"strconv"
	"strings"
	"unicode"
)

// printable escapes the characters of a text that control a terminal or change the direction of text. It uses Go's escapes, such as \x1b.
func printable(s string) string {
	const joiners = "\u200c\u200d" // parts of words in some scripts, and of emoji
	var b strings.Builder
	for _, r := range s {
		if r == '\t' || unicode.IsPrint(r) || strings.ContainsRune(joiners, r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}
