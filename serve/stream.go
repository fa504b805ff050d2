package serve

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
)

// stream answers a request with server-sent events while tokens are generated. It sends the headers
// with the first event or keep-alive comment, so that an earlier error is an ordinary response.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, c Call) error {
	out := newEventStream(w, s.options.limits.keepAlive)
	defer out.stop()
	chunks := c.Request.NewStream(openai.Answer{ID: c.ID, Created: c.Created, Model: c.Model, Seed: c.Seed})
	c.Stream = func(prompt int, p generation.Piece) error { return out.send(chunks.Chunks(prompt, p)...) }
	answer, err := s.answer(r, c)
	out.stop()
	if err != nil {
		if !out.begun {
			return err
		}
		notesOf(r.Context()).err = err
		out.send(asHTTP(err).body) //nolint:errcheck // fails only if the client has left
		return nil
	}
	t := openai.Tokens{
		Prompt: answer.Stats.PromptTokens, Completion: answer.Stats.CompletionTokens,
		Cached: answer.Stats.CachedTokens, Reasoning: answer.Stats.ReasoningTokens,
	}
	last, err := chunks.End(answer.Body, t)
	if err == nil {
		err = out.send(last...)
	}
	if err == nil {
		err = out.text("data: [DONE]\n\n")
	}
	notesOf(r.Context()).err = err
	return nil
}

type eventStream struct {
	w    http.ResponseWriter
	conn *http.ResponseController

	mu        sync.Mutex
	begun     bool
	keepAlive time.Duration
	idle      *time.Timer // writes a comment after keepAlive without an event, so that clients and proxies do not time out; nil when stopped
}

func newEventStream(w http.ResponseWriter, keepAlive time.Duration) *eventStream {
	e := &eventStream{w: w, conn: http.NewResponseController(w), keepAlive: keepAlive}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.idle = time.AfterFunc(keepAlive, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.idle != nil {
			e.write(": keep-alive\n\n") //nolint:errcheck // fails only if the client has left, so that the context of its request is done
		}
	})
	return e
}

// stop ends the comments. When it has returned, none is being written.
func (e *eventStream) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.idle != nil {
		e.idle.Stop()
		e.idle = nil
	}
}

func (e *eventStream) send(values ...any) error {
	if len(values) == 0 {
		return nil
	}
	var text []byte
	for _, v := range values {
		data, err := openai.Marshal(v)
		if err != nil {
			return fmt.Errorf("write an event: %w", err)
		}
		text = append(text, "data: "...)
		text = append(text, data...)
		text = append(text, "\n\n"...)
	}
	return e.text(string(text))
}

func (e *eventStream) text(s string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.write(s)
}

// write writes whole events or comments. e.mu must be held.
func (e *eventStream) write(s string) error {
	if !e.begun {
		e.begun = true
		h := e.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // turns off buffering in nginx
	}
	_, err := e.w.Write([]byte(s))
	if err == nil {
		err = e.conn.Flush()
	}
	if err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	if e.idle != nil {
		e.idle.Reset(e.keepAlive)
	}
	return nil
}
