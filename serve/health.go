package serve

import (
	"errors"
	"fmt"
	"net/http"
)

// health answers GET /healthz: ok as long as the process can answer.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	fmt.Fprintln(w, "ok") //nolint:errcheck // fails only if the client has left
	return nil
}

// ready answers GET /readyz: ok if the server is not stopping and has a model that can answer.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) error {
	if err := s.notReady(r); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return nil
	}
	fmt.Fprintln(w, "ok") //nolint:errcheck // fails only if the client has left
	return nil
}

func (s *Server) notReady(r *http.Request) error {
	if s.draining.Load() {
		return errors.New("the server is stopping")
	}
	models, err := s.answerer.Models(r.Context())
	if err == nil && len(models) == 0 {
		err = errors.New("no worker serves a model: start one")
	}
	return err
}

// unknownPath answers requests that no other handler matches.
func (s *Server) unknownPath(w http.ResponseWriter, r *http.Request) error {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); pattern != "/" {
			w.Header().Set("Allow", method)
			return failf(http.StatusMethodNotAllowed, "", "method_not_allowed", "the method %s is not allowed for %s: use %s", r.Method, r.URL.Path, method)
		}
	}
	return failf(http.StatusNotFound, "", "unknown_url", "the URL is unknown: %s %s", r.Method, r.URL.Path)
}
