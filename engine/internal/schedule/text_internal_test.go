package schedule

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Searching piece by piece finds the same stop string as searching the whole text.
func TestStopStringsAcrossPieces(t *testing.T) {
	t.Parallel()
	text := rapid.StringOfN(rapid.RuneFrom([]rune("abé")), 0, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		stops := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("abé")), 1, 4, -1), 0, 3).Draw(t, "stops")
		pieces := rapid.SliceOfN(text, 0, 6).Draw(t, "pieces")
		free := rapid.IntRange(0, 3).Draw(t, "pieces before stops")

		a, got := newAnswerText(stops), -1
		whole, want, reason := "", "", -1
		shown := 0 // length of the text that certain has returned
		for i, piece := range pieces {
			a.text = append(a.text, piece...)
			got = a.findStop(i >= free)
			before := len(whole)
			whole += piece
			want, reason = firstStop(whole, before, stops, i >= free)
			if got >= 0 {
				break
			}
			certain := a.certain(shown)
			require.GreaterOrEqual(t, certain, shown)
			require.Equal(t, longestBeginning(whole, stops), len(whole)-certain, "certain holds back only a possible beginning of a stop string")
			shown = certain
		}
		require.Equal(t, want, string(a.text))
		require.LessOrEqual(t, shown, len(want), "text returned by certain is not part of the stop string")
		if reason < 0 {
			require.Equal(t, -1, got)
		} else {
			require.Equal(t, stops[reason], stops[got])
		}
	})
}

// firstStop tries every offset of the text for a stop string, except those that end within
// text[:before]. If on is false, it finds nothing.
func firstStop(text string, before int, stops []string, on bool) (cut string, stop int) {
	for at := 0; on && at < len(text); at++ {
		for i, s := range stops {
			if strings.HasPrefix(text[at:], s) && at+len(s) > before {
				return text[:at], i
			}
		}
	}
	return text, -1
}

// longestBeginning returns the length of the maxBatchStep suffix of a text that is an incomplete
// beginning of a stop string.
func longestBeginning(text string, stops []string) (n int) {
	for _, s := range stops {
		for i := range len(s) {
			if strings.HasSuffix(text, s[:i]) {
				n = max(n, i)
			}
		}
	}
	return n
}

// Of stop strings that begin at one place, also at the start of the text, the first one counts.
func TestStopStringsThatBeginTogether(t *testing.T) {
	t.Parallel()
	a := newAnswerText([]string{"ab", "a", "abc"})
	a.text = []byte("abc")
	require.Zero(t, a.findStop(true))
	require.Empty(t, a.text)
}
