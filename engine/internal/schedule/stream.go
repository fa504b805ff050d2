package schedule

import (
	"sync"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// stream passes the choices of a request from the loop to the caller while they are generated. A
// nil stream passes nothing. The loop never waits for the caller: text that the caller has not
// taken yet becomes part of its next piece.
type stream struct {
	wake  chan struct{} // holds a value when there is something to take
	names names         // used only by the caller

	mu    sync.Mutex
	parts []part // [choices]
}

type part struct {
	text       []byte
	tokens     []int32
	scores     scores
	reason     generation.FinishReason
	stopReason string
}

// streamed counts what a stream has received from a sequence: text in bytes, tokens, and scores.
type streamed struct {
	text, tokens, scores int
	ended                bool
}

func newStream(seqs []*sequence, t *tokenizer.Tokenizer) *stream {
	st := &stream{wake: make(chan struct{}, 1), names: newNames(t), parts: make([]part, len(seqs))}
	for i, s := range seqs {
		st.parts[i].scores.top = s.scores.top
	}
	return st
}

// add adds the text and tokens that a sequence has generated since the last call. The writer calls
// it after each step.
func (st *stream) add(s *sequence) {
	if st == nil || s.streamed.ended {
		return
	}
	tokens := len(s.answer())
	if s.request.scores {
		tokens = len(s.scores.ids) // those of forced tokens follow
	}
	if tokens == s.streamed.tokens {
		return
	}
	ended := s.reason != "" && tokens == len(s.answer())
	st.mu.Lock()
	defer st.mu.Unlock()
	p, done := &st.parts[s.choice], &s.streamed
	to := len(s.text.text)
	if s.reason == "" {
		to = s.text.certain(done.text)
	}
	p.text = append(p.text, s.text.text[done.text:to]...)
	p.tokens = append(p.tokens, s.answer()[done.tokens:tokens]...)
	s.scores.appendTo(&p.scores, done.scores)
	if ended {
		p.reason, p.stopReason = s.reason, s.stopReason
	}
	*done = streamed{text: to, tokens: tokens, scores: len(s.scores.ids), ended: ended}
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

func (st *stream) news() <-chan struct{} {
	if st == nil {
		return nil
	}
	return st.wake
}

// deliver passes what was added since the last call to a function, one piece per choice. It stops
// at an error.
func (st *stream) deliver(to func(generation.Piece) error) error {
	if st == nil {
		return nil
	}
	for i := range st.parts {
		if piece, ok := st.take(i); ok {
			if err := to(piece); err != nil {
				return err
			}
		}
	}
	return nil
}

func (st *stream) take(choice int) (generation.Piece, bool) {
	st.mu.Lock()
	p := st.parts[choice]
	st.parts[choice] = part{scores: scores{top: p.scores.top}}
	st.mu.Unlock()
	piece := generation.Piece{
		Choice: choice, Text: string(p.text), Tokens: p.tokens, FinishReason: p.reason, StopReason: p.stopReason,
	}
	if len(p.scores.ids) > 0 {
		piece.Logprobs = p.scores.logprobs(st.names)
	}
	return piece, len(p.tokens) > 0
}
