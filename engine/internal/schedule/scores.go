package schedule

import (
	"strings"

	"github.com/ingot-run/ingot/engine/generation"

	"github.com/ingot-run/ingot/engine/internal/sample"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// scores has the log-probabilities of successive tokens, and of the most likely tokens at each of
// their positions.
type scores struct {
	top   int       // number of most likely tokens per position
	ids   []int32   // [tokens]
	of    []float64 // [tokens] log-probabilities
	topID []int32   // [tokens*top] ids of the most likely tokens
	topOf []float64 // [tokens*top] their log-probabilities
}

func (s *scores) add(id int32, logits []float32) error {
	sum, err := sample.LogSumExp(logits)
	if err != nil {
		return err
	}
	s.ids = append(s.ids, id)
	s.of = append(s.of, float64(logits[id])-sum)
	from := len(s.topID)
	s.topID = sample.Top(s.topID, logits, s.top)
	for _, t := range s.topID[from:] {
		s.topOf = append(s.topOf, float64(logits[t])-sum)
	}
	return nil
}

// addBest is like add, for a row of which only the highest logits, at least s.top, and the token's
// logit are known.
func (s *scores) addBest(id int32, logit float32, best sample.Best) error {
	sum, err := best.LogSumExp()
	if err != nil {
		return err
	}
	s.ids = append(s.ids, id)
	s.of = append(s.of, float64(logit)-sum)
	for i := range s.top {
		s.topID = append(s.topID, best.ID(i))
		s.topOf = append(s.topOf, float64(best.Logit(i))-sum)
	}
	return nil
}

func (s *scores) appendTo(to *scores, from int) {
	to.ids = append(to.ids, s.ids[from:]...)
	to.of = append(to.of, s.of[from:]...)
	to.topID = append(to.topID, s.topID[from*s.top:]...)
	to.topOf = append(to.topOf, s.topOf[from*s.top:]...)
}

// scoreBytes is the number of bytes of memory per log-probability: about 80 bytes in a completion,
// 100 in the JSON made from it, and 75 in each of three copies of the JSON on its way to the
// output.
const scoreBytes = 400

func (s *scores) logprobs(n names) []generation.TokenLogprob {
	all := make([]generation.TokenLogprob, len(s.ids))
	tops := make([]generation.TokenLogprob, len(s.topID))
	for i, id := range s.topID {
		tops[i] = n.of(id)
		tops[i].Logprob = s.topOf[i]
	}
	for i, id := range s.ids {
		all[i] = n.of(id)
		all[i].Logprob = s.of[i]
		if s.top > 0 {
			all[i].Top = tops[i*s.top : (i+1)*s.top : (i+1)*s.top]
		}
	}
	return all
}

type names struct {
	tokenizer *tokenizer.Tokenizer
	named     map[int32]generation.TokenLogprob
}

func newNames(t *tokenizer.Tokenizer) names {
	return names{t, map[int32]generation.TokenLogprob{}}
}

// of returns a token with its text: what the token adds to an answer, or the name of a control
// token.
func (n names) of(id int32) generation.TokenLogprob {
	if have, ok := n.named[id]; ok {
		return have
	}
	b := n.tokenizer.Bytes(id)
	if b == nil {
		b = []byte(n.tokenizer.Token(id))
	}
	made := generation.TokenLogprob{ID: id, Text: strings.ToValidUTF8(string(b), "\uFFFD"), Bytes: b}
	n.named[id] = made
	return made
}
