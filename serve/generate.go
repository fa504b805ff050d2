package serve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

func (s *Server) generate(e openai.Endpoint) handler {
	return s.withBody(func(w http.ResponseWriter, r *http.Request, body []byte) error {
		c, err := s.call(r, e, body)
		if err != nil {
			return err
		}
		if c.Request.Streamed() {
			return s.stream(w, r, c)
		}
		answer, err := s.answer(r, c)
		if err != nil {
			return err
		}
		setFigures(w.Header(), answer.Stats)
		return reply(w, answer.Body, nil)
	})
}

// answer answers a call and counts its tokens against the limits of the request's key. For a stream
// that ends early, it counts the tokens that were sent.
func (s *Server) answer(r *http.Request, c Call) (Answer, error) {
	leave, err := s.enter(c)
	if err != nil {
		return Answer{}, err
	}
	defer leave()
	k := keyOf(r.Context())
	if err := k.begin(time.Now()); err != nil {
		return Answer{}, err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	detach := context.AfterFunc(s.cutOff, cancel) // a stopping server does not wait longer
	defer detach()
	sent := 0
	if send := c.Stream; send != nil {
		c.Stream = func(prompt int, p generation.Piece) error {
			sent += len(p.Tokens)
			return send(prompt, p)
		}
	}
	answer, err := s.answerer.Answer(ctx, c)
	if err != nil {
		k.spend(time.Now(), sent)
		return Answer{}, s.causeOf(ctx, ofRequest(c.Request, err))
	}
	s.metrics.count(c.Model, answer.Stats)
	k.spend(time.Now(), answer.Stats.PromptTokens+answer.Stats.CompletionTokens)
	return answer, nil
}

// enter counts the answers of a call while its client waits for them. It refuses the call if
// clients wait for too many answers.
func (s *Server) enter(c Call) (leave func(), err error) {
	n := int64(c.Request.NumChoices())
	if answers, ok := s.waiting.enter(n); !ok {
		return nil, busy(fmt.Sprintf("clients wait for %d answers", answers))
	}
	return func() { s.waiting.leave(n) }, nil
}

// causeOf returns the error of a request. If the request was cut off because the server stops, the
// error says so.
func (s *Server) causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil && s.cutOff.Err() != nil {
		return failf(http.StatusServiceUnavailable, "", "unavailable", "the server is stopping, and the request did not finish in time: send it again")
	}
	return err
}

func (s *Server) call(r *http.Request, e openai.Endpoint, body []byte) (Call, error) {
	request, err := openai.ParseLive(e, body)
	if err != nil {
		return Call{}, err
	}
	if err := request.CheckUnknown(); err != nil {
		return Call{}, err
	}
	if err := request.CheckConstraint(grammar.Check); err != nil {
		return Call{}, err
	}
	if request.Model() == "" {
		return Call{}, missing("model")
	}
	m, err := s.model(r, request.Model())
	if err != nil {
		return Call{}, err
	}
	notesOf(r.Context()).model = m.Alias
	return Call{
		ID: notesOf(r.Context()).id, Model: m.Alias, Request: request, Body: body,
		Seed: request.Seed(randomSeed()), Created: time.Now(),
	}, nil
}

// randomSeed draws the seed of a request that sets none. It has 53 bits, so that JSON readers that
// use float64 read it exactly.
func randomSeed() int64 { return rand.Int64N(1 << 53) }

// setFigures adds headers with a request's time to the first token, in milliseconds, and its speeds
// in tokens per second.
func setFigures(h http.Header, s queue.Stats) {
	h.Set("X-Ingot-Ttft-Ms", number(s.TTFTMS))
	h.Set("X-Ingot-Prefill-Tps", number(s.PrefillTPS))
	h.Set("X-Ingot-Decode-Tps", number(s.DecodeTPS))
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
