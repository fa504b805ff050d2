package engine

import (
	"slices"
	"time"

	"github.com/ingot-run/ingot/generation"

	"github.com/ingot-run/ingot/engine/cache"
	"github.com/ingot-run/ingot/engine/sample"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// sequence is one choice of a call on its way: the prompt and the answer so far. It belongs to the loop once the call is
// handed over.
type sequence struct {
	call    *call
	choice  int
	sampler *sample.Sampler
	decoder *tokenizer.Decoder

	table    *cache.Table // nil until admitted
	tokens   []int32      // prompt and answer
	computed int          // positions whose keys are in the cache
	from     int          // of them, those before the present step
	rows     int          // rows in the present step
	first    int          // index of the first of them
	passed   int          // times that another sequence was admitted before it out of turn
	again    bool         // it was computed in part before, and was put back
	draft    drafts

	text   answerText
	scores scores      // of the answer
	times  []time.Time // likewise, where asked for

	reason     generation.FinishReason // empty while it goes on
	stopReason string
}

// length is the number of known tokens.
func (s *sequence) length() int { return len(s.tokens) }

// answer is the generated tokens.
func (s *sequence) answer() []int32 { return s.tokens[len(s.call.prompt):] }

// token is the token at a position: a known one, or after those a draft.
func (s *sequence) token(position int) int32 {
	if position >= len(s.tokens) {
		return s.draft.tokens[position-len(s.tokens)]
	}
	return s.tokens[position]
}

// wanted is the number of positions that have to be computed before the sequence can go on or end.
func (s *sequence) wanted() int {
	if s.call.promptOnly {
		return s.length() - 1 // nothing follows the last
	}
	return s.length()
}

// decodes tells whether the sequence needs one row to give its next token.
func (s *sequence) decodes() bool { return len(s.answer()) > 0 && s.wanted()-s.computed == 1 }

// scoresPrompt tells whether the row at a position gives the log-probability of a prompt token.
func (s *sequence) scoresPrompt(position int) bool {
	return s.choice == 0 && s.call.scoresPrompt && position+1 < len(s.call.prompt) && position >= len(s.call.promptScores.ids)
}

// isScored tells whether prompt tokens have yet to be given their log-probabilities: every row is computed for them, since
// pages of others have none.
func (s *sequence) isScored() bool {
	return s.choice == 0 && s.call.scoresPrompt && len(s.call.promptScores.ids)+1 < len(s.call.prompt)
}

// outputs tells whether the row at a position has to reach the output head.
func (s *sequence) outputs(position int) bool {
	return s.scoresPrompt(position) || position >= s.length()-1
}

// advance notes that the rows of the present step are computed, and returns how many of them are the prompt's.
func (s *sequence) advance() (prompt int) {
	prompt = max(0, min(s.rows, len(s.call.prompt)-s.computed))
	s.computed += s.rows
	if s.call.promptOnly && s.computed == s.wanted() {
		s.reason = generation.FinishLength
	}
	return prompt
}

// settle cuts the computed positions back to those of known tokens, after drafts that proved wrong, and lets other
// sequences share the pages that are full. What the cache holds beyond is written anew.
func (s *sequence) settle() {
	s.computed = min(s.computed, s.length()-1)
	s.table.Keep(s.tokens, s.computed)
}

// putBack takes the sequence's pages away; it has to be admitted and computed again.
func (s *sequence) putBack() {
	s.table.Release()
	s.again = s.again || s.computed > 0
	s.table, s.computed, s.from, s.rows = nil, 0, 0, 0
	s.draft.clear()
}

// take works on what a step gave for an output: it scores the prompt's next token, or generates the answer's.
func (s *sequence) take(o output, g given, w *sample.Scratch) error {
	if s.scoresPrompt(o.position) {
		return s.call.promptScores.add(s.call.prompt[o.position+1], g.logits)
	}
	free := s.bar(0)
	id, err := s.draw(o, g, w)
	if err != nil {
		return err
	}
	s.sampler.Accept(id)
	s.tokens = append(s.tokens, id)
	s.extend(id, free)
	return nil
}

// extend adds a token to the text and decides whether the sequence ends with it. stops tells whether it may stop.
func (s *sequence) extend(id int32, stops bool) {
	if stops && slices.Contains(s.call.stopIDs, id) {
		s.end(generation.FinishStop)
		return
	}
	s.text.text = s.decoder.Append(s.text.text, id)
	if i := s.text.watch(stops); i >= 0 {
		s.reason, s.stopReason = generation.FinishStop, string(s.text.stops[i])
		return
	}
	if s.length() == s.call.limit {
		s.end(generation.FinishLength)
	}
}

// end ends the sequence; what the decoder held back of an unfinished character becomes text.
func (s *sequence) end(reason generation.FinishReason) {
	s.reason = reason
	s.text.text = append(s.text.text, s.decoder.Flush()...)
}
