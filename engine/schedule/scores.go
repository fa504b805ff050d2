package schedule

import (
	"strings"

	"github.com/ingot-run/ingot/generation"

	"github.com/ingot-run/ingot/engine/sample"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// scores is log-probabilities as the loop collects them: of tokens, and of the likeliest alternatives at each.
type scores struct {
	top   int
	ids   []int32   // [tokens]
	of    []float64 // [tokens]
	topID []int32   // [tokens*top]
	topOf []float64 // [tokens*top]
}

// add scores a token by the logits from which it follows.
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

// addBest is add for a row of which only the highest logits are known, at least top of them.
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

// logprobs names the tokens.
func (s *scores) logprobs(t *tokenizer.Tokenizer) []generation.TokenLogprob {
	all := make([]generation.TokenLogprob, len(s.ids))
	for i, id := range s.ids {
		all[i] = named(t, id)
		all[i].Logprob = s.of[i]
		for j := i * s.top; j < (i+1)*s.top; j++ {
			top := named(t, s.topID[j])
			top.Logprob = s.topOf[j]
			all[i].Top = append(all[i].Top, top)
		}
	}
	return all
}

// named is a token with its text: what it adds to an answer, or a control token's name.
func named(t *tokenizer.Tokenizer, id int32) generation.TokenLogprob {
	b := t.Bytes(id)
	if b == nil {
		b = []byte(t.Token(id))
	}
	return generation.TokenLogprob{ID: id, Text: strings.ToValidUTF8(string(b), "\uFFFD"), Bytes: b}
}
