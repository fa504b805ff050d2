package queue

import (
	"encoding/json"
	"fmt"

	"github.com/ingot-run/ingot/engine/generation"
)

// Event is a message to the server whose client waits for a job. It has a piece of the answer, or
// reports that the job has ended. Events can be lost. The complete result is recorded in the queue.
type Event struct {
	Batch string `json:"batch"`
	// Ended means that the job's result is recorded. The fields below are not set then.
	Ended bool `json:"ended,omitempty"`

	Prompt int              `json:"prompt"` // index of the prompt in the request
	Before Progress         `json:"before"` // size of the choice before Piece
	Piece  generation.Piece `json:"piece"`  // the next part of the choice
}

// Progress is the size of a choice so far. A repeated attempt at a job generates the same choice,
// but may cut it into other pieces.
type Progress struct {
	Tokens int `json:"tokens"`
	Text   int `json:"text"` // bytes

	Reasoning int `json:"reasoning"` // bytes

	Calls     int `json:"calls"`     // tool calls that have begun
	Arguments int `json:"arguments"` // bytes of the arguments of all calls
}

// Add adds the size of a piece.
func (p *Progress) Add(piece generation.Piece) {
	p.Tokens += len(piece.Tokens)
	p.Text += len(piece.Text)
	p.Reasoning += len(piece.Reasoning)
	for _, d := range piece.ToolCalls {
		p.Calls = max(p.Calls, d.Index+1)
		p.Arguments += len(d.Arguments)
	}
}

// Since returns the part of the event's piece that a client does not have yet. p is the size of the
// part of the choice that the client has. ok is false if the client has missed an earlier event.
func (e *Event) Since(p Progress) (rest generation.Piece, ok bool) {
	rest = e.Piece
	b := e.Before
	if b.Tokens > p.Tokens || b.Text > p.Text || b.Reasoning > p.Reasoning || b.Calls > p.Calls || b.Arguments > p.Arguments {
		return rest, false
	}
	tokens := min(p.Tokens-e.Before.Tokens, len(rest.Tokens))
	rest.Tokens = rest.Tokens[tokens:]
	if len(rest.Logprobs) > 0 {
		rest.Logprobs = rest.Logprobs[tokens:]
	}
	rest.Reasoning = rest.Reasoning[min(p.Reasoning-e.Before.Reasoning, len(rest.Reasoning)):]
	rest.Text = rest.Text[min(p.Text-e.Before.Text, len(rest.Text)):]
	rest.ToolCalls = p.callsSince(rest.ToolCalls, b.Arguments)
	return rest, true
}

// callsSince returns the parts of calls that a client does not have yet. before is the size of the
// arguments before these parts.
func (p *Progress) callsSince(deltas []generation.ToolCallDelta, before int) (rest []generation.ToolCallDelta) {
	for _, d := range deltas {
		known := min(max(p.Arguments-before, 0), len(d.Arguments))
		before += len(d.Arguments)
		d.Arguments = d.Arguments[known:]
		if d.Index < p.Calls {
			d.ID, d.Name = "", ""
		}
		if d.ID != "" || d.Arguments != "" {
			rest = append(rest, d)
		}
	}
	return rest
}

// CallsAfter returns the parts of a choice's calls that a client does not have yet.
func (p *Progress) CallsAfter(calls []generation.ToolCall) []generation.ToolCallDelta {
	deltas := make([]generation.ToolCallDelta, len(calls))
	for i, c := range calls {
		deltas[i] = generation.ToolCallDelta{Index: i, ID: c.ID, Name: c.Name, Arguments: c.Arguments}
	}
	return p.callsSince(deltas, 0)
}

// Encode returns the event as a message.
func (e *Event) Encode() ([]byte, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode an event of batch %s: %w", e.Batch, err)
	}
	return text, nil
}

// DecodeEvent reads a message that Encode has made.
func DecodeEvent(message []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(message, &e); err != nil {
		return Event{}, fmt.Errorf("read an event: %w", err)
	}
	return e, nil
}
