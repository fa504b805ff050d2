package queue

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/internal/ordered"
	"github.com/ingot-run/ingot/openai"
)

// Job is one row on the queue. Encoded, it is the payload of an asynq task. Body is the row's body,
// byte for byte.
type Job struct {
	Batch       string          `json:"batch"`
	Line        int             `json:"line"`             // line number in the input, from 1; identifies the row in the batch
	Sum         string          `json:"sum"`              // the start of the SHA-256 of the line, 8 hex digits
	RecordSum   string          `json:"record,omitempty"` // checksum of the record from which the line was made; empty if it was not made from one
	File        string          `json:"file,omitempty"`   // FileID of the batch's file; empty in a local run
	CustomID    string          `json:"custom_id"`
	Endpoint    openai.Endpoint `json:"url"`
	Body        json.RawMessage `json:"body"`
	EnqueuedMS  int64           `json:"enqueued_ms"` // Unix time in ms
	TimeoutMS   int64           `json:"timeout_ms"`  // maximum time of one attempt
	MaxAttempts int             `json:"max_attempts"`
	DeadlineMS  int64           `json:"deadline_ms,omitempty"` // deadline of the batch, Unix time in ms; 0 for none
	Live        *Live           `json:"live,omitempty"`        // settings of a request whose client waits; nil for a row of a file
	Alias       string          `json:"model_name,omitempty"`  // model alias that the row names; empty for the alias of its batch
}

// Live has the settings of a job whose client waits for the answer.
type Live struct {
	Channel string `json:"channel"` // channel of the job's events
	Seed    int64  `json:"seed"`    // seed if the request has none
}

// Deadline returns the time after which the job expires. ok is false if there is no deadline.
func (j *Job) Deadline() (deadline time.Time, ok bool) {
	return time.UnixMilli(j.DeadlineMS), j.DeadlineMS > 0
}

// Overdue reports whether the deadline has passed.
func (j *Job) Overdue() bool {
	deadline, ok := j.Deadline()
	return ok && time.Now().After(deadline)
}

// Timeout returns the maximum time of one attempt.
func (j *Job) Timeout() time.Duration { return time.Duration(j.TimeoutMS) * time.Millisecond }

// Generation returns the engine's request for prompt i of r, the job's parsed body.
func (j *Job) Generation(r *openai.Request, i int) generation.Request {
	return r.Generation(i, r.Seed(j.defaultSeed()), time.UnixMilli(j.EnqueuedMS))
}

// Parse parses and checks the body.
func (j *Job) Parse() (*openai.Request, error) {
	if j.Live != nil {
		return openai.ParseLive(j.Endpoint, j.Body)
	}
	return openai.ParseRequest(j.Endpoint, j.Body)
}

// defaultSeed returns the seed of a job whose request has none. For a row it is derived from batch
// and line, so that every attempt draws the same tokens. It has 53 bits, which are exact in JSON
// readers that use float64.
func (j *Job) defaultSeed() int64 {
	if j.Live != nil {
		return j.Live.Seed
	}
	sum := sha256.Sum256([]byte(TaskID(j.Batch, j.Line)))
	return int64(binary.BigEndian.Uint64(sum[:8]) >> 11)
}

// Encode returns the job as the payload of a task.
func (j *Job) Encode() ([]byte, error) { return openai.Marshal(j) }

// Decode reads the payload of a task. It returns an error if the job is not within the limits.
func Decode(payload []byte) (*Job, error) {
	if len(payload) > maxPayload {
		return nil, fmt.Errorf("read a job's payload: it has %d bytes, the maximum is %d", len(payload), maxPayload)
	}
	j := new(Job)
	if !json.Valid(payload) || !j.read(payload) {
		*j = Job{}
		if err := json.Unmarshal(payload, j); err != nil {
			return nil, fmt.Errorf("read a job's payload: %w", err)
		}
	}
	if err := j.check(); err != nil {
		return nil, fmt.Errorf("read a job's payload: %w", err)
	}
	return j, nil
}

// read reads a payload in a fraction of the time of encoding/json. The payload must be valid JSON.
// ok is false if the payload does not have the form in which Encode writes jobs of files;
// encoding/json must then read it.
func (j *Job) read(payload []byte) (ok bool) {
	if payload[0] != '{' {
		return false
	}
	for key, value := range ordered.Members(payload) {
		ok = true
		switch key {
		case "batch":
			j.Batch, ok = ordered.Plain(value)
		case "line":
			ok = readNumber(value, &j.Line)
		case "sum":
			j.Sum, ok = ordered.Plain(value)
		case "record":
			j.RecordSum, ok = ordered.Plain(value)
		case "file":
			j.File, ok = ordered.Plain(value)
		case "custom_id":
			j.CustomID, ok = ordered.Plain(value)
		case "url":
			var url string
			url, ok = ordered.Plain(value)
			j.Endpoint = openai.Endpoint(url)
		case "body":
			j.Body = value
		case "enqueued_ms":
			ok = readNumber(value, &j.EnqueuedMS)
		case "timeout_ms":
			ok = readNumber(value, &j.TimeoutMS)
		case "max_attempts":
			ok = readNumber(value, &j.MaxAttempts)
		case "deadline_ms":
			ok = readNumber(value, &j.DeadlineMS)
		case "model_name":
			j.Alias, ok = ordered.Plain(value)
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	return ok
}

func readNumber[T int | int64](value []byte, to *T) bool {
	n, err := strconv.ParseInt(string(value), 10, strconv.IntSize)
	*to = T(n)
	return err == nil
}
