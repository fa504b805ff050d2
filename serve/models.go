package serve

import (
	"net/http"
	"slices"

	"github.com/ingot-run/ingot/internal/textfmt"
)

// modelBody is OpenAI's description of a model. Context is a field of vLLM.
type modelBody struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	Root    string `json:"root"`
	Context int    `json:"max_model_len,omitempty"`
}

type listBody[T any] struct {
	Object string `json:"object"`
	Data   []T    `json:"data"`
}

func newModelBody(m Model) modelBody {
	return modelBody{ID: m.Alias, Object: "model", Created: m.Since.Unix(), OwnedBy: "ingot", Root: m.Name, Context: m.Context}
}

func (s *Server) listModels(w http.ResponseWriter, r *http.Request) error {
	models, err := s.usable(r)
	if err != nil {
		return err
	}
	list := listBody[modelBody]{Object: "list", Data: []modelBody{}}
	for _, m := range present(models) {
		list.Data = append(list.Data, newModelBody(m))
	}
	return reply(w, list, nil)
}

func (s *Server) showModel(w http.ResponseWriter, r *http.Request) error {
	m, err := s.model(r, r.PathValue("id"))
	return reply(w, newModelBody(m), err)
}

func (s *Server) usable(r *http.Request) ([]Model, error) {
	models, err := s.answerer.Models(r.Context())
	if err != nil {
		return nil, err
	}
	k := keyOf(r.Context())
	return slices.DeleteFunc(models, func(m Model) bool { return !k.mayUse(m.Alias) }), nil
}

func (s *Server) model(r *http.Request, alias string) (Model, error) {
	models, err := s.usable(r)
	if err != nil {
		return Model{}, err
	}
	for _, m := range models {
		switch {
		case m.Alias == alias && m.Away:
			return Model{}, away(alias)
		case m.Alias == alias:
			return m, nil
		}
	}
	models = present(models)
	if len(models) == 0 {
		return Model{}, failf(http.StatusNotFound, "model", "model_not_found", "there is no model %.100q: this server has no model now that the request may use", alias)
	}
	return Model{}, failf(http.StatusNotFound, "model", "model_not_found", "there is no model %.100q: use %s", alias, quotedAliases(models))
}

// present returns the models that a worker or this process serves now.
func present(models []Model) []Model {
	return slices.DeleteFunc(slices.Clone(models), func(m Model) bool { return m.Away })
}

func away(alias string) error {
	return failLater(retryLater, http.StatusServiceUnavailable, "model", "unavailable", "no worker serves the model %.100q now: try again later, or start one", alias)
}

func quotedAliases(models []Model) string {
	names := make([]string, len(models))
	for i, m := range models {
		names[i] = m.Alias
	}
	return textfmt.QuotedOr(names)
}
