package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/ingot-run/ingot/openai"
)

const (
	// smallBody is the maximum size, in bytes, of a body that is read without waiting. A larger one
	// may have to wait; see maxBodies.
	smallBody = 256 << 10
	// maxBodies is the maximum total size, in bytes, of the larger bodies that all requests hold in
	// memory.
	maxBodies = 8 * openai.MaxBody
	// bodyWait is the maximum time that a larger body waits for memory.
	bodyWait = 30 * time.Second
)

// errBody means that a client sent an incomplete or malformed body.
var errBody = errors.New("read the request's body")

// readBody reads the whole body of a request. A large body waits until there is memory for it. The
// caller must call done when it has answered the request.
func (s *Server) readBody(r *http.Request) (body []byte, done func(), err error) {
	var all bytes.Buffer
	share := s.bodies.share()
	for {
		_, err := io.CopyN(&all, r.Body, smallBody)
		if err == io.EOF { //nolint:errorlint // CopyN returns it unchanged
			share.shrink(min(share.held, int64(all.Len())))
			return all.Bytes(), share.giveBack, nil
		}
		if err != nil {
			share.giveBack()
			return nil, nil, fmt.Errorf("%w: %w", errBody, err)
		}
		if err := share.take(r.Context(), int64(all.Len())+smallBody-share.held); err != nil {
			share.giveBack()
			return nil, nil, err
		}
	}
}

func (s *Server) withBody(h func(w http.ResponseWriter, r *http.Request, body []byte) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, done, err := s.readBody(r)
		if err != nil {
			return err
		}
		defer done()
		if !utf8.Valid(body) { // the JSON decoder would replace the bytes, and the model would answer another prompt
			return failf(http.StatusBadRequest, "", openai.CodeInvalidText, "the request's body is not UTF-8: convert it")
		}
		return h(w, r, body)
	}
}

func parseBody(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			return failf(http.StatusBadRequest, wrong.Field, openai.CodeInvalidType, "the field %q must not be a JSON %s", wrong.Field, wrong.Value)
		}
		return failf(http.StatusBadRequest, "", openai.CodeInvalidJSON, "the request's body cannot be decoded: %v", err)
	}
	return nil
}

// limited wraps a handler and limits the body of a request. limit is the maximum size of the body
// in bytes. The body must arrive in time: limits.body is the time for each part, and part is the
// size of a part in bytes.
func (s *Server) limited(limit int64, part int, h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if r.ContentLength > limit {
			r.Body = tooLarge{limit}
			return h(w, r)
		}
		body := &timedBody{ReadCloser: r.Body, conn: http.NewResponseController(w), timeout: s.options.limits.body, part: part}
		if r.Body != http.NoBody { // a request without a body needs no time limit
			body.begin()
		}
		r.Body = http.MaxBytesReader(w, body, limit)
		if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
			return failf(http.StatusUnsupportedMediaType, "", "unsupported_encoding", "the request's body has the Content-Encoding %.100q: send it uncompressed", encoding)
		}
		return h(w, r)
	}
}

// tooLarge replaces a body whose declared size is above the limit. None of it is read.
type tooLarge struct{ limit int64 }

func (b tooLarge) Read([]byte) (int, error) { return 0, &http.MaxBytesError{Limit: b.limit} }
func (b tooLarge) Close() error             { return nil }

// filePart is the number of bytes of a file that must arrive within limits.body.
const filePart = 1 << 20

// timedBody limits the time for each part of a request's body. When the whole body has been read,
// there is no limit any more: net/http goes on reading, to notice when the client leaves. If a
// handler does not read the whole body, the limit stays for net/http, which reads the remaining
// bytes before the next request.
type timedBody struct {
	io.ReadCloser
	conn    *http.ResponseController
	timeout time.Duration
	part    int // size of a part in bytes
	read    int // bytes read from the current part
}

func (b *timedBody) begin() {
	b.read = 0
	b.conn.SetReadDeadline(time.Now().Add(b.timeout)) //nolint:errcheck // only writers in tests have no deadlines
}

func (b *timedBody) end() {
	b.conn.SetReadDeadline(time.Time{}) //nolint:errcheck // only writers in tests have no deadlines
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += n
	switch {
	case err == nil && b.read >= b.part:
		b.begin()
	case errors.Is(err, io.EOF):
		b.end()
	}
	return n, err
}
