package eval

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAlign checks the offsets of tokens for the different ways in which servers give them.
func TestAlign(t *testing.T) {
	t.Parallel()
	one := -1.0
	for name, c := range map[string]struct {
		tokens  []string
		offsets []int // as the server gives them
		first   *float64
		want    []int
	}{
		"none given":              {[]string{"Né", " y", "ou"}, nil, nil, []int{0, 2, 4}},
		"one generated":           {[]string{"Né", " you", "!"}, []int{0, 2, 6}, nil, []int{0, 2, 6}},
		"counted in bytes":        {[]string{"Né", " you"}, []int{0, 3}, nil, []int{0, 2}},
		"a token before the text": {[]string{"<s>", "Né", " you", "!"}, []int{0, 3, 5, 9}, nil, []int{-1, 0, 2, 6}},
		"parts of characters":     {[]string{"N", "\uFFFD", "\uFFFD", " you"}, []int{0, 1, 1, 2}, nil, []int{0, 1, 1, 2}},
		"both":                    {[]string{"<s>", "N", "\uFFFD", " you"}, []int{0, 3, 4, 5}, nil, []int{-3, 0, 1, 2}},
		"another text":            {[]string{"A", "B"}, []int{0, 1}, &one, []int{0, 1}},
	} {
		s := scored{Tokens: c.tokens, Offsets: c.offsets, Logprobs: []*float64{c.first}}
		s.align("Né you")
		require.Equal(t, c.want, s.Offsets, name)
	}
}

// A first token without text and log-probability stands before the text. Offsets are shifted only
// if the server counts a token that is not in the text.
func TestTokensBeforeTheText(t *testing.T) {
	t.Parallel()
	one := -1.0
	for name, c := range map[string]struct {
		tokens   []string
		logprobs []*float64
		offsets  []int
		want     []int
	}{
		"an empty token":                     {[]string{"", "Né", " you"}, []*float64{nil, &one, &one}, nil, []int{-1, 0, 2}},
		"an empty token alone":               {[]string{""}, []*float64{nil}, nil, []int{-1}},
		"an empty token with a value":        {[]string{"", "Né"}, []*float64{&one, &one}, nil, []int{0, 0}},
		"no values":                          {[]string{"", "Né"}, nil, nil, []int{0, 0}},
		"another token alone":                {[]string{"<s>"}, []*float64{nil}, []int{0}, []int{-1}},
		"another token without values":       {[]string{"<s>", "N"}, nil, []int{0, 3}, []int{0, 3}},
		"two offsets":                        {[]string{"<s>", "\uFFFD"}, []*float64{nil, &one}, []int{0, 3}, []int{-3, 0}},
		"one offset":                         {[]string{"<s>", "\uFFFD"}, []*float64{nil, &one}, []int{0}, []int{0}},
		"the text begins with the token":     {[]string{"N", "\uFFFD"}, []*float64{nil, &one}, []int{0, 1}, []int{0, 1}},
		"the token is not counted":           {[]string{"<s>", "\uFFFD", "y"}, []*float64{nil, &one, &one}, []int{0, 0, 3}, []int{0, 0, 3}},
		"the first offset is not 0":          {[]string{"<s>", "\uFFFD", "y"}, []*float64{nil, &one, &one}, []int{1, 3, 5}, []int{1, 3, 5}},
		"an empty token later than the text": {[]string{"Né you", ""}, []*float64{nil, nil}, nil, []int{0, 6}},
	} {
		s := scored{Tokens: c.tokens, Offsets: c.offsets, Logprobs: c.logprobs}
		s.align("Né you")
		require.Equal(t, c.want, s.Offsets, name)
	}
}

// The first token is left out if it has no log-probability and stands before the text, or is a
// control token.
func TestFirstTokensThatAreSkipped(t *testing.T) {
	t.Parallel()
	one := -1.0
	top := []map[string]float64{nil, {"b": -1}}
	for name, c := range map[string]struct {
		s    scored
		left int
	}{
		"before the text":             {scored{Tokens: []string{"<s>", "b"}, Offsets: []int{-1, 0}, Logprobs: []*float64{nil, &one}, Top: top}, 1},
		"an empty one":                {scored{Tokens: []string{"", "b"}, Offsets: []int{-1, 0}, Logprobs: []*float64{nil, &one}, Top: top}, 1},
		"a control token of the text": {scored{Tokens: []string{"[gMASK]", "b"}, Offsets: []int{0, 7}, Logprobs: []*float64{nil, &one}, Top: top}, 1},
		"without alternatives":        {scored{Tokens: []string{"<s>", "b"}, Offsets: []int{-1, 0}, Logprobs: []*float64{nil, &one}}, 1},
		"with a value":                {scored{Tokens: []string{"<s>", "b"}, Offsets: []int{-1, 0}, Logprobs: []*float64{&one, &one}, Top: top}, 2},
		"a word of the text":          {scored{Tokens: []string{"[gMASK", "b"}, Offsets: []int{0, 6}, Logprobs: []*float64{nil, &one}, Top: top}, 2},
		"no tokens":                   {scored{Offsets: []int{0}, Logprobs: []*float64{nil}}, 0},
		"no offsets":                  {scored{Tokens: []string{"<s>"}, Logprobs: []*float64{nil}}, 1},
		"no values":                   {scored{Tokens: []string{"<s>"}, Offsets: []int{0}}, 1},
		"nothing":                     {scored{}, 0},
	} {
		before := c.s
		c.s.skipFirst("[gMASK]b")
		if c.left == len(before.Tokens) {
			require.Equal(t, before, c.s, name)
			continue
		}
		require.Equal(t, scored{Tokens: before.Tokens[1:], Offsets: before.Offsets[1:], Logprobs: before.Logprobs[1:], Top: before.Top[min(1, len(before.Top)):]}, c.s, name)
	}
}

// The first token of a text without context has no log-probability on some servers, which the
// reason says; a text of one token says nothing about the server.
func TestReasonsOfMissingLogprobs(t *testing.T) {
	t.Parallel()
	one := -1.0
	for name, c := range map[string]struct {
		context  string
		logprobs []*float64
		want     bool
	}{
		"without context":      {"", []*float64{nil, &one}, true},
		"spaces alone":         {" \n", []*float64{nil, &one}, true},
		"with a context":       {"a", []*float64{nil, &one}, false},
		"the first has one":    {"", []*float64{&one, nil}, false},
		"one token":            {"", []*float64{nil}, false},
		"no log-probabilities": {"", nil, false},
	} {
		s := scored{Logprobs: c.logprobs}
		require.Equal(t, c.want, s.missing("why", c.context) != "why", name)
	}
}

// TestBetween checks that sums cover only the given range, and that a missing log-probability gives
// no sum.
func TestBetween(t *testing.T) {
	t.Parallel()
	a, b, c := -1.0, -2.0, -4.0
	s := scored{Tokens: []string{"x", "y", "z"}, Offsets: []int{0, 1, 2}, Logprobs: []*float64{nil, &a, &b}, Top: []map[string]float64{nil, {"y": a}, {"other": a, "z": b}}}
	sum, greedy, ok := s.between(1, 2)
	require.InDelta(t, -1, sum, 0)
	require.True(t, greedy && ok)
	sum, greedy, ok = s.between(1, 3)
	require.InDelta(t, -3, sum, 0)
	require.True(t, ok)
	require.False(t, greedy, "another token is likelier at one position")
	_, _, ok = s.between(0, 3)
	require.False(t, ok, "the first token has no log-probability")
	_, _, ok = (&scored{Offsets: []int{0, 1}, Logprobs: []*float64{&a}}).between(0, 2)
	require.False(t, ok, "the last token has no log-probability")
	_, _, ok = s.between(3, 9)
	require.False(t, ok, "no token begins in the range")
	s = scored{Offsets: []int{0, 1}, Logprobs: []*float64{&c, &c}}
	_, greedy, ok = s.between(0, 2)
	require.True(t, ok)
	require.False(t, greedy, "without top log-probabilities, greedy is false")
}
