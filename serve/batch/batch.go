package batch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/progress"
	"github.com/ingot-run/ingot/openai"
)

// Status is the state of a batch in OpenAI's API.
type Status string

// The states. The last four are final.
const (
	Validating Status = "validating" // the input is being read
	InProgress Status = "in_progress"
	Finalizing Status = "finalizing" // the results are being written to files
	Cancelling Status = "cancelling"

	Completed Status = "completed" // every row was answered or failed
	Failed    Status = "failed"    // the batch could not be run; see Batch.Errors
	Expired   Status = "expired"   // the completion window is over; the output has the rows that were answered in time
	Cancelled Status = "cancelled" // the output has the rows that were answered before the cancellation
)

// Ended reports whether a state is final.
func (s Status) Ended() bool {
	return s == Completed || s == Failed || s == Expired || s == Cancelled
}

// Batch is a batch in the form of OpenAI's API. Times are Unix seconds; times that the batch has
// not reached are null.
type Batch struct {
	ID               string            `json:"id"`
	Object           string            `json:"object"`
	Endpoint         openai.Endpoint   `json:"endpoint"`
	Model            string            `json:"model,omitempty"` // model of the rows; empty before validation
	Errors           *Faults           `json:"errors"`
	Warnings         []string          `json:"warnings,omitempty"` // about answers that are probably not what the client wants; not a field of OpenAI's
	InputFileID      string            `json:"input_file_id"`
	CompletionWindow string            `json:"completion_window"`
	Status           Status            `json:"status"`
	OutputFileID     *string           `json:"output_file_id"` // file of answers; null if there are none
	ErrorFileID      *string           `json:"error_file_id"`  // file of rows that failed or were not run; null if there are none
	CreatedAt        int64             `json:"created_at"`
	InProgressAt     *int64            `json:"in_progress_at"`
	ExpiresAt        int64             `json:"expires_at"`
	FinalizingAt     *int64            `json:"finalizing_at"`
	CompletedAt      *int64            `json:"completed_at"`
	FailedAt         *int64            `json:"failed_at"`
	ExpiredAt        *int64            `json:"expired_at"`
	CancellingAt     *int64            `json:"cancelling_at"`
	CancelledAt      *int64            `json:"cancelled_at"`
	RequestCounts    Counts            `json:"request_counts"`
	Usage            *Usage            `json:"usage,omitempty"` // token counts of the answers; nil before the end
	Metadata         map[string]string `json:"metadata"`
}

// Counts has the numbers of a batch's rows. After the end of a batch, Completed is the number of
// lines in its output file, and Failed the number in its error file.
type Counts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

// Usage is the sum of the usage of a batch's answers.
type Usage struct {
	InputTokens  int `json:"input_tokens"`
	InputDetails struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens  int `json:"output_tokens"`
	OutputDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int `json:"total_tokens"`
}

// Faults lists the reasons why a batch failed.
type Faults struct {
	Object string  `json:"object"`
	Data   []Fault `json:"data"`
}

// Fault is one reason why a batch failed.
type Fault struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"` // JSON key that has to change; null for the whole line
	Line    *int    `json:"line"`  // line of the input file, from 1; null for the whole batch
}

func newFaults(list ...Fault) *Faults { return &Faults{Object: "list", Data: list} }

type record struct {
	Batch        Batch         `json:"batch"`
	OutputExpiry time.Duration `json:"output_expiry,omitempty"` // time to live of the batch's files
	Models       []string      `json:"models,omitempty"`        // models that the rows may name; nil for all
	Continued    int           `json:"continued,omitempty"`     // number of rows with a text that the model continues
	Ending       *ending       `json:"ending,omitempty"`        // how the batch ends; nil until the results file is final
}

// ending describes how a batch ends. It is stored before the output files are written. After a
// crash, they are written again under the same ids.
type ending struct {
	Status     Status `json:"status"`
	OutputFile string `json:"output_file"`
	ErrorFile  string `json:"error_file"`
}

type batch struct {
	writing sync.Mutex             // held while the record changes
	record  atomic.Pointer[record] // same content as on the disk; replaced, never modified

	stopped context.Context // done when the batch is cancelled or its completion window is over
	stop    context.CancelFunc

	results atomic.Pointer[rows.Output] // results file of a running batch; nil before and after

	mu     sync.Mutex
	speed  progress.Meter
	tokens Tokens
}

func newBatch(r record) *batch {
	b := &batch{}
	b.record.Store(&r)
	b.stopped, b.stop = context.WithCancel(context.Background())
	if r.Batch.Status == Cancelling {
		b.stop()
	}
	return b
}

func (b *batch) state() *record { return b.record.Load() }

func (b *batch) view() Batch {
	r := b.state()
	v := r.Batch
	if out := b.results.Load(); out != nil && r.Ending == nil {
		lines, failed := out.Counts()
		v.RequestCounts.Completed, v.RequestCounts.Failed = lines-failed, failed
	}
	return v
}

// change modifies the record of a batch with f and stores it. When change returns nil, the new
// record is on the disk and visible to clients.
func (s *Store) change(b *batch, f func(*record)) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	return s.changeLocked(b, f)
}

func (s *Store) changeLocked(b *batch, f func(*record)) error {
	r := *b.state()
	before := r.Batch.Status
	f(&r)
	if err := writeJSON(s.batchPath(r.Batch.ID), r); err != nil {
		return err
	}
	s.mu.Lock() // held for both changes below: a client that sees the end of the batch may delete its input file at once
	defer s.mu.Unlock()
	b.record.Store(&r)
	if r.Batch.Status.Ended() && !before.Ended() {
		s.releaseInput(r.Batch.InputFileID)
	}
	return nil
}

func (s *Store) unix() *int64 { return new(s.now().Unix()) }
