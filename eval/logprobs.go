package eval

import (
	"strings"
	"unicode/utf8"
)

// scored are the log-probabilities of a text's tokens.
type scored struct {
	Tokens   []string             `json:"tokens"`
	Logprobs []*float64           `json:"token_logprobs"`
	Top      []map[string]float64 `json:"top_logprobs"`
	Offsets  []int                `json:"text_offset"`
}

// align sets the offsets of tokens in a text. Some servers give none; others count a token before the text, such as the token that begins
// every text. Tokens whose text is not in the text, such as parts of characters, keep the server's offsets.
func (s *scored) align(text string) {
	offsets := make([]int, len(s.Tokens))
	rest := text
	for i, token := range s.Tokens {
		offsets[i] = length(text) - length(rest)
		after, ok := strings.CutPrefix(rest, token)
		switch {
		case ok:
			rest = after
		case rest == "": // generated after it
		case i == 0 && len(s.Logprobs) > 0 && s.Logprobs[0] == nil:
			offsets[0] = -1
		default:
			s.shift(offsets[0])
			return
		}
	}
	s.Offsets = offsets
}

// shift corrects the offsets of a server that counts a first token which is not part of the text.
func (s *scored) shift(first int) {
	if before := length(s.Tokens[0]); first < 0 && len(s.Offsets) > 1 && s.Offsets[0] == 0 && s.Offsets[1] == before {
		for i := range s.Offsets {
			s.Offsets[i] -= before
		}
	}
}

// between adds up the log-probabilities of the tokens whose first character is in [from, to). greedy reports whether each of them is the
// likeliest token at its position. ok is false if there is no such token, or if one has no log-probability.
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

// skipFirst leaves out the first token if it has no log-probability, because nothing precedes it.
func (s *scored) skipFirst() {
	if len(s.Logprobs) > 0 && len(s.Offsets) > 0 && len(s.Tokens) > 0 && s.Logprobs[0] == nil {
		s.Logprobs, s.Offsets, s.Tokens = s.Logprobs[1:], s.Offsets[1:], s.Tokens[1:]
		s.Top = s.Top[min(1, len(s.Top)):]
	}
}

// boundary is where the continuation of a context begins, in characters: spaces at the end of a context belong to the continuation.
func boundary(context string) int { return length(strings.TrimRight(context, " \t\n")) }

// length is the length of a text in characters, as offsets count them.
func length(text string) int { return utf8.RuneCountInString(text) }
