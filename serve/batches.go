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

// batchFields are the names of the fields of batchRequest.
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

// createBatch answers POST /v1/batches.
func (s *Server) createBatch(w http.ResponseWriter, r *http.Request) error {
	store, err := s.store()
	if err != nil {
		return err
	}
	body, done, err := s.readBody(r)
	if err != nil {
		return err
	}
	defer done()
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
			return storeError(r, err)
		}
	}
	if k := keyOf(r.Context()); k != nil {
		request.Models = k.models
	}
	b, err := store.CreateBatch(request)
	if err != nil {
		return storeError(r, err)
	}
	writeJSON(w, http.StatusOK, b)
	return nil
}

// isRepeated reports whether OpenAI's client repeats a request, because the first attempt got no response or an error.
func isRepeated(r *http.Request) bool {
	n, err := strconv.Atoi(r.Header.Get("X-Stainless-Retry-Count"))
	return err == nil && n > 0
}

// listBatches answers GET /v1/batches.
func (s *Server) listBatches(w http.ResponseWriter, r *http.Request) error {
	store, err := s.store()
	if err != nil {
		return err
	}
	q, err := listQuery(r, defaultBatches, maxBatches)
	if err != nil {
		return err
	}
	page, err := store.Batches(q)
	if err != nil {
		return storeError(r, err)
	}
	writeJSON(w, http.StatusOK, newPage(page, func(b batch.Batch) string { return b.ID }))
	return nil
}

// showBatch answers GET /v1/batches/{id}.
func (s *Server) showBatch(w http.ResponseWriter, r *http.Request) error {
	return s.batch(w, r, (*batch.Store).Batch)
}

// cancelBatch answers POST /v1/batches/{id}/cancel.
func (s *Server) cancelBatch(w http.ResponseWriter, r *http.Request) error {
	return s.batch(w, r, (*batch.Store).CancelBatch)
}

// batch calls a method of the store with the id in the request's path, and writes the batch that it returns.
func (s *Server) batch(w http.ResponseWriter, r *http.Request, method func(*batch.Store, string) (batch.Batch, error)) error {
	store, err := s.store()
	if err != nil {
		return err
	}
	b, err := method(store, r.PathValue("id"))
	if err != nil {
		return storeError(r, err)
	}
	writeJSON(w, http.StatusOK, b)
	return nil
}
