package serve

import (
	"context"
	"time"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/generation"
	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/openai"
)

// Answerer answers requests, with engines in this process or with the workers of a fleet.
type Answerer interface {
	// Models are the models that can be asked, in order of name.
	Models(ctx context.Context) ([]Model, error)

	// Engine returns the engine of a model, or nil if the model is not in this process.
	Engine(alias string) *engine.Engine

	// Workers are the processes that answer, and those that were lost within the last hour.
	Workers(ctx context.Context) ([]job.Worker, error)

	// Answer answers a request with interactive priority. It returns as soon as ctx is done, and the generation then stops within a step.
	// Errors are those of the engine and of the queue.
	Answer(ctx context.Context, c Call) (Answer, error)
}

// Model is a model that can be asked.
type Model struct {
	Alias   string // under which requests name it
	Name    string // in its file
	Since   time.Time
	Context int // maximum tokens of prompt and answer; 0 if it is not known
}

// Call is a request to a model.
type Call struct {
	ID      string // id of the request
	Model   string // alias
	Request *openai.Request
	Body    []byte // the request's body, from which Request was parsed
	Seed    int64
	Created time.Time

	// Stream, if not nil, receives the pieces of the answers to the prompts as they are made. The calls are sequential. An error ends
	// the call, and Answer returns it.
	Stream func(prompt int, p generation.Piece) error
}

// Answer is the outcome of a call.
type Answer struct {
	Body  any // body of the response, as JSON
	Stats job.Stats
}
