package engine

import "bytes"

// answerText is the text of a choice as it grows, watched for stop strings.
type answerText struct {
	text    []byte
	stops   [][]byte
	watched int // bytes of text in which no stop string may end any more
}

func newAnswerText(stops []string) answerText {
	var a answerText
	for _, s := range stops {
		a.stops = append(a.stops, []byte(s))
	}
	return a
}

// watch looks for a stop string that ends in what was appended to the text since it looked last. Where there is one, it
// cuts the text before that string, the first of several, and returns the string's index. Otherwise it returns -1. While
// stops is false, stop strings that end in the new text are part of the text for good.
func (a *answerText) watch(stops bool) int {
	found, at := -1, len(a.text)
	if stops {
		for i, s := range a.stops {
			from := max(0, a.watched-len(s)+1)
			if j := bytes.Index(a.text[from:], s); j >= 0 && from+j < at {
				found, at = i, from+j
			}
		}
	}
	a.text = a.text[:at]
	a.watched = at
	return found
}
