package schedule

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar"
	"github.com/ingot-run/ingot/engine/internal/chat"
)

// Form is the constraint of a request, compiled for the model. It does not change.
type Form struct {
	Grammar  *grammar.Grammar
	Thinking chat.Thinking             // the state at the start of the answer
	Ends     []int32                   // tokens that may follow a complete text, in ascending order; at least one
	Further  []int32                   // those of Ends that the grammar does not know
	End      int32                     // the one of Ends that follows a text that cannot continue
	Encode   func(text string) []int32 // tokens of a text that continues another one
}

// guide decides which tokens may follow in the answer of a sequence with a constraint. Only one
// goroutine at a time may use it: the loop's, or one of the crew.
//
// What may follow depends only on the tokens before, so an answer is the same in any batch, with or
// without drafts, and after it was resumed.
type guide struct {
	form      *Form
	minTokens int
	matcher   *grammar.Matcher
	place
	err error // why the answer cannot continue

	// The planned or present step.

	ahead []place    // [drafts+1] the places before each draft and after all of them
	slots [][]uint32 // [drafts+1] memory of the masks to compute; nil for places that need none

	// Statistics.

	masked, forcedTokens int
	maskTime             time.Duration
}

// place is a point in an answer: what is known after a number of tokens.
type place struct {
	length   int           // number of tokens of the answer
	thinking chat.Thinking // the stage of the next token
	matched  int           // number of tokens that the matcher has accepted
	forced   []int32       // tokens that follow; they are not drawn
	ended    bool          // the last token was one of Form.Ends
}

// newGuide returns the guide of an answer without tokens. matcher must be new.
func newGuide(f *Form, matcher *grammar.Matcher, minTokens int) *guide {
	return &guide{form: f, minTokens: minTokens, matcher: matcher, place: place{thinking: f.Thinking}}
}

var errNotAllowed = errors.New("internal error: a token was generated that the constraint does not allow")

// advance moves past a token. After an error, the guide can only be restored to an earlier place.
func (g *guide) advance(id int32) error {
	p := &g.place
	if p.ended || len(p.forced) > 0 && p.forced[0] != id {
		return errNotAllowed
	}
	if len(p.forced) > 0 {
		p.forced = p.forced[1:]
	}
	p.length++
	if g.form.ends(id) {
		if p.ended = p.masked() && g.matcher.Accepting(); !p.ended {
			return errNotAllowed
		}
		return nil
	}
	if p.thinking.Next(id) {
		if err := g.accept(id); err != nil {
			return err
		}
		p.matched++
	} else if p.thinking.Stage() == chat.StageReasoning {
		g.matcher.Rollback(p.matched) // the space before the reasoning
		p.matched = 0
	}
	return g.force()
}

// accept moves the matcher past a token that the mask allowed.
func (g *guide) accept(id int32) error {
	switch err := g.matcher.Accept(id); {
	case errors.Is(err, grammar.ErrBudget), errors.Is(err, grammar.ErrAmbiguous):
		return generation.BadRequest("check the answer against the constraint: %w", err)
	case err != nil:
		return fmt.Errorf("%w: %w", errNotAllowed, err)
	}
	return nil
}

func (f *Form) ends(id int32) bool {
	_, is := slices.BinarySearch(f.Ends, id)
	return is
}

// force finds the tokens that must follow, if it is not known already. The tokens directly after
// reasoning, or where reasoning may begin, are not forced: the model may begin with a line break or
// its reasoning.
func (g *guide) force() error {
	p := &g.place
	if len(p.forced) > 0 || p.thinking.Stage() != chat.StageContent {
		return nil
	}
	done, err := g.matcher.Done()
	if err == nil && !done {
		p.forced, err = g.matcher.Forced(g.form.Encode)
	}
	switch {
	case err != nil:
		return generation.BadForm("find the tokens that must follow: %w", err)
	case !done:
	case p.length < g.minTokens:
		return generation.BadRequest("\"min_tokens\" is %d, but the answer in the requested form is complete after %d tokens: lower min_tokens or allow longer answers",
			g.minTokens, p.length)
	default:
		p.forced = []int32{g.form.End}
	}
	return nil
}

// restore returns the guide to an earlier place from which it has advanced.
func (g *guide) restore(p place) {
	g.matcher.Rollback(g.matched - p.matched)
	g.place = p
}

// masked reports whether the next token is drawn under a mask, unless it is forced.
func (p *place) masked() bool { return p.thinking.Stage() != chat.StageReasoning }

// excluded appends the tokens that must not follow in reasoning: stop tokens, since an answer in
// the requested form has to follow, and tokens in which reasoning ends and the answer begins.
func (g *guide) excluded(dst []int32, p *place) []int32 {
	return append(append(dst, g.form.Ends...), p.thinking.Crossing()...)
}

// look finds the places ahead, and returns the number of drafts that may follow.
func (g *guide) look(drafts []int32) int {
	start := g.place
	g.ahead = append(g.ahead[:0], start)
	if start.thinking.Stage() == chat.StageStart {
		return 0 // reasoning in a draft could not be undone
	}
	for _, id := range drafts {
		if g.advance(id) != nil { // nothing may follow an end
			break
		}
		g.ahead = append(g.ahead, g.place)
	}
	g.restore(start)
	return len(g.ahead) - 1
}

// begin prepares for the outputs of a step with the given number of drafts. look must have found
// their places.
func (g *guide) begin(drafts int) {
	if drafts == 0 {
		g.ahead = append(g.ahead[:0], g.place)
	}
	g.slots = g.slots[:0]
	for range drafts + 1 {
		g.slots = append(g.slots, nil)
	}
}

// masks reports whether the step needs a mask.
func (g *guide) masks() bool {
	return slices.ContainsFunc(g.slots, func(slot []uint32) bool { return slot != nil })
}

// computeMasks computes the masks in slots. It leaves the place unchanged.
func (g *guide) computeMasks(drafts []int32) {
	began := time.Now()
	start := g.place
	for i, slot := range g.slots {
		if i > 0 && g.ahead[i].matched > g.matched {
			g.err = errors.Join(g.err, g.accept(drafts[i-1]))
			g.matched++
		}
		if slot != nil {
			g.mask(slot, &g.ahead[i])
		}
	}
	g.restore(start)
	g.maskTime += time.Since(began)
}

func (g *guide) mask(mask []uint32, p *place) {
	if err := g.matcher.Mask(mask); err != nil { // the request ends, whatever the mask has
		g.err = generation.BadForm("find the tokens that the constraint allows: %w", err)
	}
	tags := p.thinking.Tags()
	switch {
	case p.thinking.MayOpen():
		allow(mask, tags.Openers)
	case p.thinking.Stage() == chat.StageGap:
		allow(mask, tags.Breaks)
	}
	if len(g.form.Further) > 0 && g.matcher.Accepting() {
		allow(mask, g.form.Further)
	}
}

func allow(mask []uint32, ids []int32) {
	for _, id := range ids {
		mask[id/32] |= 1 << (id % 32)
	}
}

// follow moves the guide of a sequence past new tokens of the answer, and appends the tokens that
// must follow. g.err is set if this is not possible.
func (s *sequence) follow() {
	g := s.guide
	start := g.length
	for answer := s.answer(); g.err == nil && g.length < len(answer); {
		id := answer[g.length]
		g.count(&g.place)
		if s.reason != "" && g.length == len(answer)-1 {
			return // nothing follows
		}
		if i := g.length - start; i < len(s.draft.Drafts) && i+1 < len(g.ahead) && s.draft.Drafts[i] == id {
			g.reach(g.ahead[i+1], id)
			continue
		}
		g.err = g.advance(id)
	}
	if g.err == nil && g.length == 0 {
		g.err = g.force()
	}
	for g.err == nil && len(g.forced) > 0 && s.reason == "" {
		id := g.forced[0]
		g.count(&g.place)
		s.accept(id, s.mayEnd(0))
		if s.reason == "" {
			g.err = g.advance(id)
		}
	}
	g.ahead = g.ahead[:0]
}

// reach moves past a draft to its place, which look has found.
func (g *guide) reach(to place, id int32) {
	if to.matched > g.matched {
		g.err = g.accept(id)
	}
	g.place = to
}

// count counts the token after a place in the statistics.
func (g *guide) count(p *place) {
	switch {
	case len(p.forced) > 0:
		g.forcedTokens++
	case p.masked():
		g.masked++
	}
}
