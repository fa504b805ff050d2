package generation

import (
	"fmt"
	"math"
)

// Sampling has the settings for drawing tokens from logits. The zero value is greedy without
// penalties.
type Sampling struct {
	Temperature       float64           // 0 selects the highest logit after bias and penalties; of equal logits, the lowest id
	TopK              int               // keeps this number of most likely tokens, and tokens as likely as the last of them; 0 keeps all
	TopP              float64           // keeps the fewest tokens, most likely first, whose probabilities sum to at least this; 0 and 1 keep all
	MinP              float64           // keeps tokens with at least this fraction of the most likely token's probability; 0 keeps all
	RepetitionPenalty float64           // applied to tokens of the prompt and the answer (Keskar et al. 2019); 0 and 1 have no effect
	PresencePenalty   float64           // as OpenAI defines it, for tokens of the answer
	FrequencyPenalty  float64           // as OpenAI defines it, for tokens of the answer
	LogitBias         map[int32]float64 // added to logits, by token id
	Seed              uint64
}

// minRepetition is the minimum repetition penalty above 0. A logit divided by a smaller penalty
// could become infinite.
const minRepetition = 1e-6

// Numbers lists the settings that are real numbers, with their ranges.
var Numbers = []struct {
	Name      string
	Low, High float64
	Of        func(*Sampling) *float64
}{
	{"temperature", 0, math.MaxFloat64, func(p *Sampling) *float64 { return &p.Temperature }},
	{"top_p", 0, 1, func(p *Sampling) *float64 { return &p.TopP }},
	{"min_p", 0, 1, func(p *Sampling) *float64 { return &p.MinP }},
	{"repetition_penalty", 0, 1e6, func(p *Sampling) *float64 { return &p.RepetitionPenalty }},
	{"presence_penalty", -1e6, 1e6, func(p *Sampling) *float64 { return &p.PresencePenalty }},
	{"frequency_penalty", -1e6, 1e6, func(p *Sampling) *float64 { return &p.FrequencyPenalty }},
}

// Validate returns an error for the first setting that is out of range for a vocabulary of the
// given size.
func (p *Sampling) Validate(vocab int) error {
	for _, n := range Numbers {
		switch v := *n.Of(p); {
		case v >= n.Low && v <= n.High: // false for NaN
		case n.High == math.MaxFloat64:
			return fmt.Errorf("%s is %g, but must be a number of at least %g", n.Name, v, n.Low)
		default:
			return fmt.Errorf("%s is %g, but must be between %g and %g", n.Name, v, n.Low, n.High)
		}
	}
	if r := p.RepetitionPenalty; r > 0 && r < minRepetition {
		return fmt.Errorf("repetition_penalty is %g, but must be 0 or at least %g", r, minRepetition)
	}
	if p.TopK < 0 || p.TopK > math.MaxInt32 {
		return fmt.Errorf("top_k is %d, but must be from 0 (no limit) to %d", p.TopK, math.MaxInt32)
	}
	for id, bias := range p.LogitBias {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("\"logit_bias\" names token %d, but the vocabulary has ids 0 to %d", id, vocab-1)
		}
		if !(math.Abs(bias) <= 1e6) {
			return fmt.Errorf("\"logit_bias\" of token %d is %g, but must be between -1e6 and 1e6", id, bias)
		}
	}
	return nil
}
