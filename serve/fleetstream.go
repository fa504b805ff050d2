package serve

import (
	"errors"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/queue"
)

type position struct{ prompt, choice int }

type fleetStream struct {
	call Call
	have map[position]queue.Progress // what was sent of each choice
	done map[position]bool           // choices whose last piece was sent
}

// use sends the pieces that have arrived. ended reports whether the worker has announced the end.
func (s *fleetStream) use(c *fleetCall) (ended bool, err error) {
	c.mu.Lock()
	events := c.events
	c.events = nil
	c.mu.Unlock()
	for _, e := range events {
		switch {
		case e.Ended:
			ended = true
		case s.call.Stream != nil:
			if err := s.pass(e); err != nil {
				return false, err
			}
		}
	}
	return ended, nil
}

func (s *fleetStream) pass(e queue.Event) error {
	at := position{e.Prompt, e.Piece.Choice}
	piece, ok := e.Since(s.have[at])
	if !ok {
		return nil // earlier events were lost; finish sends their content
	}
	if s.done[at] || len(piece.Tokens) == 0 && piece.Text == "" && piece.Reasoning == "" && len(piece.ToolCalls) == 0 && piece.FinishReason == "" {
		return nil // an earlier attempt has sent this piece
	}
	return s.send(at, piece)
}

func (s *fleetStream) send(at position, piece generation.Piece) error {
	progress := s.have[at]
	progress.Add(piece)
	s.have[at] = progress
	if piece.FinishReason != "" {
		s.done[at] = true
	}
	return s.call.Stream(at.prompt, piece)
}

func (s *fleetStream) finish(body []byte) error {
	if s.call.Request.Whole() {
		return nil
	}
	whole, err := s.call.Request.Choices(body)
	if err != nil {
		return err
	}
	for prompt, choices := range whole {
		for i, c := range choices {
			at := position{prompt, i}
			have := s.have[at]
			if s.done[at] || have.Text > len(c.Text) || have.Reasoning > len(c.Reasoning) {
				continue
			}
			if s.call.Request.NamesTokens() {
				return errors.New("a part of the streamed answer was lost between the worker and this server: send the request again")
			}
			piece := generation.Piece{
				Choice: i, Reasoning: c.Reasoning[have.Reasoning:], Text: c.Text[have.Text:], ToolCalls: have.CallsAfter(c.ToolCalls),
				FinishReason: c.FinishReason, StopReason: c.StopReason,
			}
			if err := s.send(at, piece); err != nil {
				return err
			}
		}
	}
	return nil
}
