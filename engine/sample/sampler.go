// Package sample goes from a row of logits to a token: penalties, temperature, truncation, and a draw that depends on the
// seed, the position and the choice alone, so that a row gets the same tokens in any batch and after any retry.
//
// The order of the edits and what each setting means are vLLM's (its V1 sampler): ruled-out ids, logit bias, repetition,
// frequency and presence penalties, temperature, min-p, top-k, top-p.
package sample

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/ingot-run/ingot/generation"
)

// ErrNotFinite is wrapped by the errors of logits that hold a NaN or an infinity, which only a broken model or a broken
// step can give.
var ErrNotFinite = errors.New("logits are not finite")

// Sampler draws the tokens of one sequence. It knows the tokens so far as far as the penalties need them. It is not safe
// for concurrent use.
type Sampler struct {
	params generation.Sampling
	choice int
	bias   []bias
	barred []int32 // ids that cannot be drawn
	seen   history
}

type bias struct {
	id    int32
	value float32
}

// history is the distinct tokens of a sequence, in the order in which they came.
type history struct {
	place map[int32]int // of an id in tokens; nil where the penalties are off
	token []seenToken
}

type seenToken struct {
	id    int32
	count int // times in the answer; 0 for tokens of the prompt alone
}

// Scratch is the working memory of drawing. Samplers that take turns on one goroutine share one; it grows to the size of
// the vocabulary and stays there.
type Scratch struct {
	logits  []float32 // [vocab] edited
	ids     []int32   // [candidates]
	values  []float32 // [candidates] logits
	weights []float64 // [candidates]
	places  []int     // of the highest logits, by ascending id
	sums    [radixBuckets]float64
}

// New returns the sampler of choice number choice of a request with these parameters, which must be valid. It keeps
// nothing of prompt.
func New(p generation.Sampling, choice int, prompt []int32) *Sampler {
	s := &Sampler{params: p, choice: choice}
	for _, id := range slices.Sorted(maps.Keys(p.LogitBias)) {
		s.bias = append(s.bias, bias{id: id, value: float32(p.LogitBias[id])})
	}
	if penalises(&p) {
		s.seen.place = make(map[int32]int)
	}
	if repeats(&p) {
		for _, id := range prompt {
			s.seen.add(id, 0)
		}
	}
	return s
}

// Bar rules ids out until the next call of Bar: they cannot be drawn, whatever their logits and bias. The slice is kept.
func (s *Sampler) Bar(ids []int32) { s.barred = ids }

// Accept tells the sampler that a token has become part of the answer.
func (s *Sampler) Accept(id int32) {
	if s.seen.place != nil {
		s.seen.add(id, 1)
	}
}

// Sample draws the token that follows logits and will stand at the given position of the sequence. Accept has to follow
// if the token is kept.
func (s *Sampler) Sample(logits []float32, position int, w *Scratch) (int32, error) {
	d, err := s.Distribution(logits, w)
	if err != nil {
		return 0, err
	}
	if len(d.IDs) == 1 {
		return d.IDs[0], nil
	}
	return d.Draw(s.Uniform(position)), nil
}

// Uniform is the random number in [0, 1) with which the token at a position is drawn.
func (s *Sampler) Uniform(position int) float64 {
	return Uniform(s.params.Seed, position, s.choice)
}

// Distribution is what the parameters make of logits: the tokens that can be drawn after the tokens accepted so far, with
// their probabilities. It is a view of w, valid until w is used again. logits is not changed.
func (s *Sampler) Distribution(logits []float32, w *Scratch) (Distribution, error) {
	if err := checkFinite(logits); err != nil {
		return Distribution{}, err
	}
	logits = s.edit(logits, w)
	best := argmax(logits)
	if top := float64(logits[best]); math.IsInf(top, 0) {
		return Distribution{}, fmt.Errorf("bias, penalties and ruled-out ids leave no token: the best logit is %g: %w", top, ErrNotFinite)
	}
	if s.params.Temperature == 0 {
		return w.only(int32(best)), nil
	}
	return w.truncate(logits, float64(logits[best]), &s.params), nil
}

// edit applies ruled-out ids, bias and penalties, to a copy where there are any.
func (s *Sampler) edit(logits []float32, w *Scratch) []float32 {
	if len(s.barred) == 0 && len(s.bias) == 0 && len(s.seen.token) == 0 {
		return logits
	}
	w.logits = append(w.logits[:0], logits...)
	for _, id := range s.barred {
		w.logits[id] = float32(math.Inf(-1))
	}
	for _, b := range s.bias {
		w.logits[b.id] += b.value
	}
	for _, t := range s.seen.token {
		w.logits[t.id] = s.penalise(w.logits[t.id], t.count)
	}
	return w.logits
}

// penalise lowers the logit of a token that came before, count times of it in the answer. Repetition divides a positive
// logit and multiplies a negative one; presence takes its penalty once, frequency as often as the token came.
func (s *Sampler) penalise(logit float32, count int) float32 {
	p := &s.params
	if repeats(p) {
		if logit > 0 {
			logit /= float32(p.RepetitionPenalty)
		} else {
			logit *= float32(p.RepetitionPenalty)
		}
	}
	if count > 0 {
		logit -= float32(p.FrequencyPenalty * float64(count))
		logit -= float32(p.PresencePenalty)
	}
	return logit
}

func (h *history) add(id int32, times int) {
	at, ok := h.place[id]
	if !ok {
		at = len(h.token)
		h.place[id] = at
		h.token = append(h.token, seenToken{id: id})
	}
	h.token[at].count += times
}

// argmax is the index of the highest logit, the first of equals.
func argmax(logits []float32) int {
	best := 0
	for i, l := range logits {
		if l > logits[best] {
			best = i
		}
	}
	return best
}

// exponent masks the exponent of a float32, which is all ones in infinities and NaNs alone.
const exponent = 0x7f800000

func checkFinite(logits []float32) error {
	if len(logits) == 0 {
		return fmt.Errorf("there are none: %w", ErrNotFinite)
	}
	for id, l := range logits {
		if math.Float32bits(l)&exponent == exponent {
			return fmt.Errorf("the logit of token %d is %g: %w", id, l, ErrNotFinite)
		}
	}
	return nil
}

// penalises reports whether the tokens seen so far change the logits.
func penalises(p *generation.Sampling) bool {
	return repeats(p) || p.PresencePenalty != 0 || p.FrequencyPenalty != 0
}

func repeats(p *generation.Sampling) bool {
	return p.RepetitionPenalty != 0 && p.RepetitionPenalty != 1
}
