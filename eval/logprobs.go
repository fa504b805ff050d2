package eval

import (
	"strings"
	"unicode/utf8"
)

type scored struct {
	Tokens   []string             `json:"tokens"`
	Logprobs []*float64           `json:"token_logprobs"`
	Top      []map[string]float64 `json:"top_logprobs"`
	Offsets  []int                `json:"text_offset"`
}

// align sets the tokens' offsets in a text, in characters. Some servers give no offsets, and some
// count a token before the text, such as the beginning-of-sequence token. If a token is not found
// in the text, for example because it is part of a character, the server's offsets are used.
func (s *scored) align(text string) {
	offsets := make([]int, len(s.Tokens))
	rest := text
	for i, token := range s.Tokens {
		offsets[i] = length(text) - length(rest)
		after, ok := strings.CutPrefix(rest, token)
		switch {
		case ok:
			rest = after
		case rest == "": // the token was generated after the text
		case i == 0 && len(s.Logprobs) > 0 && s.Logprobs[0] == nil:
			offsets[0] = -1
		default:
			s.shift(offsets[0])
			return
		}
	}
	s.Offsets = offsets
}

// shift corrects the server's offsets if they count a first token that is not in the text, such as
// <s>: it subtracts the length of that token from every offset. first is the offset that align gave
// the first token. It is negative if the token is not in the text.
func (s *scored) shift(first int) {
	if before := length(s.Tokens[0]); first < 0 && len(s.Offsets) > 1 && s.Offsets[0] == 0 && s.Offsets[1] == before {
		for i := range s.Offsets {
			s.Offsets[i] -= before
		}
	}
}

// between sums the log-probabilities of the tokens whose offset is in [from, to). greedy reports
// whether each of these tokens is the likeliest at its position. ok is false if there is no such
// token, or if one of them has no log-probability.
func (s *scored) between(from, to int) (sum float64, greedy, ok bool) {
	greedy = true
	for i, offset := range s.Offsets {
		if offset < from || offset >= to {
			continue
		}
		if i >= len(s.Logprobs) || s.Logprobs[i] == nil {
			return 0, false, false
		}
		sum += *s.Logprobs[i]
		ok = true
		greedy = greedy && i < len(s.Top)
		if greedy {
			for _, p := range s.Top[i] {
				greedy = greedy && p <= *s.Logprobs[i]
			}
		}
	}
	return sum, greedy, ok
}

// skipFirst removes the first token if it has no log-probability. Servers give none to a token with
// nothing before it.
func (s *scored) skipFirst() {
	if len(s.Logprobs) > 0 && len(s.Offsets) > 0 && len(s.Tokens) > 0 && s.Logprobs[0] == nil {
		s.Logprobs, s.Offsets, s.Tokens = s.Logprobs[1:], s.Offsets[1:], s.Tokens[1:]
		s.Top = s.Top[min(1, len(s.Top)):]
	}
}

// boundary returns the offset, in characters, at which the continuation of a context begins. Spaces
// at the end of a context count as part of the continuation.
func boundary(context string) int { return length(strings.TrimRight(context, " \t\n")) }

// length returns the length of a text in characters, the unit of offsets.
func length(text string) int { return utf8.RuneCountInString(text) }
