// Package local answers a file on one machine: the same producer, worker and collector as with Redis, over a queue inside
// the process. The output file is the durable state.
package local

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/job"
)

// Batch is the batch id of local runs. It goes into the seeds of rows that name none, so that a run gives the same tokens
// each time.
const Batch = "local"

// Options says how a file is answered. Zero values take the defaults named.
type Options struct {
	Format      job.Format     // job.FormatAuto where empty
	Concurrency int            // jobs that the engine may hold at once, at least 1
	Timeout     time.Duration  // of one attempt; 1 h
	Version     string         // of the program, in results
	Progress    func(Progress) // called after every written group of rows, from one goroutine; may be nil
	Logger      *slog.Logger   // slog.Default where nil
}

// Progress is how far a run is.
type Progress struct {
	Total            int // rows in the file; 0 while it is not known, as with a pipe
	Kept             int // were in the output before
	Done             int // answered by this run
	Failed           int // error lines of this run
	PromptTokens     int // of this run, as CompletionTokens
	CompletionTokens int
	Elapsed          time.Duration
}

// Summary is what a run did.
type Summary struct {
	Progress
	KeptFailed int // error lines among Kept
}

// Run answers the rows of in that out does not hold. Rows reach out as they finish. Only a window of rows is in the queue
// and in memory at a time. When ctx is done, Run stops within moments and returns ctx's error with what was done; running
// it again does the rest.
func Run(ctx context.Context, eng *engine.Engine, in io.Reader, out *job.Output, o Options) (Summary, error) {
	panic("")
}
