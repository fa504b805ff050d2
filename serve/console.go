package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/serve/console"
)

func (s *Server) newConsole() *console.Console {
	var queued Queued
	if s.options.Queued != nil {
		queued = s.foreignBatches
	}
	return &console.Console{
		Queued: queued, Store: s.options.Store, Workers: s.answerer.Workers, Log: s.log,
		Stream: func(w http.ResponseWriter, r *http.Request, e openai.Endpoint) error { return s.generate(e)(w, r) },
		Models: func(r *http.Request) ([]console.Model, error) {
			models, err := s.usable(r)
			shown := make([]console.Model, len(models))
			for i, m := range models {
				shown[i] = console.Model{Alias: m.Alias, Name: m.Name, Context: m.Context, Away: m.Away, Chat: m.Chat}
			}
			return shown, err
		},
		Answer: func(r *http.Request, e openai.Endpoint) (any, error) {
			answer, err := s.answerForm(r, e)
			return answer.Body, err
		},
		Frame: func(r *http.Request) console.Frame {
			f := console.Frame{Version: s.options.Version, HasBatches: s.options.Store != nil || s.options.Queued != nil}
			if k := keyOf(r.Context()); k != nil {
				f.KeyName = k.name
			}
			return f
		},
		Problem: func(r *http.Request, err error) (int, string) {
			notesOf(r.Context()).err = err
			e := asHTTP(err)
			return e.status, e.Error()
		},
	}
}

// foreignBatches returns the batches of the fleet that the store does not have: those of other
// programs, such as ingot enqueue.
func (s *Server) foreignBatches(ctx context.Context) ([]queue.Status, error) {
	all, err := s.options.Queued(ctx)
	if s.options.Store == nil {
		return all, err
	}
	return slices.DeleteFunc(slices.Clone(all), func(b queue.Status) bool {
		_, err := s.options.Store.Batch(b.Batch)
		return err == nil
	}), err
}

func (s *Server) answerForm(r *http.Request, e openai.Endpoint) (Answer, error) {
	body, done, err := s.readBody(r)
	if err != nil {
		return Answer{}, err
	}
	defer done()
	c, err := s.call(r, e, body)
	if err != nil {
		return Answer{}, err
	}
	return s.answer(r, c)
}

func (s *Server) consoleRoutes() {
	s.mux.Handle("GET /console/assets/", console.Assets())
	pages, stored := s.console.Pages()
	for pattern, h := range pages {
		s.page(pattern, h)
	}
	for pattern, h := range stored {
		s.page(pattern, s.stored(h))
	}
	s.page("GET /console/files/{id}/content", s.stored(s.fileContent))
	s.openPage("GET /console/signin", formBytes, func(w http.ResponseWriter, r *http.Request) error {
		return s.showSignIn(w, r, http.StatusOK, r.URL.Query().Get("next"), nil)
	})
	s.openPage("POST /console/signin", formBytes, s.signIn)
	s.openPage("POST /console/signout", formBytes, s.signOut)
}

// page registers a handler for people who have signed in. If the server has no API keys, the
// handler serves everyone.
func (s *Server) page(pattern string, h handler) {
	h = s.inRoom(h)
	s.openPage(pattern, openai.MaxBody, func(w http.ResponseWriter, r *http.Request) error {
		if s.options.Keys == nil {
			return h(w, r)
		}
		k := s.sessions.find(r, time.Now())
		switch {
		case k == nil && r.Method == http.MethodGet:
			http.Redirect(w, r, "/console/signin?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
			return nil
		case k == nil:
			return failf(http.StatusUnauthorized, "", "missing_api_key", "your session has ended: load the page again and sign in")
		}
		notesOf(r.Context()).key = k.name
		return h(w, r.WithContext(context.WithValue(r.Context(), keyKey{}, k)))
	})
}

// inRoom wraps a handler that reads the form of a request. It reads the request's body before, so
// that large forms share the memory of large bodies.
func (s *Server) inRoom(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, done, err := s.readBody(r)
		if err != nil {
			return err
		}
		defer done()
		r.Body = io.NopCloser(bytes.NewReader(body))
		return h(w, r)
	}
}

// openPage registers a handler that serves everyone. limit is the maximum size of its form in
// bytes. It refuses a form that a browser sends from a page of another site, and pages under an
// unknown host name.
func (s *Server) openPage(pattern string, limit int64, h handler) {
	limited := s.limited(limit, openai.MaxBody+1, h)
	s.mux.Handle(pattern, s.open(func(w http.ResponseWriter, r *http.Request) error {
		err := s.checkHost(r)
		if err == nil {
			err = checkSite(r)
		}
		if err == nil {
			err = limited(w, r)
		}
		if err == nil || console.WantsEvents(r) {
			return err
		}
		status := asHTTP(err).status
		return s.console.Show(w, r, status, "message.html", http.StatusText(status), err, nil)
	}))
}

func (s *Server) showSignIn(w http.ResponseWriter, r *http.Request, status int, next string, failure error) error {
	return s.console.Show(w, r, status, "signin.html", "Sign in", failure, next)
}

func (s *Server) signIn(w http.ResponseWriter, r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return fmt.Errorf("%w: %w", errBody, err)
	}
	next := r.PostFormValue("next")
	if s.options.Keys != nil {
		k, err := s.options.Keys.find(r.PostFormValue("key"))
		if err != nil {
			return s.showSignIn(w, r, http.StatusUnauthorized, next, err)
		}
		http.SetCookie(w, s.sessions.begin(k, r.TLS != nil, time.Now()))
	}
	http.Redirect(w, r, ownPath(next), http.StatusSeeOther)
	return nil
}

func ownPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(next, "/") || strings.ContainsAny(next, "\\\r\n") {
		return "/"
	}
	return next
}

func (s *Server) signOut(w http.ResponseWriter, r *http.Request) error {
	http.SetCookie(w, s.sessions.end(r))
	http.Redirect(w, r, "/console/signin", http.StatusSeeOther)
	return nil
}
