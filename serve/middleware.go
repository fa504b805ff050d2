package serve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/oklog/ulid/v2"
)

// requestIDHeader names the request in requests, responses and the log.
const requestIDHeader = "X-Request-Id"

var requestIDForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// named gives each request an id, unless its client has given a usable one.
func (s *Server) named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if !requestIDForm.MatchString(id) {
			id = newRequestID()
		}
		w.Header().Set(requestIDHeader, id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), notesKey{}, &notes{id: id})))
	})
}

func newRequestID() string { return "req_" + ulid.Make().String() }

// notes has what the log shows about a request besides its path.
type notes struct {
	id    string
	key   string // name of the API key
	model string
	err   error // why it failed
}

type notesKey struct{}

// notesOf returns the notes of a request.
func notesOf(ctx context.Context) *notes {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		return n
	}
	return &notes{} // the handler runs without the middleware
}

// logged writes a line per request into the log. A panic of a handler becomes an error of the server.
func (s *Server) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		out := &recorder{ResponseWriter: w, conn: http.NewResponseController(w), timeout: s.options.WriteTimeout}
		n := notesOf(r.Context())
		defer func() {
			p := recover()
			if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // net/http compares it like this
				s.log.Error("panic in a request", "request", n.id, "panic", p, "stack", string(debug.Stack()))
				if out.status == 0 {
					writeError(out, asHTTP(failf(http.StatusInternalServerError, "", "internal_error", "internal error")))
				} else {
					p = http.ErrAbortHandler // the client notices that the response is not complete
				}
			}
			attributes := []any{
				"method", r.Method, "path", r.URL.Path, "status", out.status, "bytes", out.bytes,
				"took", time.Since(start).Round(time.Millisecond), "request", n.id,
			}
			if n.key != "" {
				attributes = append(attributes, "key", n.key)
			}
			if n.model != "" {
				attributes = append(attributes, "model", n.model)
			}
			if n.err != nil {
				attributes = append(attributes, "error", n.err)
			}
			s.log.Info("request", attributes...)
			if p == http.ErrAbortHandler { //nolint:errorlint // as above
				panic(p)
			}
		}()
		next.ServeHTTP(out, r)
	})
}

// recorder records the status and the size of a response, and gives the client some time to take each part of it.
type recorder struct {
	http.ResponseWriter
	conn    *http.ResponseController
	timeout time.Duration
	status  int
	bytes   int64
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	r.conn.SetWriteDeadline(time.Now().Add(r.timeout)) //nolint:errcheck // a writer without deadlines is a test's
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// crossOrigin lets web pages of the allowed origin use the server.
func (s *Server) crossOrigin(next http.Handler) http.Handler {
	allowed := s.options.Origin
	if allowed == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		w.Header().Add("Vary", "Origin")
		if origin == "" || allowed != "*" && origin != allowed {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", allowed)
		h.Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
			if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
				h.Set("Access-Control-Allow-Headers", asked)
			}
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// authenticated requires one of the server's API keys, if it has any.
func (s *Server) authenticated(h handler) http.Handler {
	return s.open(func(w http.ResponseWriter, r *http.Request) error {
		if s.options.Keys == nil {
			return h(w, r)
		}
		key, err := s.options.Keys.ofRequest(r)
		if err != nil {
			return err
		}
		notesOf(r.Context()).key = key.name
		return h(w, r.WithContext(context.WithValue(r.Context(), keyKey{}, key)))
	})
}

type keyKey struct{}

// keyOf returns the API key of a request; nil if the server has none.
func keyOf(ctx context.Context) *key {
	k, _ := ctx.Value(keyKey{}).(*key)
	return k
}

// limited limits size and time of a request's body. Each part of that many bytes may take Options.BodyTimeout.
func (s *Server) limited(limit int64, part int, h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body := &timedBody{ReadCloser: r.Body, conn: http.NewResponseController(w), timeout: s.options.BodyTimeout, part: part}
		if r.Body != http.NoBody { // then nothing has to arrive
			body.begin()
		}
		r.Body = http.MaxBytesReader(w, body, limit)
		return h(w, r)
	}
}

// filePart is the number of bytes of a file that must arrive within Options.BodyTimeout.
const filePart = 1 << 20

// timedBody limits the time for each part of a request's body. Once the body is read, there is no limit: net/http reads on to notice
// that the client is gone. The limit stays for what a handler has not read, which net/http reads before the next request.
type timedBody struct {
	io.ReadCloser
	conn    *http.ResponseController
	timeout time.Duration
	part    int // bytes of a part
	read    int // bytes read of the current part
}

func (b *timedBody) begin() {
	b.read = 0
	b.conn.SetReadDeadline(time.Now().Add(b.timeout)) //nolint:errcheck // a writer without deadlines is a test's
}

func (b *timedBody) end() {
	b.conn.SetReadDeadline(time.Time{}) //nolint:errcheck // as above
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

// open makes an http.Handler of a handler.
func (s *Server) open(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			e := asHTTP(err)
			notesOf(r.Context()).err = err
			writeError(w, e)
		}
	})
}
