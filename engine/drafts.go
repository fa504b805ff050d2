package engine

import "github.com/ingot-run/ingot/engine/draft"

// drafts is what is guessed of a sequence's next tokens, and what is needed to guess them.
type drafts struct {
	tokens   []int32 // to be verified in the next step, at the positions after the known tokens
	accepted int     // of them, so far in this step
	looked   bool    // found by look-up, not by passes
	wanted   int     // to be drafted by passes

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
	d.tokens, d.accepted, d.filled = d.tokens[:0], 0, 0
}

// tried is what is known of the drafts that the sequence has now.
func (d *drafts) tried() *draft.Record {
	if d.looked {
		return &d.lookUps
	}
	return &d.passes
}
