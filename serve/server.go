// Package serve answers OpenAI's API over HTTP, with engines in this process or with a fleet's
// workers.
package serve

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/serve/batch"
	"github.com/ingot-run/ingot/serve/console"
	"github.com/ingot-run/ingot/worker"
)

//go:embed openapi.yaml
var description []byte

// Options are the settings of a server.
type Options struct {
	Answerer Answerer     // answers the requests; required
	Store    *batch.Store // files and batches; nil for a server without them
	Queued   Queued       // lists the batches of a fleet's queue; nil without a fleet
	Keys     *Keys        // API keys that may use the server; nil if everyone may
	Origin   string       // origin whose web pages may use the server; * for all origins, empty for none
	Host     string       // host name under which a server without keys may be used, besides its addresses and localhost
	AnyHost  bool         // a server without keys may be used under every host name
	Version  string       // version of the program
	Logger   *slog.Logger // receives log messages; default slog.Default()

	limits *limits // nil for defaultLimits
}

// Queued returns the batches in a fleet's queue, the newest first, without requests whose clients
// wait.
type Queued = func(context.Context) ([]queue.Status, error)

type limits struct {
	drain     time.Duration // for running requests to finish when Serve stops
	keepAlive time.Duration // a stream without an event for this time gets a comment
	header    time.Duration // to receive a request's headers
	body      time.Duration // to receive a request's body, or a part of a file
	write     time.Duration // for a client to receive a part of a response
	idle      time.Duration // a connection without a request for this time is closed
	waiting   int64         // number of waiting requests from which on others are refused; see waiting
}

var defaultLimits = limits{
	drain: 20 * time.Second, keepAlive: 15 * time.Second, header: 10 * time.Second, body: time.Minute, write: 30 * time.Second, idle: 2 * time.Minute,
	waiting: 2048,
}

// Server answers OpenAI's API.
type Server struct {
	options  Options
	answerer Answerer
	log      *slog.Logger
	mux      *http.ServeMux
	metrics  *metrics
	bodies   *room    // memory of large bodies
	waiting  *waiting // answers that clients wait for
	draining atomic.Bool
	sessions sessions
	console  *console.Console

	cutOff context.Context // done when the server no longer waits for running requests
	cut    context.CancelFunc
}

// New makes a server. The caller closes the Answerer and the Store after the server has ended.
func New(o Options) *Server {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.limits = cmp.Or(o.limits, &defaultLimits)
	s := &Server{
		options: o, answerer: o.Answerer, log: o.Logger, mux: http.NewServeMux(), metrics: newMetrics(o.Answerer),
		bodies: newRoom(maxBodies, openai.MaxBody+smallBody, bodyWait), waiting: &waiting{limit: o.limits.waiting},
	}
	s.cutOff, s.cut = context.WithCancel(context.Background())
	s.console = s.newConsole()
	s.routes()
	return s
}

func (s *Server) routes() {
	alive := worker.Check(func(context.Context) error { return nil })
	s.mux.Handle("GET /healthz", alive)
	s.mux.Handle("GET /health", alive) // as vLLM, llama.cpp and TGI name it
	s.mux.Handle("GET /version", s.open(s.showVersion))
	s.mux.Handle("GET /readyz", worker.Check(s.ready))
	s.mux.Handle("GET /openapi.yaml", s.open(s.describe))
	s.handle("GET /v1/models", s.listModels)
	s.handle("GET /v1/models/{id...}", s.showModel)
	s.handle("POST /v1/chat/completions", s.generate(openai.Chat))
	s.handle("POST /v1/completions", s.generate(openai.Completions))
	s.handle("POST /tokenize", s.withBody(s.tokenize))
	s.handle("POST /detokenize", s.withBody(s.detokenize))
	s.handle("GET /tokenizer_info", s.tokenizerInfo)
	s.handle("GET /metrics", s.metrics.handler())
	s.handleFile("POST /v1/files", s.upload)
	s.handle("GET /v1/files", s.stored(s.listFiles))
	s.handle("GET /v1/files/{id}", s.stored(s.showFile))
	s.handle("GET /v1/files/{id}/content", s.stored(s.fileContent))
	s.handle("DELETE /v1/files/{id}", s.stored(s.deleteFile))
	s.handle("POST /v1/batches", s.stored(s.withBody(s.createBatch)))
	s.handle("GET /v1/batches", s.stored(s.listBatches))
	s.handle("GET /v1/batches/{id}", s.stored(s.showBatch))
	s.handle("POST /v1/batches/{id}/cancel", s.stored(s.cancelBatch))
	s.consoleRoutes()
	s.handle("/", s.unknownPath)
}

// handle registers a handler. Its requests need an API key if the server has any. Their bodies are
// limited to openai.MaxBody bytes and must arrive within limits.body.
func (s *Server) handle(pattern string, h handler) {
	s.register(pattern, s.authenticated(s.limited(openai.MaxBody, openai.MaxBody+1, h)))
}

// register registers a handler, for a path of /v1 also without this prefix, which clients leave out
// whose base URL lacks it.
func (s *Server) register(pattern string, h http.Handler) {
	s.mux.Handle(pattern, h)
	if method, path, ok := strings.Cut(pattern, " /v1/"); ok {
		s.mux.Handle(method+" /"+path, h)
	}
}

// handleFile registers a handler whose requests have a file in their body. Each part of filePart
// bytes must arrive in time.
func (s *Server) handleFile(pattern string, h handler) {
	limit := int64(formBytes)
	if s.options.Store != nil {
		limit += s.options.Store.MaxFileBytes()
	}
	s.register(pattern, s.authenticated(s.limited(limit, filePart, s.stored(h))))
}

// stored wraps a handler of files and batches. Without a store, its response is that of an unknown
// URL, so that clients can tell that the server has no files. An error about a missing file or
// batch names the id in the request's path.
func (s *Server) stored(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if s.options.Store == nil {
			return failf(http.StatusNotFound, "", "unknown_url", "this server has no files and batches: start it with --data FOLDER")
		}
		err := h(w, r)
		var request *batch.RequestError
		switch id := r.PathValue("id"); {
		case errors.As(err, &request):
			return failf(http.StatusBadRequest, request.Param, request.Code, "%s", request.Message)
		case errors.Is(err, batch.ErrNoFile):
			return failf(http.StatusNotFound, "file_id", "file_not_found", "there is no file with the id %.100q", id)
		case errors.Is(err, batch.ErrNoBatch):
			return failf(http.StatusNotFound, "batch_id", "batch_not_found", "there is no batch with the id %.100q", id)
		}
		return err
	}
}

// Handler returns the handler of all requests.
func (s *Server) Handler() http.Handler {
	return s.named(s.logged(s.metrics.counted(s.crossOrigin(s.mux))))
}

func (s *Server) showVersion(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, map[string]string{"version": s.options.Version}, nil)
}

func (s *Server) describe(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	w.Write(description) //nolint:errcheck // fails only if the client has left
	return nil
}
