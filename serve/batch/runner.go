package batch

import (
	"context"
	"errors"

	"github.com/ingot-run/ingot/rows"
)

// Runner answers batches. Alone and Fleet are the two kinds.
type Runner interface {
	// Models are the names of the models that rows can ask for. If there are none, any name is accepted.
	Models(ctx context.Context) ([]string, error)

	// Run opens the results and writes those of the rows that they lack, until they are complete or stopped is done; then it
	// returns nil. It can be repeated after an error, and continues what an earlier process has begun. If ctx is done, it leaves the
	// batch as it is and returns an error. An error that matches ErrHopeless will not go away.
	Run(ctx, stopped context.Context, t Task) error

	// Forget deletes what is left of a batch whose results were written.
	Forget(ctx context.Context, batch string) error
}

// Task is a batch for a Runner.
type Task struct {
	Batch   string
	Model   string                       // one of Models
	Input   string                       // path of the rows
	Expires int64                        // end of the completion window, in Unix seconds
	Results func() (*rows.Output, error) // opens the results when it is the batch's turn; the store closes them
	Report  func(Tokens)                 // called from one goroutine after results were written
}

// Tokens counts the tokens of a batch's rows.
type Tokens struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
}

// ErrHopeless means that a batch cannot be continued.
var ErrHopeless = errors.New("batch cannot be continued")

// until returns a context that ends when one of two contexts does.
func until(ctx, stopped context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	detach := context.AfterFunc(stopped, cancel)
	return ctx, func() {
		detach()
		cancel()
	}
}
