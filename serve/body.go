package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/ingot-run/ingot/openai"
)

const (
	// smallBody is the size up to which bodies are read without waiting.
	smallBody = 256 << 10
	// maxBodies is the maximum size of the larger bodies of all requests together.
	maxBodies = 8 * openai.MaxBody
)

// readBody reads the whole body of a request. A large body waits until there is memory for it. done must be called when the request
// has ended.
func (s *Server) readBody(r *http.Request) (body []byte, done func(), err error) {
	var all bytes.Buffer
	_, err = io.CopyN(&all, r.Body, smallBody)
	if err == io.EOF { //nolint:errorlint // CopyN returns it unchanged
		return all.Bytes(), func() {}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the request's body: %w", err)
	}
	if err := s.bodies.Acquire(r.Context(), openai.MaxBody); err != nil {
		return nil, nil, err
	}
	if _, err := io.Copy(&all, r.Body); err != nil {
		s.bodies.Release(openai.MaxBody)
		return nil, nil, fmt.Errorf("read the request's body: %w", err)
	}
	held := min(int64(all.Len()), openai.MaxBody)
	s.bodies.Release(openai.MaxBody - held)
	return all.Bytes(), func() { s.bodies.Release(held) }, nil
}

// decodeBody reads a JSON request whose unknown fields are of no importance.
func (s *Server) decodeBody(r *http.Request, into any) error {
	body, done, err := s.readBody(r)
	if err != nil {
		return err
	}
	defer done()
	if err := json.Unmarshal(body, into); err != nil {
		return failf(http.StatusBadRequest, "", "invalid_json", "the request's body is not as expected: %v", err)
	}
	return nil
}
