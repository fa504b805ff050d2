package draft

import "github.com/ingot-run/ingot/engine/cache"

// Sequence is the part of a running sequence that the scheduler shares with the drafter. The scheduler embeds it.
type Sequence struct {
	// The scheduler sets these; the drafter only reads them.

	Tokens   []int32      // known tokens: the prompt and the answer so far
	Limit    int          // maximum length of Tokens
	StopIDs  []int32      // tokens after which nothing is drafted
	Table    *cache.Table // pages of the positions, in the drafter's cache as in the model's; nil until admitted
	Computed int          // positions whose keys are in the model's cache
	Start    int          // Computed before the present step
	Rows     int          // rows in the present step
	FirstRow int          // index of the first of these rows

	// The drafter sets these.

	Drafts   []int32 // guesses of the tokens after Tokens, which the next step verifies
	Accepted int     // leading Drafts that the present step has confirmed
	Total    Counts  // counts of all observed steps

	wanted     int       // tokens to draft by passes
	confidence []float64 // [Drafts] probability that the drafting layer or model gave each draft; empty for n-gram drafts
	chance     float64   // probability that all of Drafts are right
	gated      bool      // the gate ended the chain of passes before it had the wanted tokens
	byNGram    bool      // Drafts come from the n-gram table, not from passes

	ngrams                  *ngrams
	ngramRecord, passRecord record
	origin                  int // first position that the drafting layer or model attends to, at the beginning of a page
	filled                  int // first position from origin on that the drafting layer or model has not processed
}

// Counts has the number of drafted tokens and the number of accepted ones.
type Counts struct{ Drafted, Accepted int }

// Length returns the number of known tokens.
func (s *Sequence) Length() int { return len(s.Tokens) }

// Token returns the token at a position: a known token, or a draft after the known tokens.
func (s *Sequence) Token(position int) int32 {
	if position >= len(s.Tokens) {
		return s.Drafts[position-len(s.Tokens)]
	}
	return s.Tokens[position]
}

// Verify counts the next draft as accepted if it is the token that was generated.
func (s *Sequence) Verify(token int32) {
	if s.Accepted < len(s.Drafts) && s.Drafts[s.Accepted] == token {
		s.Accepted++
	}
}

// Adopt sets Computed after the table has taken pages that another sequence computed. If the drafter has processed these pages, they also
// hold its keys and values.
func (s *Sequence) Adopt(positions int) {
	s.Computed = positions
	pages := positions / s.Table.PageSize()
	if s.filled >= positions || s.Table.Note(pages-1) == 0 {
		return
	}
	first := int(s.Table.Note(pages-1)) - 1
	for i := first; i < pages; i++ {
		if s.Table.Note(i) != int32(first+1) {
			return // its keys were computed from another origin
		}
	}
	s.origin, s.filled = first*s.Table.PageSize(), positions
}

// pages returns the pages of the positions from the origin on.
func (s *Sequence) pages() []int32 { return s.Table.Pages()[s.origin/s.Table.PageSize():] }

// process records that the drafting layer or model has processed further positions. The pages that they complete get a note of the page at
// which its context begins, counted from 1.
func (s *Sequence) process(positions int) {
	size := s.Table.PageSize()
	page := s.filled / size
	s.filled += positions
	for ; (page+1)*size <= s.filled; page++ {
		s.Table.SetNote(page, int32(s.origin/size)+1)
	}
}

// Preempt forgets everything that was computed for the sequence, drafts included.
func (s *Sequence) Preempt() {
	s.Table, s.Computed, s.Start, s.Rows = nil, 0, 0, 0
	s.origin, s.filled = 0, 0
	s.forget()
}

// Shorten drops all but the first n drafts.
func (s *Sequence) Shorten(n int) {
	if n >= len(s.Drafts) {
		return
	}
	s.Drafts, s.gated = s.Drafts[:n], false
	s.confidence = s.confidence[:min(n, len(s.confidence))]
	s.byNGram = s.byNGram && n > 0
}

// forget drops the drafts.
func (s *Sequence) forget() {
	s.Drafts, s.confidence, s.Accepted, s.byNGram, s.gated = s.Drafts[:0], s.confidence[:0], 0, false, false
}

// room returns the maximum number of tokens to draft. The step that verifies them generates one token more.
func (s *Sequence) room() int { return min(s.Limit-s.Length()-1, MaxTokens) }

// record is what is known about drafts of the kind that the sequence has now.
func (s *Sequence) record() *record {
	if s.byNGram {
		return &s.ngramRecord
	}
	return &s.passRecord
}

// add takes the draft of a pass, which costs the given seconds, and reports whether another pass should follow. gate may be
// nil.
func (s *Sequence) add(token int32, confidence, pass float64, gate *gate) (more bool) {
	if len(s.Drafts) == 0 {
		s.chance = 1
	}
	if gate != nil {
		s.chance *= gate.Chance(confidence)
		if s.gated = !gate.worthRow(s.chance); s.gated {
			return false
		}
	}
	s.Drafts, s.confidence = append(s.Drafts, token), append(s.confidence, confidence)
	if len(s.Drafts) >= s.wanted {
		return false
	}
	// The confidence of the next draft is not known yet. The confidence of this draft is the best estimate.
	if gate != nil {
		s.gated = !gate.worthPass(s.chance*gate.Chance(confidence), pass)
	}
	return !s.gated
}
