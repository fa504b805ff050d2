package schedule

import "bytes"

type answerText struct {
	text     []byte
	stops    [][]byte
	searched int // length of text after the last search; the next search finds only stop strings that end after it
}

func newAnswerText(stops []string) answerText {
	var a answerText
	for _, s := range stops {
		a.stops = append(a.stops, []byte(s))
	}
	return a
}

// certain returns how many leading bytes of the text cannot become part of a stop string, whatever
// follows. from is an earlier result: the bytes before it are not checked again.
func (a *answerText) certain(from int) int {
	for i := from; i < len(a.text); i++ {
		for _, s := range a.stops {
			if len(s) > len(a.text)-i && bytes.HasPrefix(s, a.text[i:]) {
				return i
			}
		}
	}
	return len(a.text)
}

// findStop searches for a stop string that ends in the text appended since the last search. If
// there are several, it takes the one that begins first. It removes the stop string and everything
// after it from the text, and returns the index of the string in a.stops, or -1 if there is none.
// If mayEnd is false, nothing is searched: stop strings that end in the new text stay part of the
// text.
func (a *answerText) findStop(mayEnd bool) int {
	found, at := -1, len(a.text)
	if mayEnd {
		for i, s := range a.stops {
			from := max(0, a.searched-len(s)+1)
			if j := bytes.Index(a.text[from:], s); j >= 0 && from+j < at {
				found, at = i, from+j
			}
		}
	}
	a.text = a.text[:at]
	a.searched = at
	return found
}
