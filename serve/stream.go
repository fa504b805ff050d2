package serve

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
)

// stream answers a request with server-sent events while tokens are generated. It sends the headers with the first event or keep-alive
// comment, so that an earlier error is an ordinary response.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, c Call) error {
	out := &eventStream{w: w, conn: http.NewResponseController(w)}
	stopKeepAlive := out.keepAlive(s.options.KeepAlive)
	defer stopKeepAlive()
	chunks := c.Request.NewStream(openai.Answer{ID: c.ID, Created: c.Created, Model: c.Model, Seed: c.Seed})
	c.Stream = func(prompt int, p generation.Piece) error { return out.send(chunks.Chunks(prompt, p)...) }
	answer, err := s.answer(r, c)
	stopKeepAlive()
	if err != nil {
		if !out.begun {
			return err
		}
		notesOf(r.Context()).err = err
		out.fail(asHTTP(err))
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

// eventStream writes server-sent events.
type eventStream struct {
	w    http.ResponseWriter
	conn *http.ResponseController

	mu    sync.Mutex
	begun bool
	last  time.Time // time of the last event
}

// send writes values as events.
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

// fail sends an error as an event. It is used after the first event, when an error status is no longer possible.
func (e *eventStream) fail(err *httpError) {
	e.send(err.body) //nolint:errcheck // fails only if the client has left
}

// text writes whole events or comments.
func (e *eventStream) text(s string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.begun {
		e.begun = true
		h := e.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // turns off buffering in nginx
	}
	e.last = time.Now()
	if _, err := e.w.Write([]byte(s)); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	if err := e.conn.Flush(); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	return nil
}

// keepAlive writes a comment whenever there was no event for some time, so that clients and proxies do not time out. The parameter every is
// that time. stop ends the goroutine that writes the comments, and waits for its end.
func (e *eventStream) keepAlive(every time.Duration) (stop func()) {
	ended := make(chan struct{})
	var running sync.WaitGroup
	e.last = time.Now()
	running.Go(func() {
		timer := time.NewTimer(every)
		defer timer.Stop()
		for {
			select {
			case <-ended:
				return
			case <-timer.C:
			}
			e.mu.Lock()
			idle := time.Since(e.last)
			e.mu.Unlock()
			if idle >= every {
				idle = 0
				if e.text(": keep-alive\n\n") != nil {
					return // the client has left, so the context of its request is done
				}
			}
			timer.Reset(every - idle)
		}
	})
	return sync.OnceFunc(func() {
		close(ended)
		running.Wait()
	})
}
