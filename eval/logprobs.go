package eval

import (
	"regexp"
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
		case i == 0 && token == "" && len(s.Logprobs) > 0 && s.Logprobs[0] == nil:
			offsets[0] = -1
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

// missing returns the reason why a text after a context has no log-probability.
func (s *scored) missing(reason, context string) string {
	if boundary(context) == 0 && len(s.Logprobs) > 1 && s.Logprobs[0] == nil {
		reason += ": the server does not score the first token of a text, because the model has no BOS token and the server does not know the field prefix_token: use a context (doc_to_text), or Ingot"
	}
	return reason
}

// skipFirst removes the first token if it has no log-probability and is not to be scored: if it
// stands before the text, such as <s>, or if it is a control token at the beginning of the text.
// Servers give no log-probability to a token with nothing before it.
func (s *scored) skipFirst(text string) {
	if len(s.Logprobs) == 0 || len(s.Offsets) == 0 || len(s.Tokens) == 0 || s.Logprobs[0] != nil {
		return
	}
	if first := s.Tokens[0]; first == "" || !strings.HasPrefix(text, first) || control.MatchString(first) {
		s.Logprobs, s.Offsets, s.Tokens = s.Logprobs[1:], s.Offsets[1:], s.Tokens[1:]
		s.Top = s.Top[min(1, len(s.Top)):]
	}
}

// control matches the text of a control token such as <|endoftext|> or [gMASK].
var control = regexp.MustCompile(`^(<\S+>|\[\S+\])$`)

// boundary returns the offset, in characters, at which the continuation of a context begins. Spaces
// at the end of a context count as part of the continuation.
func boundary(context string) int { return length(strings.TrimRight(context, " \t\n")) }

// length returns the length of a text in characters, the unit of offsets.
func length(text string) int { return utf8.RuneCountInString(text) }
