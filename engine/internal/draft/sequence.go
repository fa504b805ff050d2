package draft

import "github.com/ingot-run/ingot/engine/internal/cache"

// Sequence is what the Speculator knows about a sequence of the scheduler.
type Sequence struct {
	// The scheduler sets the following fields before each call. The Speculator only reads them.

	Tokens      []int32      // known tokens: the prompt and the answer so far
	Limit       int          // maximum length of Tokens
	Temperature float64      // of drawing; 0 for the likeliest token
	StopIDs     []int32      // tokens after which nothing is drafted, in ascending order
	Table       *cache.Table // page table, also for the cache of the MTP layer or small model; nil until admitted
	Computed    int          // number of positions whose keys and values are in the model's cache
	Start       int          // value of Computed before the present step
	Rows        int          // number of rows in the present step
	FirstRow    int          // index of the sequence's first row in the present step

	// The Speculator sets the following fields.

	Drafts   []int32 // guesses of the tokens after Tokens, which the next step verifies
	Accepted int     // number of leading Drafts that the present step has confirmed
	Total    Counts  // counts over all steps so far

	wanted     int       // number of tokens to draft by passes
	confidence []float64 // [Drafts] probability that the MTP layer or small model gave each draft; empty for n-gram drafts
	chance     float64   // probability that all of Drafts are right
	gated      bool      // the gate ended the passes for the sequence before the wanted number of tokens was drafted
	byNGram    bool      // Drafts come from the n-gram table, not from passes

	ngrams                  *ngrams
	ngramRecord, passRecord record
	origin                  int // first position that the MTP layer or small model attends to; the beginning of a page
	filled                  int // first position, from origin on, that the MTP layer or small model has not processed
}

// Counts has the number of drafted tokens and the number of accepted ones.
type Counts struct{ Drafted, Accepted int }

// Length returns the number of known tokens.
func (s *Sequence) Length() int { return len(s.Tokens) }

// remaining returns the maximum number of tokens that follow.
func (s *Sequence) remaining() int { return s.Limit - len(s.Tokens) }

// Verify counts the next draft as accepted if it is the token that was generated.
func (s *Sequence) Verify(token int32) {
	if s.Accepted < len(s.Drafts) && s.Drafts[s.Accepted] == token {
		s.Accepted++
	}
}

// Adopt records that the table has adopted pages up to the given number of positions. A page's note
// shows from which origin the MTP layer or small model has processed the page: see process. If all
// pages from one origin on have this origin's note, their positions need not be processed again.
func (s *Sequence) Adopt(positions int) {
	pages := positions / s.Table.PageSize()
	if s.filled >= positions || s.Table.Note(pages-1) == 0 {
		return
	}
	first := int(s.Table.Note(pages-1)) - 1
	for i := first; i < pages; i++ {
		if s.Table.Note(i) != int32(first+1) {
			return // the keys that the MTP layer or small model stored in this page were computed from another origin
		}
	}
	s.origin, s.filled = first*s.Table.PageSize(), positions
}

func (s *Sequence) pages() []int32 { return s.Table.Pages()[s.origin/s.Table.PageSize():] }

// process records that the MTP layer or small model has processed further positions. The note of
// each completed page becomes the number of the page at the origin, counted from 1.
func (s *Sequence) process(positions int) {
	size := s.Table.PageSize()
	page := s.filled / size
	s.filled += positions
	for ; (page+1)*size <= s.filled; page++ {
		s.Table.SetNote(page, int32(s.origin/size)+1)
	}
}

// Preempt discards everything that was computed for the sequence, including its drafts.
func (s *Sequence) Preempt() {
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

func (s *Sequence) forget() {
	s.Drafts, s.confidence, s.Accepted, s.byNGram, s.gated = s.Drafts[:0], s.confidence[:0], 0, false, false
}

// room returns the maximum number of tokens to draft. The step that verifies them generates one
// token more.
func (s *Sequence) room() int { return min(s.Limit-s.Length()-1, MaxTokens) }

// kinds is the number of kinds of sequences, whose drafts are accepted at different rates.
const kinds = 4

// kind returns the kind of a sequence: greedy, or drawn at a low, medium or high temperature.
func (s *Sequence) kind() int {
	switch t := s.Temperature; {
	case t <= 0:
		return 0
	case t < 0.5:
		return 1
	case t < 0.9:
		return 2
	}
	return kinds - 1
}

func (s *Sequence) record() *record {
	if s.byNGram {
		return &s.ngramRecord
	}
	return &s.passRecord
}

// add adds the draft of a pass and reports whether another pass should follow. pass is the duration
// of a pass per sequence, in seconds. gate can be nil.
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
	// The confidence of the next draft is not known yet; the confidence of this draft is the
	// estimate.
	if gate != nil {
		s.gated = !gate.worthPass(s.chance*gate.Chance(confidence), pass)
	}
	return !s.gated
}
