package job

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrNoBatch says that Redis knows no batch of an id: it was never queued, or it is past its retention.
var ErrNoBatch = errors.New("no such batch")

// ErrOtherFile says that rows do not belong to what was made of another file before.
var ErrOtherFile = errors.New("file is not the one used before")

// Format is how rows stand in a file.
type Format string

// The formats.
const (
	FormatAuto  Format = "auto"
	FormatJSONL Format = "jsonl"
	FormatText  Format = "text"
)

// ParseFormat checks a format's name.
func ParseFormat(s string) (Format, error) { panic("") }

// Row is a line of an input file.
type Row struct {
	Line     int
	Sum      string
	CustomID string
	Endpoint Endpoint
	Body     json.RawMessage
	Err      *RowError
}

// RowError is why a row cannot be used.
type RowError struct{ Code, Message string }

func (e *RowError) Error() string { return e.Message }

// Reader reads rows.
type Reader struct{}

// NewReader reads rows from r.
func NewReader(r io.Reader, f Format) *Reader { panic("") }

// Next returns the next row, or io.EOF.
func (r *Reader) Next() (Row, error) { panic("") }

// Output is a file of results.
type Output struct{}

// OpenOutput opens or creates a file of results of a batch and repairs its last line.
func OpenOutput(path, batch string) (*Output, error) { panic("") }

// NewOutput writes results to w, such as a pipe, which holds none.
func NewOutput(w io.Writer) *Output { panic("") }

// Close flushes and closes the output; a writer given to NewOutput stays open.
func (o *Output) Close() error { panic("") }

// Dial connects to a Redis server and checks that it answers. Warnings name settings with which jobs can be lost.
func Dial(ctx context.Context, url string) (c redis.UniversalClient, warnings []string, err error) {
	panic("")
}

// Status is how far a batch is.
type Status struct {
	Batch            string    `json:"batch"`
	Alias            string    `json:"model"`
	Priority         Priority  `json:"priority"`
	State            string    `json:"state"` // enqueueing, in_progress, completed
	Created          time.Time `json:"created_at"`
	Total            int       `json:"total"` // 0 until enqueueing is complete
	Done             int       `json:"done"`  // answered
	Failed           int       `json:"failed"`
	Running          int       `json:"running"`
	PromptTokens     int       `json:"prompt_tokens"`
	CompletionTokens int       `json:"completion_tokens"`
	RowsPerSecond    float64   `json:"rows_per_s"`
	TokensPerSecond  float64   `json:"tokens_per_s"`
}
