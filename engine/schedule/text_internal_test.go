package schedule

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The text before the first place at which a stop string ends, in the whole text, is what the pieces give one by one.
func TestStopStringsAcrossPieces(t *testing.T) {
	t.Parallel()
	text := rapid.StringOfN(rapid.RuneFrom([]rune("abé")), 0, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		stops := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("abé")), 1, 4, -1), 0, 3).Draw(t, "stops")
		pieces := rapid.SliceOfN(text, 0, 6).Draw(t, "pieces")
		free := rapid.IntRange(0, 3).Draw(t, "pieces before stops")

		a, got := newAnswerText(stops), -1
		whole, want, reason := "", "", -1
		shown := 0 // bytes that were certain
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
			require.Equal(t, longestBeginning(whole, stops), len(whole)-certain, "no more is held back than a stop string may need")
			shown = certain
		}
		require.Equal(t, want, string(a.text))
		require.LessOrEqual(t, shown, len(want), "what was certain is not part of the stop string")
		if reason < 0 {
			require.Equal(t, -1, got)
		} else {
			require.Equal(t, stops[reason], stops[got])
		}
	})
}

// firstStop looks at every place of the text for a stop string that ends after byte before.
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

// longestBeginning is the length of the longest end of a text with which one of the stop strings begins, without being complete.
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
