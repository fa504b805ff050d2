package textfmt

import (
	"fmt"
	"strings"
)

// DidYouMean returns "; did you mean ...?" with the word that is most similar to a misspelt one. It
// is empty if more than a third of the characters differ from every word.
func DidYouMean(misspelt string, words []string) string {
	if near := Nearest(misspelt, words); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// Nearest returns the word that is most similar to a misspelt one. It is empty if more than a third
// of the characters differ from every word. Upper and lower case are the same.
func Nearest(misspelt string, words []string) string {
	best, found := (len(misspelt)+1)/3+1, ""
	for _, w := range words {
		if d := distance(strings.ToLower(misspelt), strings.ToLower(w)); d < best {
			best, found = d, w
		}
	}
	return found
}

// distance returns the Levenshtein distance of two texts in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
