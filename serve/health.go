package serve

import (
	"context"
	"errors"
	"net/http"
	"strings"
)

// ready returns an error unless the server is not stopping and has a model that can answer.
func (s *Server) ready(ctx context.Context) error {
	if s.draining.Load() {
		return errors.New("the server is stopping")
	}
	models, err := s.answerer.Models(ctx)
	if err == nil && len(present(models)) == 0 {
		err = errors.New("no worker serves a model: start one")
	}
	return err
}

// instead says what to do instead of calls of OpenAI's clients that this server does not have.
var instead = map[string]string{
	"/responses":           ": use /v1/chat/completions",
	"/embeddings":          ": this server has no embeddings",
	"/chat/completion":     ": use /v1/chat/completions",
	"/completion":          ": use /v1/completions",
	"/v1/chat/completions": ": give the base URL with one /v1",
}

func (s *Server) unknownPath(w http.ResponseWriter, r *http.Request) error {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); pattern != "/" {
			w.Header().Set("Allow", method)
			return failf(http.StatusMethodNotAllowed, "", "method_not_allowed", "the method %s is not allowed for %s: use %s", r.Method, r.URL.Path, method)
		}
	}
	return failf(http.StatusNotFound, "", "unknown_url", "the URL is unknown: %s %s%s", r.Method, r.URL.Path, instead[strings.TrimPrefix(r.URL.Path, "/v1")])
}
