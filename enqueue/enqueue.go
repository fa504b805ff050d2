// Package enqueue is the producer's side: it reads and checks rows, puts them in the queue, and collects their results.
package enqueue

import (
	"context"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/job"
)

// Options says where and how rows are queued. Zero values of durations and counts take the defaults named.
type Options struct {
	Batch       string        // id, needed; NewBatchID makes one
	Alias       string        // model; job.DefaultAlias where empty
	Priority    job.Priority  // job.Default where empty
	Format      job.Format    // job.FormatAuto where empty
	MaxAttempts int           // deliveries of a job before its error is recorded; 5
	Timeout     time.Duration // of one attempt; 1 h
	Retention   time.Duration // of a finished batch's results, after its last row; 7 days
	Progress    func(Summary) // called now and then from one goroutine, and at the end; may be nil
}

// Summary counts what became of the rows of a file.
type Summary struct {
	Batch    string `json:"batch"`
	Rows     int    `json:"rows"`     // in the file; empty lines are none
	Added    int    `json:"added"`    // put in the queue
	Known    int    `json:"known"`    // queued or finished before
	Rejected int    `json:"rejected"` // recorded as errors, since they cannot be used
}

// NewBatchID makes a batch id: a ULID, which sorts by time.
func NewBatchID() string { panic("") }

// Enqueue reads rows and queues one task for each. It is safe to repeat: rows of the same batch that are queued, running or
// finished are left alone, so a run that was interrupted is completed by running it again. A file other than the one that
// the batch was made of is refused with ErrOtherFile; this is found before anything is queued where in is an io.Seeker.
func Enqueue(ctx context.Context, rdb redis.UniversalClient, in io.Reader, o Options) (Summary, error) {
	panic("")
}

// CollectOptions says how results are collected.
type CollectOptions struct {
	Follow   bool             // wait for rows until the batch is finished
	Progress func(job.Status) // called now and then, and at the end; may be nil
}

// Collected counts the lines of an output.
type Collected struct {
	Kept     int // were there before
	Written  int
	Failed   int  // error lines among all
	Finished bool // the batch is finished and all its rows are in the output
}

// Collect writes the results of a batch that out does not hold yet. It can be interrupted and repeated at any time: each row
// stands in out exactly once. A batch that does not exist gives job.ErrNoBatch.
func Collect(ctx context.Context, rdb redis.UniversalClient, batch string, out *job.Output, o CollectOptions) (Collected, error) {
	panic("")
}

// Status reads how far a batch is. A batch that does not exist gives job.ErrNoBatch.
func Status(ctx context.Context, rdb redis.UniversalClient, batch string) (job.Status, error) {
	panic("")
}
