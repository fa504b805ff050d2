package schedule

import (
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/cache"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/internal/sample"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// sequence is one choice of a request: the prompt and the answer so far. It belongs to the loop once the loop has the request.
type sequence struct {
	draft.Sequence
	call    *call
	choice  int
	sampler *sample.Sampler
	decoder *tokenizer.Decoder

	head, prefix cache.Prefix // keys of the first page and of all full pages of Tokens, computed when first needed

	skips      int  // number of times that another sequence was admitted before it out of order
	recomputed bool // it was preempted after some of its positions had been computed
	stale      bool // some of its pages were discarded: it must be computed again

	text   answerText
	scores scores      // log-probabilities of the answer
	times  []time.Time // times of the answer's tokens, if the request is timed

	streamed streamed // the part of the answer that is in the stream

	reason     generation.FinishReason // empty until it ends
	stopReason string
}

// admit gives the sequence a page table, and a copy of its tokens with room for an answer. Before its first admission, the sequence
// shares the prompt's tokens with the other choices.
func (s *sequence) admit(t *cache.Table) {
	s.Table = t
	if n := s.Length(); n == cap(s.Tokens) && n == len(s.call.prompt) {
		s.Tokens = append(make([]int32, 0, min(s.call.limit, n+answerRoom)), s.Tokens...)
	}
}

// urgency returns 1 for an interactive sequence and 0 for a batch sequence.
func (s *sequence) urgency() int {
	if s.call.interactive {
		return 1
	}
	return 0
}

// answer returns the generated tokens.
func (s *sequence) answer() []int32 { return s.Tokens[len(s.call.prompt):] }

// ended reports whether no more tokens are generated for the sequence.
func (s *sequence) ended() bool { return s.reason != "" || s.call.err != nil }

// target returns the number of positions that have to be computed before the sequence can continue or end.
func (s *sequence) target() int {
	if s.call.promptOnly {
		return s.Length() - 1 // no token follows the last one, so it is not computed
	}
	return s.Length()
}

// left returns the number of rows that have to be computed before the sequence can continue or end.
func (s *sequence) left() int { return s.target() - s.Computed }

// span returns the size of the sequence's next rows, without drafts.
func (s *sequence) span(rows int) cost.Size {
	outputs := 0
	switch {
	case s.choice == 0 && s.call.scoresPrompt:
		outputs = rows
	case rows == s.left() && !s.call.promptOnly:
		outputs = 1
	}
	return cost.Rows(s.Computed, s.Computed+rows, outputs)
}

// draftSpan returns the size of the rows of the sequence's first drafts.
func (s *sequence) draftSpan(drafts int) cost.Size {
	return cost.Rows(s.Length(), s.Length()+drafts, drafts)
}

// decodes reports whether the sequence is generating: one row gives its next token.
func (s *sequence) decodes() bool { return len(s.answer()) > 0 && s.left() == 1 }

// scoresPrompt reports whether the row at a position gives the log-probability of a prompt token.
func (s *sequence) scoresPrompt(position int) bool {
	return s.choice == 0 && s.call.scoresPrompt && position+1 < len(s.call.prompt) && position >= len(s.call.promptScores.ids)
}

// needsEveryRow reports whether log-probabilities of prompt tokens are still missing. Shared pages do not hold them.
func (s *sequence) needsEveryRow() bool {
	return s.choice == 0 && s.call.scoresPrompt && len(s.call.promptScores.ids)+1 < len(s.call.prompt)
}

// outputs reports whether the row at a position has to reach the output head.
func (s *sequence) outputs(position int) bool {
	return s.scoresPrompt(position) || position >= s.Length()-1
}

// advance counts the rows of the present step as computed, and returns how many of them are rows of the prompt.
func (s *sequence) advance() (prompt int) {
	prompt = max(0, min(s.Rows, len(s.call.prompt)-s.Computed))
	s.Computed += s.Rows
	if s.call.promptOnly && s.Computed == s.target() {
		s.reason = generation.FinishLength
	}
	return prompt
}

// settle removes rejected drafts from Computed. Later steps overwrite the positions of these drafts in the cache. It then lets other
// sequences share the full pages, and frees the pages before sliding windows.
func (s *sequence) settle() {
	s.Computed = min(s.Computed, s.Length()-1)
	if !s.stale {
		s.Table.Commit(s.Tokens, s.Computed)
		s.Table.Slide(s.Computed)
	}
}

// preempt takes the sequence's pages away. The sequence must be admitted and computed again.
func (s *sequence) preempt() {
	s.Table.Release()
	s.recomputed = s.recomputed || s.Computed > 0
	s.stale = false
	s.Preempt()
}
