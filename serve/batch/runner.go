package batch

import (
	"context"
	"errors"
	"fmt"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/openai"
)

// Runner answers the rows of batches. Alone and Fleet implement it.
type Runner interface {
	// Models returns the names of the models that rows can use. If there are none, any name is
	// accepted.
	Models(ctx context.Context) ([]string, error)

	// Run opens the results of a batch and adds those that are missing. It returns nil when the
	// results are complete or stopped is done. If ctx is done, it returns an error, and a later
	// call continues the batch. It can be repeated after an error, and continues the work of an
	// earlier process. An error that matches ErrHopeless is permanent.
	Run(ctx, stopped context.Context, t Task) error

	// Forget deletes the Runner's data of a batch after the batch's results were written.
	Forget(ctx context.Context, batch string) error
}

// Task describes a batch to a Runner.
type Task struct {
	Batch     string
	Model     string                       // model of the rows, one of Models
	Input     string                       // path of the input file
	Continued int                          // number of rows with a text that the model continues
	Expires   int64                        // end of the completion window, in Unix seconds
	Results   func() (*rows.Output, error) // opens the results file; called when the batch's turn begins. The store closes the file
	Report    func(Tokens)                 // called after results were written, with all tokens so far, from one goroutine
	Warn      func(string)                 // adds a warning to the batch, once
}

// warnOfContinued warns of texts that a model for chats continues.
func (t *Task) warnOfContinued() {
	if t.Continued > 0 {
		t.Warn(fmt.Sprintf("the model is for chats, but it continues the prompt of %s as text: for answers, send messages to %s",
			textfmt.Count(t.Continued, "row"), openai.Chat))
	}
}

// Tokens has the token counts of a batch's rows.
type Tokens struct {
	Prompt     int
	Completion int
}

// ErrHopeless means that a batch cannot be continued.
var ErrHopeless = errors.New("batch cannot be continued")

func until(ctx, stopped context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	detach := context.AfterFunc(stopped, cancel)
	return ctx, func() {
		detach()
		cancel()
	}
}
