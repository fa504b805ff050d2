package serve

import (
	"context"
	"net/http"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/oklog/ulid/v2"
)

const requestIDHeader = "X-Request-Id"

var requestIDForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// named wraps a handler and gives each request an id, unless the client has sent a valid one.
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

type notes struct {
	id    string
	key   string // name of the request's API key
	model string
	err   error // error that the client got; nil without one
}

type notesKey struct{}

func notesOf(ctx context.Context) *notes {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		return n
	}
	return &notes{} // the request did not pass through the handler of named
}

// logged wraps a handler and writes a log line per request. A panic of the handler becomes an
// internal error.
func (s *Server) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		out := &recorder{ResponseWriter: w, conn: http.NewResponseController(w), timeout: s.options.limits.write}
		n := notesOf(r.Context())
		defer func() {
			p := recover()
			if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // net/http compares in the same way
				s.log.Error("panic in a request", "request", n.id, "panic", p, "stack", string(debug.Stack()))
				if out.status == 0 {
					writeError(out, asHTTP(failf(http.StatusInternalServerError, "", "internal_error", "internal error")))
				} else {
					p = http.ErrAbortHandler // net/http closes the connection, so that the client notices an incomplete response
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
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares in the same way
				panic(p)
			}
		}()
		next.ServeHTTP(out, r)
	})
}

// recorder records the status and the size of a response. It limits the time for the client to
// receive each part.
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

// writePart is the number of bytes that a client must receive within limits.write.
const writePart = 256 << 10

func (r *recorder) Write(p []byte) (written int, err error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	for {
		part := p[written:min(len(p), written+writePart)]
		r.conn.SetWriteDeadline(time.Now().Add(r.timeout)) //nolint:errcheck // only writers in tests have no deadlines
		n, err := r.ResponseWriter.Write(part)
		r.bytes += int64(n)
		if written += n; err != nil || written == len(p) {
			return written, err
		}
	}
}

// Unwrap gives http.ResponseController access to the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
