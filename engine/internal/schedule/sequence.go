package schedule

import (
	"slices"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/cache"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/internal/sample"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// sequence is one choice of a request: the prompt and the answer so far. This package owns it, and
// this file is its life:
//
//   - newSequences makes it on the caller's goroutine. From planner.enqueue on, it belongs to the
//     loop.
//   - planner.admit gives it pages (admit). It then runs until it ends or the planner preempts it
//     (preempt), which returns it to the waiting sequences without its pages. The same happens if
//     content of its pages turns out to be wrong (stale).
//   - In each step, planner.plan gives it rows. The step computes them (advance), drawer.draw turns
//     logits into a token (accept), and the pages are shared or freed (settle).
//   - The writer appends the text of accepted tokens (write) and passes it to the stream. It may do
//     so during the next step.
//   - accept sets the reason with the last token. planner.sweep then releases the pages. When all
//     sequences of a request have ended, its caller reads the answers.
type sequence struct {
	// newSequences sets these fields. They do not change.

	request *request
	choice  int

	// The pages, and the wait for them.

	table        *cache.Table // admit sets it, and release removes it
	head, prefix cache.Prefix // keys of the first page and of all full pages of tokens; choose and held compute them once
	skips        int          // number of times that another sequence was admitted before it out of order; planner.admit counts them
	rank         int          // number of running sequences of its request that are older; planner.victims sets it
	victim       int          // index among planner.victims, or more than their number; planner.victims sets it
	recomputed   bool         // preempt sets it if some of the positions had been computed
	stale        bool         // some of its pages were discarded; planner.discard sets it, and preempt clears it

	// The present step. preempt clears rows and start.

	rows     int // plan sets it
	start    int // value of computed before the step; plan and batch.advance set it
	firstRow int // index of the sequence's first row in the step; batch.add sets it

	// The progress. resume, accept and follow append tokens, and admit copies them out of the
	// prompt's memory, which all choices share.

	tokens   []int32 // the prompt and the answer so far
	counted  int     // number of the answer's tokens in the statistics; loop.deliver sets it
	computed int     // positions whose keys and values are in the cache: adopt, advance, settle (less rejected drafts) and preempt (0) set it

	state seqState // the recurrent state; planner.states changes it

	// Drawing. drawer.take excludes stop ids from the sampler while it draws.

	sampler    *sample.Sampler         // accept gives it the tokens
	guide      *guide                  // the constraint; nil for none. The guides advance it after each step
	scores     scores                  // log-probabilities of the answer; drawer.draw adds them
	times      []time.Time             // times of the answer's tokens, if the request is timed; loop.deliver adds them
	reason     generation.FinishReason // empty until it ends; accept sets it, or advance if nothing is generated
	stopReason string                  // the stop string that ended it; accept sets it

	// The text. The writer changes these fields by write and stream.add. resume and, if the request
	// has stop strings, accept also call write; accept cuts the text at a stop string.

	decoder  *tokenizer.Decoder
	text     answerText
	written  int      // number of the answer's tokens whose text is in the field text
	streamed streamed // the part of the answer that is in the stream

	// The speculator changes draft. drafting copies fields of the sequence into it, planDrafts
	// shortens the drafts, deliver verifies them, and adopt and preempt pass their changes on.

	draft draft.Sequence
}

// newSequences returns the n sequences of a request, without answers. They share the stop strings
// and, until they are admitted, the prompt's tokens. form can be nil.
func newSequences(t *tokenizer.Tokenizer, r *request, n int, req *generation.Request, form *Form) []*sequence {
	sampler := sample.New(req.Sampling, 0, r.prompt)
	text := newAnswerText(req.Stop)
	seqs := make([]*sequence, n)
	for i := range seqs {
		seqs[i] = &sequence{
			request: r,
			choice:  i,
			tokens:  slices.Clip(r.prompt),
			sampler: sampler.ForChoice(i),
			scores:  scores{top: req.TopLogprobs},
			decoder: continuation(t, r.prompt),
			text:    text,
			draft:   draft.Sequence{Limit: r.limit, StopIDs: r.stopIDs, Temperature: req.Sampling.Temperature},
		}
		if form != nil && !r.promptOnly {
			seqs[i].guide = newGuide(form, form.Grammar.NewMatcher(), r.minTokens)
		}
	}
	return seqs
}

// continuation returns a decoder for the tokens after a prompt. Unlike a decoder at the start of a
// text, it does not drop a leading space.
func continuation(t *tokenizer.Tokenizer, prompt []int32) *tokenizer.Decoder {
	d := t.NewDecoder()
	for _, id := range slices.Backward(prompt) {
		if len(t.Bytes(id)) > 0 {
			d.Next(id)
			break
		}
	}
	return d
}

func (s *sequence) admit(t *cache.Table) {
	s.table = t
	s.request.running++
	if n := s.length(); n == cap(s.tokens) && n == len(s.request.prompt) {
		s.tokens = append(make([]int32, 0, min(s.request.limit, n+answerRoom)), s.tokens...)
	}
}

// preempt takes the sequence's pages away. The sequence must be admitted and computed again.
func (s *sequence) preempt() {
	s.release()
	s.recomputed = s.recomputed || s.computed > 0
	s.computed, s.start, s.rows, s.stale = 0, 0, 0, false
	s.draft.Preempt()
}

// release frees the sequence's pages, if it has any.
func (s *sequence) release() {
	if s.table != nil {
		s.table.Release()
		s.table = nil
		s.request.running--
	}
}

func (s *sequence) adopt(positions int) {
	s.computed = positions
	s.drafting().Adopt(positions)
}

func (s *sequence) drafting() *draft.Sequence {
	d := &s.draft
	d.Tokens, d.Table, d.Computed, d.Start, d.Rows, d.FirstRow = s.tokens, s.table, s.computed, s.start, s.rows, s.firstRow
	return d
}

func (s *sequence) urgency() int {
	if s.request.interactive {
		return 1
	}
	return 0
}

func (s *sequence) length() int { return len(s.tokens) }

func (s *sequence) answer() []int32 { return s.tokens[len(s.request.prompt):] }

// token returns the token at a position: a known token or, after the known tokens, a draft.
func (s *sequence) token(position int) int32 {
	if position >= len(s.tokens) {
		return s.draft.Drafts[position-len(s.tokens)]
	}
	return s.tokens[position]
}

func (s *sequence) ended() bool {
	return s.reason != "" && !s.lacksScores() && !s.needsEveryRow() || s.request.err != nil
}

// lacksScores reports whether log-probabilities of forced tokens are still missing.
func (s *sequence) lacksScores() bool {
	return s.request.scores && len(s.scores.ids) < len(s.answer())
}

// target returns the number of positions that have to be computed before the sequence can continue
// or end.
func (s *sequence) target() int {
	if s.request.promptOnly || s.reason != "" {
		return s.length() - 1 // no token follows the last one, so it is not computed
	}
	return s.length()
}

// left returns the number of rows that have to be computed before the sequence can continue or end.
func (s *sequence) left() int { return s.target() - s.computed }

func (s *sequence) span(rows int) cost.Size {
	outputs := 0
	switch {
	case s.choice == 0 && s.request.scoresPrompt || s.lacksScores():
		outputs = rows
	case rows == s.left() && !s.request.promptOnly:
		outputs = 1
	}
	return cost.Rows(s.computed, s.computed+rows, outputs)
}

func (s *sequence) draftSpan(drafts int) cost.Size {
	return cost.Rows(s.length(), s.length()+drafts, drafts)
}

// decodes reports whether the next row of the sequence draws a token.
func (s *sequence) decodes() bool { return len(s.answer()) > 0 && s.left() == 1 && s.reason == "" }

// maxForcedRows is the maximum number of forced tokens whose rows are planned with those of
// sequences that generate. The rows of more tokens are planned like those of a prompt.
const maxForcedRows = 32

// generates reports whether the next rows of the sequence are those of its last token and of tokens
// that the constraint has forced.
func (s *sequence) generates() bool {
	return s.decodes() || s.guide != nil && s.computed >= len(s.request.prompt) && s.left() <= 1+maxForcedRows
}

// scored reports whether the row of a position computes the log-probability of the next token,
// which is known.
func (s *sequence) scored(position int) bool {
	return s.scoresPrompt(position) || s.scoresForced(position)
}

// scoresForced is like scored for a token of the answer that the constraint has forced.
func (s *sequence) scoresForced(position int) bool {
	return s.request.scores && position+1 < s.length() && position+1 >= len(s.request.prompt)+len(s.scores.ids)
}

func (s *sequence) scoresPrompt(position int) bool {
	return s.needsEveryRow() && position+1 < len(s.request.prompt) && position >= len(s.request.promptScores.ids)
}

// needsEveryRow reports whether log-probabilities of prompt tokens are still missing. Shared pages
// do not hold them.
func (s *sequence) needsEveryRow() bool {
	return s.choice == 0 && s.request.scoresPrompt && len(s.request.promptScores.ids)+1 < len(s.request.prompt)
}

func (s *sequence) outputs(position int) bool {
	return s.scored(position) || position >= s.length()-1 && s.reason == ""
}

// advance counts the rows of the present step as computed, and returns how many of them are rows of
// the prompt.
func (s *sequence) advance() (prompt int) {
	prompt = max(0, min(s.rows, len(s.request.prompt)-s.computed))
	s.computed += s.rows
	if s.request.promptOnly && s.computed == s.target() {
		s.reason = generation.FinishLength
	}
	return prompt
}

// mayEnd reports whether the answer with the given number of drafts may end with its next token.
func (s *sequence) mayEnd(drafts int) bool { return len(s.answer())+drafts >= s.request.minTokens }

// accept adds a token to the answer and decides whether the sequence ends with it. mayEnd reports
// whether the answer is long enough to end.
func (s *sequence) accept(id int32, mayEnd bool) {
	s.sampler.Accept(id)
	s.tokens = append(s.tokens, id)
	if _, stops := slices.BinarySearch(s.request.stopIDs, id); stops && mayEnd {
		s.reason = generation.FinishStop
		return
	}
	if len(s.text.stops) > 0 {
		s.write()
		if i := s.text.findStop(mayEnd); i >= 0 {
			s.reason, s.stopReason = generation.FinishStop, string(s.text.stops[i])
			return
		}
	}
	if s.length() == s.request.limit {
		s.reason = generation.FinishLength
	}
}

// write appends the text of accepted tokens. A stop id has no text. At the end of the sequence,
// bytes of an unfinished character become text, but not after a stop string.
func (s *sequence) write() {
	answer := s.answer()
	if s.reason == generation.FinishStop && s.stopReason == "" {
		answer = answer[:len(answer)-1]
	}
	for ; s.written < len(answer); s.written++ {
		if id := answer[s.written]; slices.Contains(s.request.shown, id) {
			s.text.text = s.decoder.AppendName(s.text.text, id)
		} else {
			s.text.text = s.decoder.Append(s.text.text, id)
		}
	}
	if s.reason != "" && s.stopReason == "" {
		s.text.text = append(s.text.text, s.decoder.Flush()...)
	}
}

// settle removes rejected drafts from computed. Later steps overwrite the positions of these drafts
// in the cache. It then lets other sequences share the full pages, and frees the pages before
// sliding windows.
func (s *sequence) settle() {
	s.computed = min(s.computed, s.length()-1)
	if !s.stale {
		s.table.Commit(s.tokens, s.computed)
		s.table.Slide(s.computed)
	}
}
