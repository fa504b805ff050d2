// Package sample draws a token from a row of logits. It applies penalties, temperature and
// truncation. The random number of a draw depends only on the seed, the position and the choice, so
// that a request gets the same tokens in any batch and after any retry.
//
// The order of the edits and the meaning of each setting are the same as in vLLM's V1 sampler:
// excluded ids, logit bias, repetition, frequency and presence penalties, temperature, min-p,
// top-k, top-p.
package sample

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/ingot-run/ingot/engine/generation"
)

// Sampler draws the tokens of one sequence. It records the tokens so far if penalties need them. It
// is not safe for concurrent use.
type Sampler struct {
	params   generation.Sampling
	choice   int
	bias     []bias
	prompt   []int32 // the prompt's distinct ids, ascending, shared by all choices; nil without a repetition penalty
	excluded []int32 // ids that cannot be drawn; see Exclude
	seen     history
}

type bias struct {
	id    int32
	value float32
}

// history has the distinct tokens of an answer, in the order in which they first occurred.
type history struct {
	index  map[int32]int // index of an id in tokens; nil if no penalties apply
	tokens []seenToken
}

type seenToken struct {
	id       int32
	count    int  // number of occurrences in the answer
	inPrompt bool // whether the id is in Sampler.prompt
}

// Scratch is the working memory for drawing. Samplers that are used by the same goroutine share a
// Scratch. It grows to the size of the vocabulary once.
type Scratch struct {
	logits  []float32 // [vocab] logits after bias, penalties and exclusions
	ids     []int32   // [candidates]
	values  []float32 // [candidates] logits
	weights []float64 // [candidates]
	order   []int     // indices of the highest logits, by ascending id
	sums    [radixBuckets]float64
}

// New returns the sampler of a choice of a request. The parameters must be valid. New does not
// retain prompt.
func New(p generation.Sampling, choice int, prompt []int32) *Sampler {
	s := &Sampler{params: p, choice: choice}
	for _, id := range slices.Sorted(maps.Keys(p.LogitBias)) {
		s.bias = append(s.bias, bias{id: id, value: float32(p.LogitBias[id])})
	}
	if penalises(&p) {
		s.seen.index = make(map[int32]int)
	}
	if repeats(&p) {
		s.prompt = slices.Clone(prompt)
		slices.Sort(s.prompt)
		s.prompt = slices.Compact(s.prompt)
	}
	return s
}

// ForChoice returns the sampler of another choice of the same request. Both samplers share the data
// of the prompt. Call ForChoice before the first Accept.
func (s *Sampler) ForChoice(choice int) *Sampler {
	other := *s
	other.choice = choice
	if s.seen.index != nil {
		other.seen.index = make(map[int32]int)
	}
	return &other
}

// Exclude forbids the given ids until the next call of Exclude. It retains the slice.
func (s *Sampler) Exclude(ids []int32) { s.excluded = ids }

// Accept records that a token has become part of the answer.
func (s *Sampler) Accept(id int32) {
	if s.seen.index != nil {
		s.seen.add(id, s.prompt)
	}
}

// Sample draws the next token from logits. position is the token's position in the sequence. The
// caller calls Accept if the token becomes part of the answer.
func (s *Sampler) Sample(logits []float32, position int, w *Scratch) (int32, error) {
	d, err := s.distribution(logits, w)
	if err != nil {
		return 0, err
	}
	if len(d.IDs) == 1 {
		return d.IDs[0], nil
	}
	return d.Draw(s.uniform(position)), nil
}

func (s *Sampler) uniform(position int) float64 {
	return uniform(s.params.Seed, position, s.choice)
}

// distribution returns the tokens that can be drawn from logits, with their probabilities.
// Penalties depend on the accepted tokens. The result refers to w and is valid until w is used
// again. distribution does not change logits.
func (s *Sampler) distribution(logits []float32, w *Scratch) (distribution, error) {
	if err := checkFinite(logits); err != nil {
		return distribution{}, err
	}
	logits = s.edit(logits, w)
	best := argmax(logits)
	if top := float64(logits[best]); math.IsInf(top, 0) {
		return distribution{}, generation.BadRequest("no token can be drawn: after logit_bias, penalties and min_tokens, the highest logit is %g", top)
	}
	if s.params.Temperature == 0 {
		return w.only(int32(best)), nil
	}
	return w.truncate(logits, float64(logits[best]), &s.params), nil
}

// edit returns the logits after excluded ids, bias and penalties. If these change anything, the
// result is a copy in w.
func (s *Sampler) edit(logits []float32, w *Scratch) []float32 {
	if len(s.excluded) == 0 && len(s.bias) == 0 && len(s.prompt) == 0 && len(s.seen.tokens) == 0 {
		return logits
	}
	w.logits = append(w.logits[:0], logits...)
	for _, id := range s.excluded {
		w.logits[id] = float32(math.Inf(-1))
	}
	for _, b := range s.bias {
		w.logits[b.id] += b.value
	}
	for _, id := range s.prompt {
		w.logits[id] = s.repeat(w.logits[id])
	}
	for _, t := range s.seen.tokens {
		logit := w.logits[t.id]
		if !t.inPrompt {
			logit = s.repeat(logit)
		}
		w.logits[t.id] = s.penalise(logit, t.count)
	}
	return w.logits
}

// repeat applies the repetition penalty to the logit of a token of the prompt or the answer. The
// penalty divides a positive logit and multiplies a negative one.
func (s *Sampler) repeat(logit float32) float32 {
	p := &s.params
	switch {
	case !repeats(p):
		return logit
	case logit > 0:
		return logit / float32(p.RepetitionPenalty)
	}
	return logit * float32(p.RepetitionPenalty)
}

// penalise applies the presence and frequency penalties to the logit of a token that occurs count
// times in the answer. The presence penalty is subtracted once, and the frequency penalty is
// subtracted count times.
func (s *Sampler) penalise(logit float32, count int) float32 {
	logit -= float32(s.params.FrequencyPenalty * float64(count))
	return logit - float32(s.params.PresencePenalty)
}

// add counts a token of the answer. prompt has the distinct ids of the prompt in ascending order.
func (h *history) add(id int32, prompt []int32) {
	at, ok := h.index[id]
	if !ok {
		at = len(h.tokens)
		h.index[id] = at
		_, inPrompt := slices.BinarySearch(prompt, id)
		h.tokens = append(h.tokens, seenToken{id: id, inPrompt: inPrompt})
	}
	h.tokens[at].count++
}

func argmax(logits []float32) int {
	best := 0
	for i, l := range logits {
		if l > logits[best] {
			best = i
		}
	}
	return best
}

// exponent is the bit mask of a float32's exponent. All its bits are 1 only in infinities and NaNs.
const exponent = 0x7f800000

func checkFinite(logits []float32) error {
	if len(logits) == 0 {
		return fmt.Errorf("%w: the model returned none", generation.ErrNotFinite)
	}
	for id, l := range logits {
		if math.Float32bits(l)&exponent == exponent {
			return fmt.Errorf("%w: the logit of token %d is %g", generation.ErrNotFinite, id, l)
		}
	}
	return nil
}

// penalises reports whether the settings have a penalty, so that earlier tokens change the logits.
func penalises(p *generation.Sampling) bool {
	return repeats(p) || p.PresencePenalty != 0 || p.FrequencyPenalty != 0
}

func repeats(p *generation.Sampling) bool {
	return p.RepetitionPenalty != 0 && p.RepetitionPenalty != 1
}
