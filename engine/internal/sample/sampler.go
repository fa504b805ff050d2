// Package sample turns the settings of a request into compute.Draw, with which a step chooses
// tokens, and reads what the step has chosen. The random number of a draw depends only on the seed,
// the position and the choice, so that a request gets the same tokens in any batch and after any
// retry.
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

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/generation"
)

// Sampler describes the draws of one sequence. It records the tokens so far if penalties need them.
// It is not safe for concurrent use.
type Sampler struct {
	draw   compute.Draw   // the settings; Edits, Position and Excluded tokens are added for each draw
	edits  []compute.Edit // bias, and tokens to which penalties apply
	index  map[int32]int  // index of a token in edits; nil if no setting needs edits
	shared bool           // other samplers use the same edits and index
}

// New returns the sampler of a choice of a request. The parameters must be valid. New does not
// retain prompt.
func New(p generation.Sampling, choice int, prompt []int32) *Sampler {
	s := &Sampler{draw: compute.Draw{
		Temperature: p.Temperature, MinP: p.MinP, TopK: p.TopK, TopP: p.TopP, Seed: p.Seed, Choice: choice,
		Repetition: float32(p.RepetitionPenalty), Presence: float32(p.PresencePenalty), Frequency: float32(p.FrequencyPenalty),
	}}
	if !s.draw.Penalises() && len(p.LogitBias) == 0 {
		return s
	}
	s.index = map[int32]int{}
	for _, id := range slices.Sorted(maps.Keys(p.LogitBias)) {
		s.edit(id).Bias = float32(p.LogitBias[id])
	}
	if s.draw.Repetition != 0 && s.draw.Repetition != 1 {
		for _, id := range prompt {
			s.edit(id).Seen = true
		}
	}
	return s
}

// edit returns the edit of a token. It is valid until the next call.
func (s *Sampler) edit(id int32) *compute.Edit {
	at, ok := s.index[id]
	if !ok {
		at = len(s.edits)
		s.index[id] = at
		s.edits = append(s.edits, compute.Edit{Token: id})
	}
	return &s.edits[at]
}

// ForChoice returns the sampler of another choice of the same request. Call ForChoice before the
// first Accept.
func (s *Sampler) ForChoice(choice int) *Sampler {
	s.shared = true
	other := *s
	other.draw.Choice = choice
	return &other
}

// Accept records that a token has become part of the answer.
func (s *Sampler) Accept(id int32) {
	if s.draw.Penalises() {
		if s.shared {
			s.edits, s.index, s.shared = slices.Clone(s.edits), maps.Clone(s.index), false
		}
		s.edit(id).Count++
	}
}

// Next returns the draw of the token at a position. drafts are the tokens before it that are not
// accepted yet. excluded ids cannot be drawn. The edits may refer to the sampler's memory or to
// memory that Next appends to; they are valid until the next Accept.
func (s *Sampler) Next(position int, drafts, excluded []int32, memory *[]compute.Edit) compute.Draw {
	d := s.draw
	d.Position, d.Edits = position, s.edits
	if !d.Penalises() {
		drafts = nil
	}
	if len(drafts) == 0 && len(excluded) == 0 {
		return d
	}
	from := len(*memory)
	*memory = append(*memory, s.edits...)
	change := func(id int32) *compute.Edit {
		own := (*memory)[from:]
		if at, ok := s.index[id]; ok {
			return &own[at]
		}
		for i := len(s.edits); i < len(own); i++ {
			if own[i].Token == id {
				return &own[i]
			}
		}
		*memory = append(*memory, compute.Edit{Token: id})
		return &(*memory)[len(*memory)-1]
	}
	for _, id := range drafts {
		change(id).Count++
	}
	for _, id := range excluded {
		change(id).Excluded = true
	}
	d.Edits = (*memory)[from:len(*memory):len(*memory)]
	return d
}

// Drawn is the result of a draw.
type Drawn struct {
	ID    int32
	Logit float32 // before the edits
}

// ReadDrawn reads a row that compute.Step.Draw has written. The error wraps
// generation.ErrNotFinite if a logit was NaN or +Inf or all were -Inf, and generation.ErrBadRequest
// if the edits left no token to draw.
func ReadDrawn(row []float32) (Drawn, error) {
	top := float64(row[2])
	switch {
	case math.IsInf(top, 0) || math.IsNaN(top):
		return Drawn{}, fmt.Errorf("%w: one of them is infinite or not a number", generation.ErrNotFinite)
	case math.Abs(top) >= compute.MaxLogit:
		return Drawn{}, generation.BadRequest("no token can be drawn: after logit_bias, penalties and min_tokens, the highest logit is %g", top)
	}
	return Drawn{ID: int32(row[0]), Logit: row[1]}, nil
}
