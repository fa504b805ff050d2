// Package serve answers OpenAI's API over HTTP, with engines in this process or with a fleet's workers.
package serve

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/serve/batch"
)

// The defaults of Options.
const (
	DefaultDrainTime     = 20 * time.Second
	DefaultKeepAlive     = 15 * time.Second
	DefaultHeaderTimeout = 10 * time.Second
	DefaultBodyTimeout   = time.Minute
	DefaultWriteTimeout  = 30 * time.Second
	DefaultIdleTimeout   = 2 * time.Minute
)

// Options are the settings of a server. A zero value stands for the default that the field's comment names.
type Options struct {
	Answerer Answerer     // answers the requests; required
	Store    *batch.Store // files and batches; nil for a server without them
	Keys     *Keys        // API keys that may use the server; nil if everyone may
	Origin   string       // origin whose web pages may use the server; * for all origins, empty for none
	Version  string       // version of the program
	Logger   *slog.Logger // receives log messages; default slog.Default()

	DrainTime     time.Duration // maximum time for running requests to finish when Serve stops; default DefaultDrainTime
	KeepAlive     time.Duration // a stream without an event for this time gets a comment; default DefaultKeepAlive
	HeaderTimeout time.Duration // maximum time to receive a request's headers; default DefaultHeaderTimeout
	BodyTimeout   time.Duration // maximum time to receive a request's body, or a part of a file; default DefaultBodyTimeout
	WriteTimeout  time.Duration // maximum time for a client to receive a part of a response; default DefaultWriteTimeout
	IdleTimeout   time.Duration // a connection without a request for this time is closed; default DefaultIdleTimeout
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	for _, d := range []struct {
		value *time.Duration
		def   time.Duration
	}{
		{&o.DrainTime, DefaultDrainTime},
		{&o.KeepAlive, DefaultKeepAlive},
		{&o.HeaderTimeout, DefaultHeaderTimeout},
		{&o.BodyTimeout, DefaultBodyTimeout},
		{&o.WriteTimeout, DefaultWriteTimeout},
		{&o.IdleTimeout, DefaultIdleTimeout},
	} {
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	return o
}

// Server answers OpenAI's API.
type Server struct {
	options  Options
	answerer Answerer
	log      *slog.Logger
	mux      *http.ServeMux
	metrics  *metrics
	bodies   *semaphore.Weighted // limits the total bytes of large bodies
	draining atomic.Bool
	sessions sessions
	history  history

	cutOff context.Context // done when the server no longer waits for running requests
	cut    context.CancelFunc
}

// New makes a server. The caller closes the Answerer and the Store after the server has ended.
func New(o Options) (*Server, error) {
	o = o.withDefaults()
	s := &Server{options: o, answerer: o.Answerer, log: o.Logger, mux: http.NewServeMux(), metrics: newMetrics(o.Answerer), bodies: semaphore.NewWeighted(maxBodies)}
	s.cutOff, s.cut = context.WithCancel(context.Background())
	s.routes()
	return s, nil
}

// routes registers the handlers of methods and paths.
func (s *Server) routes() {
	s.mux.Handle("GET /healthz", s.open(s.health))
	s.mux.Handle("GET /readyz", s.open(s.ready))
	s.mux.Handle("GET /openapi.yaml", s.open(s.describe))
	s.handle("GET /v1/models", s.listModels)
	s.handle("GET /v1/models/{id...}", s.showModel)
	s.handle("POST /v1/chat/completions", s.generate(openai.Chat))
	s.handle("POST /v1/completions", s.generate(openai.Completions))
	s.handle("POST /tokenize", s.tokenize)
	s.handle("POST /detokenize", s.detokenize)
	s.handle("GET /tokenizer_info", s.tokenizerInfo)
	s.handle("GET /metrics", s.metrics.handler())
	s.storeRoutes()
	s.consoleRoutes()
	s.handle("/", s.unknownPath)
}

// storeRoutes registers the handlers of files and batches.
func (s *Server) storeRoutes() {
	limit := int64(formBytes)
	if s.options.Store != nil {
		limit += s.options.Store.MaxFileBytes()
	}
	s.handleLarge("POST /v1/files", limit, s.upload)
	s.handle("GET /v1/files", s.listFiles)
	s.handle("GET /v1/files/{id}", s.showFile)
	s.handle("GET /v1/files/{id}/content", s.fileContent)
	s.handle("DELETE /v1/files/{id}", s.deleteFile)
	s.handle("POST /v1/batches", s.createBatch)
	s.handle("GET /v1/batches", s.listBatches)
	s.handle("GET /v1/batches/{id}", s.showBatch)
	s.handle("POST /v1/batches/{id}/cancel", s.cancelBatch)
}

// handle registers a handler. Its requests need an API key if the server has any. Their bodies are limited to openai.MaxBody bytes and
// must arrive within Options.BodyTimeout.
func (s *Server) handle(pattern string, h handler) {
	s.mux.Handle(pattern, s.authenticated(s.limited(openai.MaxBody, openai.MaxBody+1, h)))
}

// handleLarge registers a handler whose requests have bodies of up to limit bytes. Each part of filePart bytes must arrive within
// Options.BodyTimeout.
func (s *Server) handleLarge(pattern string, limit int64, h handler) {
	s.mux.Handle(pattern, s.authenticated(s.limited(limit, filePart, h)))
}

// Handler returns the handler of all requests.
func (s *Server) Handler() http.Handler {
	return s.named(s.logged(s.metrics.counted(s.crossOrigin(s.mux))))
}
