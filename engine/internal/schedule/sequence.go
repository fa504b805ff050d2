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

	// The planner changes these fields. rows, start and firstRow describe the present step.

	table        *cache.Table // nil until admitted
	head, prefix cache.Prefix // keys of the first page and of all full pages of tokens, computed when first needed
	skips        int          // number of times that another sequence was admitted before it out of order
	recomputed   bool         // it was preempted after some of its positions had been computed
	rows         int
	start        int // value of computed before the step
	firstRow     int // index of the sequence's first row in the step

	// The delivery of a step's results changes these fields.

	tokens     []int32 // the prompt and the answer so far
	computed   int     // number of positions whose keys and values are in the cache
	stale      bool    // some of its pages were discarded: it must be computed again
	sampler    *sample.Sampler
	scores     scores                  // log-probabilities of the answer
	times      []time.Time             // times of the answer's tokens, if the request is timed
	reason     generation.FinishReason // empty until it ends
	stopReason string                  // the stop string that ended it

	// The writer changes these fields. accept changes them too if the request has stop strings.

	decoder  *tokenizer.Decoder
	text     answerText
	written  int      // number of the answer's tokens whose text is in the field text
	streamed streamed // the part of the answer that is in the stream

	// The speculator changes this field.

	draft draft.Sequence
}

// newSequences returns the n sequences of a request, without answers. They share the prompt's
// tokens until they are admitted.
func newSequences(t *tokenizer.Tokenizer, r *request, n int, req *generation.Request) []*sequence {
	sampler := sample.New(req.Sampling, 0, r.prompt)
	seqs := make([]*sequence, n)
	for i := range seqs {
		seqs[i] = &sequence{
			request: r,
			choice:  i,
			tokens:  slices.Clip(r.prompt),
			sampler: sampler.ForChoice(i),
			scores:  scores{top: req.TopLogprobs},
			decoder: continuation(t, r.prompt),
			text:    newAnswerText(req.Stop),
			draft:   draft.Sequence{Limit: r.limit, StopIDs: r.stopIDs},
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
	if n := s.length(); n == cap(s.tokens) && n == len(s.request.prompt) {
		s.tokens = append(make([]int32, 0, min(s.request.limit, n+answerRoom)), s.tokens...)
	}
}

// preempt takes the sequence's pages away. The sequence must be admitted and computed again.
func (s *sequence) preempt() {
	s.table.Release()
	s.recomputed = s.recomputed || s.computed > 0
	s.table, s.computed, s.start, s.rows, s.stale = nil, 0, 0, 0, false
	s.draft.Preempt()
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

func (s *sequence) ended() bool { return s.reason != "" || s.request.err != nil }

// target returns the number of positions that have to be computed before the sequence can continue
// or end.
func (s *sequence) target() int {
	if s.request.promptOnly {
		return s.length() - 1 // no token follows the last one, so it is not computed
	}
	return s.length()
}

// left returns the number of rows that have to be computed before the sequence can continue or end.
func (s *sequence) left() int { return s.target() - s.computed }

func (s *sequence) span(rows int) cost.Size {
	outputs := 0
	switch {
	case s.choice == 0 && s.request.scoresPrompt:
		outputs = rows
	case rows == s.left() && !s.request.promptOnly:
		outputs = 1
	}
	return cost.Rows(s.computed, s.computed+rows, outputs)
}

func (s *sequence) draftSpan(drafts int) cost.Size {
	return cost.Rows(s.length(), s.length()+drafts, drafts)
}

func (s *sequence) decodes() bool { return len(s.answer()) > 0 && s.left() == 1 }

func (s *sequence) scoresPrompt(position int) bool {
	return s.needsEveryRow() && position+1 < len(s.request.prompt) && position >= len(s.request.promptScores.ids)
}

// needsEveryRow reports whether log-probabilities of prompt tokens are still missing. Shared pages
// do not hold them.
func (s *sequence) needsEveryRow() bool {
	return s.choice == 0 && s.request.scoresPrompt && len(s.request.promptScores.ids)+1 < len(s.request.prompt)
}

func (s *sequence) outputs(position int) bool {
	return s.scoresPrompt(position) || position >= s.length()-1
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
// While the answer is shorter than the request's minimum, it forbids the sampler to choose a stop
// id.
func (s *sequence) mayEnd(drafts int) bool {
	if len(s.answer())+drafts < s.request.minTokens {
		s.sampler.Exclude(s.request.stopIDs)
		return false
	}
	s.sampler.Exclude(nil)
	return true
}

// accept adds a token to the answer and decides whether the sequence ends with it. mayEnd reports
// whether the answer is long enough to end.
func (s *sequence) accept(id int32, mayEnd bool) {
	s.sampler.Accept(id)
	s.tokens = append(s.tokens, id)
	if mayEnd && slices.Contains(s.request.stopIDs, id) {
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
		s.text.text = s.decoder.Append(s.text.text, answer[s.written])
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
