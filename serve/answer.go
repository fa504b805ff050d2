package serve

import (
	"context"
	"time"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// Answerer answers requests, either with engines in this process or with a fleet's workers.
type Answerer interface {
	// Models returns the models that requests can name, sorted by alias.
	Models(ctx context.Context) ([]Model, error)

	// Engine returns the engine of a model, or nil if the model is not in this process.
	Engine(alias string) *engine.Engine

	// Workers returns the processes that answer, and those that were lost within the last hour.
	Workers(ctx context.Context) ([]queue.Worker, error)

	// Answer answers a request with interactive priority. When ctx is done, it returns at once, and
	// the generation stops within one step. Errors are those of the engine and of the queue.
	Answer(ctx context.Context, c Call) (Answer, error)
}

// Model is a model that requests can name.
type Model struct {
	Alias   string // name of the model in requests
	Name    string // name of the model in its file
	Since   time.Time
	Context int  // maximum number of tokens of prompt and answer together; 0 if unknown
	Chat    bool // the model has a chat template
	Away    bool // no worker serves the model now, but one did within the last hour
}

// Call is a request to a model.
type Call struct {
	ID      string
	Model   string
	Request *openai.Request
	Body    []byte // body of the HTTP request, from which Request was parsed
	Seed    int64
	Created time.Time

	// Stream, if not nil, receives the pieces of the answers while they are generated, one call at
	// a time. prompt is the index of the prompt. If Stream returns an error, the generation ends
	// and Answer returns that error.
	Stream func(prompt int, p generation.Piece) error
}

// Answer is the result of a call.
type Answer struct {
	Body  any // body of the response, as JSON
	Stats queue.Stats
}
