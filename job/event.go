package job

import (
	"encoding/json"
	"fmt"

	"github.com/ingot-run/ingot/generation"
)

// Event is a message about a job whose client waits. Events can be lost; the result of the job is stored like that of any row.
type Event struct {
	Batch string `json:"batch"`
	// Ended means that the job's result is recorded. The other fields are not set then.
	Ended bool `json:"ended,omitempty"`

	Prompt int              `json:"prompt"`
	Before Progress         `json:"before"` // what the choice had before the piece
	Piece  generation.Piece `json:"piece"`
}

// Progress is how much of a choice there is. Another attempt at the job makes the same choice again, in other pieces.
type Progress struct {
	Tokens int `json:"tokens"`
	Text   int `json:"text"` // bytes, as of Reasoning

	Reasoning int `json:"reasoning"`
}

// Add counts a piece.
func (p *Progress) Add(piece generation.Piece) {
	p.Tokens += len(piece.Tokens)
	p.Text += len(piece.Text)
	p.Reasoning += len(piece.Reasoning)
}

// Since returns the part of an event's piece that a client does not have, which has p of the choice so far. ok is false if events in
// between were lost.
func (e *Event) Since(p Progress) (rest generation.Piece, ok bool) {
	rest = e.Piece
	if e.Before.Tokens > p.Tokens || e.Before.Text > p.Text || e.Before.Reasoning > p.Reasoning {
		return rest, false
	}
	tokens := min(p.Tokens-e.Before.Tokens, len(rest.Tokens))
	rest.Tokens = rest.Tokens[tokens:]
	if len(rest.Logprobs) > 0 {
		rest.Logprobs = rest.Logprobs[tokens:]
	}
	rest.Reasoning = rest.Reasoning[min(p.Reasoning-e.Before.Reasoning, len(rest.Reasoning)):]
	rest.Text = rest.Text[min(p.Text-e.Before.Text, len(rest.Text)):]
	return rest, true
}

// Encode returns the event as a message.
func (e *Event) Encode() ([]byte, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("write an event: %w", err)
	}
	return text, nil
}

// DecodeEvent reads a message.
func DecodeEvent(message []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(message, &e); err != nil {
		return Event{}, fmt.Errorf("read an event: %w", err)
	}
	return e, nil
}
