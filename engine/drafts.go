package engine

import "github.com/ingot-run/ingot/engine/draft"

// drafts is what is guessed of a sequence's next tokens, and what is needed to guess them.
type drafts struct {
	tokens   []int32   // to be verified in the next step, at the positions after the known tokens
	sure     []float64 // [tokens] probability that the drafting layer or model gave each; none where they were looked up
	chance   float64   // that all of them are right
	cut      bool      // that the chain of passes ended before what was wanted, for want of prospects
	accepted int       // of them, so far in this step
	looked   bool      // found by look-up, not by passes
	wanted   int       // to be drafted by passes

	lookUps, passes draft.Record // what the sequence's drafts have shown
	ngram           *draft.NGram
	filled          int // positions that the drafting layer or model has in its cache
}

// compare counts the next draft as accepted where it is the token that was generated.
func (d *drafts) compare(token int32) {
	if d.accepted < len(d.tokens) && d.tokens[d.accepted] == token {
		d.accepted++
	}
}

// clear forgets the drafts, and what was computed for drafting.
func (d *drafts) clear() {
	d.tokens, d.sure, d.accepted, d.cut, d.filled = d.tokens[:0], d.sure[:0], 0, false, 0
}

// tried is what is known of the drafts that the sequence has now.
func (d *drafts) tried() *draft.Record {
	if d.looked {
		return &d.lookUps
	}
	return &d.passes
}

// add takes a draft of a pass, and tells whether the next pass shall draft a further one.
func (d *drafts) add(token int32, sure, pass float64, gate *draft.Gate) bool {
	if len(d.tokens) == 0 {
		d.chance = 1
	}
	if gate != nil {
		d.chance *= gate.Chance(sure)
		if d.cut = !gate.Keeps(d.chance); d.cut {
			return false
		}
	}
	d.tokens, d.sure = append(d.tokens, token), append(d.sure, sure)
	if len(d.tokens) >= d.wanted {
		return false
	}
	// The next draft is as sure as this one was, as far as can be known.
	if gate != nil {
		d.cut = !gate.Goes(d.chance*gate.Chance(sure), pass)
	}
	return !d.cut
}
