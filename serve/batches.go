package serve

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/serve/batch"
)

// Default and maximum number of batches on a page of a list.
const (
	defaultBatches = 20
	maxBatches     = 100
)

// batchRequest is the body of POST /v1/batches. A field that is null counts as absent.
type batchRequest struct {
	InputFileID      string             `json:"input_file_id"`
	Endpoint         openai.Endpoint    `json:"endpoint"`
	CompletionWindow string             `json:"completion_window"`
	Metadata         map[string]string  `json:"metadata"`
	OutputExpires    *outputExpiresBody `json:"output_expires_after"`
}

type outputExpiresBody struct {
	Anchor  string `json:"anchor"`
	Seconds int    `json:"seconds"`
}

var batchFields = []string{"input_file_id", "endpoint", "completion_window", "metadata", "output_expires_after"}

func readBatchRequest(body []byte) (q batchRequest, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return q, failf(http.StatusBadRequest, "", openai.CodeInvalidJSON, "the request's body is not a JSON object: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(batchFields, name) && string(fields[name]) != "null" {
			return q, failf(http.StatusBadRequest, name, openai.CodeUnknownParameter, "%.100q is unknown: remove it", name)
		}
	}
	err = json.Unmarshal(body, &q)
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return q, failf(http.StatusBadRequest, kind.Field, openai.CodeInvalidType, "%q must not be a JSON %s", kind.Field, kind.Value)
	}
	return q, err
}

func (s *Server) createBatch(w http.ResponseWriter, r *http.Request, body []byte) error {
	q, err := readBatchRequest(body)
	if err != nil {
		return err
	}
	request := batch.Request{
		InputFileID: q.InputFileID, Endpoint: q.Endpoint, CompletionWindow: q.CompletionWindow, Metadata: q.Metadata,
		Repeated: isRepeated(r),
	}
	if q.OutputExpires != nil {
		request.OutputExpiry, err = batch.ParseExpiry("output_expires_after", q.OutputExpires.Anchor, strconv.Itoa(q.OutputExpires.Seconds))
		if err != nil {
			return err
		}
	}
	if k := keyOf(r.Context()); k != nil {
		request.Models = k.models
	}
	b, err := s.options.Store.CreateBatch(request)
	return reply(w, b, err)
}

// isRepeated reports whether OpenAI's client repeats a request, because the first attempt got no
// response or an error.
func isRepeated(r *http.Request) bool {
	n, err := strconv.Atoi(r.Header.Get("X-Stainless-Retry-Count"))
	return err == nil && n > 0
}

func (s *Server) listBatches(w http.ResponseWriter, r *http.Request) error {
	q, err := listQuery(r, defaultBatches, maxBatches)
	if err != nil {
		return err
	}
	page, err := s.options.Store.Batches(q)
	return reply(w, newPage(page, func(b batch.Batch) string { return b.ID }), err)
}

func (s *Server) showBatch(w http.ResponseWriter, r *http.Request) error {
	b, err := s.options.Store.Batch(r.PathValue("id"))
	return reply(w, b, err)
}

func (s *Server) cancelBatch(w http.ResponseWriter, r *http.Request) error {
	b, err := s.options.Store.CancelBatch(r.PathValue("id"))
	return reply(w, b, err)
}
