package queue

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
)

// Line is a line of output: OpenAI's fields and the row's statistics.
type Line struct {
	openai.OutputLine
	Stats Stats `json:"stats"`
}

// Result is the outcome of a row: its line of output, and the statistics that are summed for its
// batch.
type Result struct {
	Line   int
	Sum    string // the job's Sum
	File   string // the job's File
	Alias  string // the job's Alias
	Text   []byte // a Line as JSON, without a newline
	Failed bool
	Pin    string // Pin of the model that answered; empty for an error
	Job    []byte // payload of a failed job, if the job can be tried again; otherwise nil
	Stats  Stats
}

// Failure returns the result of a row that has no answer.
func Failure(j *Job, e openai.Error, s Stats) Result {
	e.Message = fmt.Sprintf("line %d: %s", j.Line, e.Message)
	return newResult(j, openai.OutputLine{Error: &e}, s)
}

// TooLarge returns the error result of a row whose answer has more bytes than the queue accepts.
func TooLarge(j *Job, bytes, maximum int, s Stats) Result {
	return Failure(j, openai.Error{Code: openai.CodeTooLarge, Message: fmt.Sprintf(
		"the result has %d bytes, the maximum is %d: ask for fewer choices, tokens or log-probabilities", bytes, maximum)}, s)
}

// ExpiredError returns the error of a row that was not answered before the deadline of its batch.
func ExpiredError(j *Job) openai.Error {
	deadline, _ := j.Deadline()
	return openai.Error{Code: openai.CodeExpired, Message: "not answered before the deadline of its batch, " + deadline.UTC().Format(time.RFC3339)}
}

// Expired returns the error result of a job that is still in the queue after the deadline of its
// batch.
func Expired(j *Job) (Result, error) {
	r := Failure(j, ExpiredError(j), Stats{})
	var err error
	r.Job, err = j.Encode()
	return r, err
}

// Answered returns the result of an answered job. r is the job's parsed body. done are the
// completions of the job's prompts. s has the statistics that the completions lack: queue wait,
// attempts and origin. The answer names the model as the origin's Alias or, for a live request, as
// the request does.
func Answered(j *Job, r *openai.Request, done []generation.Completion, finished time.Time, s Stats) Result {
	s.Add(done)
	answer := openai.Answer{
		ID:          j.Batch + "-" + strconv.Itoa(j.Line),
		Created:     finished,
		Model:       cmp.Or(s.Alias, s.Model),
		Fingerprint: s.Fingerprint(),
		Seed:        r.Seed(j.defaultSeed()),
	}
	if j.Live != nil { // the server has checked the model name
		answer.ID, answer.Model = j.CustomID, r.Model()
	}
	body := r.Response(answer, done)
	response := &openai.Response{StatusCode: 200, RequestID: TaskID(j.Batch, j.Line), Body: body}
	result := newResult(j, openai.OutputLine{Response: response}, s)
	if !result.Failed && s.ModelSHA256 != "" {
		result.Pin = s.Pin()
	}
	return result
}

func newResult(j *Job, l openai.OutputLine, s Stats) Result {
	l.ID, l.CustomID, l.RecordSum = openai.ResultID(j.Batch, j.Line, j.Sum), j.CustomID, j.RecordSum
	text, err := openai.Marshal(Line{l, s})
	switch {
	case err != nil: // a number that JSON does not support, in the answer or in the statistics
		s.QueueWaitMS, s.TTFTMS, s.TotalMS, s.MaskMS, s.PrefillTPS, s.DecodeTPS, s.BatchMean = 0, 0, 0, 0, 0, 0, 0
		return Failure(j, openai.Error{Code: openai.CodeFailed, Message: fmt.Sprintf("write the result: %v", err)}, s)
	case len(text) >= openai.MaxOutputLine:
		return TooLarge(j, len(text), openai.MaxOutputLine-1, s)
	}
	return Result{Line: j.Line, Sum: j.Sum, File: j.File, Alias: j.Alias, Text: text, Failed: l.Error != nil, Stats: s}
}
