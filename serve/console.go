package serve

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/serve/console"
)

// consoleRoutes registers the handlers of the console's pages.
func (s *Server) consoleRoutes() {
	s.mux.Handle("GET /console/assets/", console.Assets())
	s.page("GET /{$}", s.showOverview)
	s.page("GET /console/batches", s.showBatchTable)
	s.page("GET /console/batches/{id}", s.showBatchPage)
	s.page("POST /console/batches/{id}/cancel", s.cancelOnPage)
	s.page("GET /console/files/{id}/content", s.fileContent)
	s.page("GET /console/try", s.showTry)
	s.page("POST /console/try", s.try)
	s.openPage("GET /console/signin", s.showSignIn)
	s.openPage("POST /console/signin", s.signIn)
	s.openPage("POST /console/signout", s.signOut)
}

// page registers a handler for people who have signed in. If the server has no API keys, the handler serves everyone.
func (s *Server) page(pattern string, h handler) {
	s.openPage(pattern, func(w http.ResponseWriter, r *http.Request) error {
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

// openPage registers a handler that serves everyone. It refuses a form that a browser sends from a page of another site.
func (s *Server) openPage(pattern string, h handler) {
	var crossSite http.CrossOriginProtection
	limited := s.limited(openai.MaxBody, openai.MaxBody+1, h)
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		err := crossSite.Check(r)
		if err != nil {
			err = failf(http.StatusForbidden, "", "cross_site_request", "the form was sent by a page of another site: use the pages of this server")
		} else {
			err = limited(w, r)
		}
		if err == nil {
			return
		}
		notesOf(r.Context()).err = err
		e := asHTTP(err)
		if wantsEvents(r) {
			writeError(w, e)
			return
		}
		s.show(w, r, e.status, console.Message{Frame: s.frame(r, http.StatusText(e.status), console.OverviewSection, e)})
	})
}

// show writes a page as the response.
func (s *Server) show(w http.ResponseWriter, r *http.Request, status int, p console.Page) {
	if err := console.Write(w, status, p); err != nil {
		notesOf(r.Context()).err = err
		http.Error(w, "internal error", http.StatusInternalServerError)
	}
}

// frame returns the parts that all pages share. failure is an error to show; nil if there is none.
func (s *Server) frame(r *http.Request, title string, section console.Section, failure error) console.Frame {
	f := console.Frame{Title: title, Section: section, Version: s.options.Version, HasStore: s.options.Store != nil}
	if k := keyOf(r.Context()); k != nil {
		f.KeyName = k.name
	}
	if failure != nil {
		f.Error = asHTTP(failure).Error()
	}
	return f
}

// wantsEvents reports whether a request comes from the console's script, which shows answers while they are generated.
func wantsEvents(r *http.Request) bool { return r.Header.Get("Accept") == "text/event-stream" }

// showOverview answers GET /.
func (s *Server) showOverview(w http.ResponseWriter, r *http.Request) error {
	workers, failure := s.answerer.Workers(r.Context())
	models, err := s.usable(r)
	failure = errors.Join(failure, err)
	var active []console.Batch
	if s.options.Store != nil {
		if active, err = s.activeBatches(); err != nil {
			failure = errors.Join(failure, err)
		}
	}
	page := console.Overview{
		Frame:      s.frame(r, "Overview", console.OverviewSection, failure),
		Models:     consoleModels(models),
		Active:     active,
		Throughput: console.NewChart(s.history.bars(), historyBarSpan),
	}
	for _, x := range workers {
		page.Workers = append(page.Workers, console.Worker{
			Name: x.Name, Model: x.Model, Device: x.Device, Rows: x.Rows, TokensPerSecond: x.TokensPerSecond, Started: x.Started, Lost: !x.Live(),
		})
	}
	s.show(w, r, http.StatusOK, page)
	return nil
}

func consoleModels(models []Model) []console.Model {
	shown := make([]console.Model, len(models))
	for i, m := range models {
		shown[i] = console.Model{Alias: m.Alias, Name: m.Name, Context: m.Context}
	}
	return shown
}

// showSignIn answers GET /console/signin.
func (s *Server) showSignIn(w http.ResponseWriter, r *http.Request) error {
	s.show(w, r, http.StatusOK, console.SignIn{Frame: s.frame(r, "Sign in", console.NoSection, nil), Next: r.URL.Query().Get("next")})
	return nil
}

// signIn answers POST /console/signin.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) error {
	next := r.PostFormValue("next")
	if s.options.Keys != nil {
		k, err := s.options.Keys.find(r.PostFormValue("key"))
		if err != nil {
			s.show(w, r, http.StatusUnauthorized, console.SignIn{Frame: s.frame(r, "Sign in", console.NoSection, err), Next: next})
			return nil
		}
		http.SetCookie(w, s.sessions.begin(k, r.TLS != nil, time.Now()))
	}
	http.Redirect(w, r, ownPath(next), http.StatusSeeOther)
	return nil
}

// ownPath returns next if it is a path on this server, and / otherwise.
func ownPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(next, "/") || strings.ContainsAny(next, "\\\r\n") {
		return "/"
	}
	return next
}

// signOut answers POST /console/signout.
func (s *Server) signOut(w http.ResponseWriter, r *http.Request) error {
	http.SetCookie(w, s.sessions.end(r))
	http.Redirect(w, r, "/console/signin", http.StatusSeeOther)
	return nil
}
