package serve

import (
	"net/http"
	"strconv"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/serve/batch"
)

func listQuery(r *http.Request, def, maximum int) (batch.Query, error) {
	q := batch.Query{After: r.URL.Query().Get("after"), Limit: def}
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maximum {
			return q, failf(http.StatusBadRequest, "limit", openai.CodeInvalidValue, `"limit" must be a number between 1 and %d, not %.100q`, maximum, text)
		}
		q.Limit = n
	}
	switch order := r.URL.Query().Get("order"); order {
	case "", "desc":
	case "asc":
		q.Ascending = true
	default:
		return q, failf(http.StatusBadRequest, "order", openai.CodeInvalidValue, `"order" must be "asc" or "desc", not %.100q`, order)
	}
	return q, nil
}

type pageBody[T any] struct {
	Object  string  `json:"object"`
	Data    []T     `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

func newPage[T any](p batch.Page[T], id func(T) string) pageBody[T] {
	body := pageBody[T]{Object: "list", Data: p.Items, HasMore: p.More}
	if n := len(p.Items); n > 0 {
		body.FirstID, body.LastID = new(id(p.Items[0])), new(id(p.Items[n-1]))
	}
	return body
}
