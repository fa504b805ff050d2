package job

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Line is a line of an output file: OpenAI's Batch shape with the row's figures beside it. Exactly one of Response and Error
// is set.
type Line struct {
	ID       string     `json:"id"` // see LineID
	CustomID string     `json:"custom_id"`
	Response *Response  `json:"response"`
	Error    *LineError `json:"error"`
	Stats    Stats      `json:"stats"`
}

// Response is an answer as OpenAI's HTTP interface would give it.
type Response struct {
	StatusCode int    `json:"status_code"`
	RequestID  string `json:"request_id"`
	Body       any    `json:"body"`
}

// The codes of rows that could be used and failed all the same, beside those of RowError.
const (
	CodeBadRequest = "bad_request" // the model cannot take it, as with a prompt longer than its context
	CodeTimeout    = "timeout"     // of every attempt
	CodeFailed     = "failed"      // an error of the engine, at every attempt
	CodeAbandoned  = "abandoned"   // every worker that took it died or lost its lease
)

// LineError is why a row has no answer.
type LineError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Stats are a row's figures. Those of a row that never reached a worker are zero.
type Stats struct {
	QueueWaitMS      float64 `json:"queue_wait_ms"` // from being queued to being taken by the worker that answered
	TTFTMS           float64 `json:"ttft_ms"`       // from there to the first generated token
	TotalMS          float64 `json:"total_ms"`      // from there to the end
	PromptTokens     int     `json:"prompt_tokens"`
	CachedTokens     int     `json:"cached_tokens"` // of the prompt, not computed again
	CompletionTokens int     `json:"completion_tokens"`
	PrefillTPS       float64 `json:"prefill_tps"` // computed prompt tokens a second, from admission to the first token
	DecodeTPS        float64 `json:"decode_tps"`  // tokens a second after the first
	Steps            int     `json:"steps"`       // forward passes that the row took part in
	DraftTokens      int     `json:"draft_tokens"`
	AcceptedTokens   int     `json:"accepted_tokens"`
	Attempts         int     `json:"attempts"`   // deliveries to a worker, the last one included
	BatchMean        float64 `json:"batch_mean"` // mean number of sequences in its steps
	Origin
}

// Origin is what answered a row.
type Origin struct {
	Worker      string `json:"worker"`
	Backend     string `json:"backend"`
	Device      string `json:"device"`
	Model       string `json:"model"`
	ModelSHA256 string `json:"model_sha256"`
	Version     string `json:"version"`
}

// Fingerprint is OpenAI's system_fingerprint: rows with the same one and the same seed get the same tokens.
func (o Origin) Fingerprint() string {
	return "fp_" + o.Backend + "_" + o.ModelSHA256[:min(12, len(o.ModelSHA256))]
}

const linePrefix = "batch_req_"

// LineID is the id of a row's result. It ties the result to the batch, the line and the content of that line.
func LineID(batch string, line int, sum string) string {
	return fmt.Sprintf("%s%s-%d-%s", linePrefix, batch, line, sum)
}

// ParseLineID takes a LineID apart.
func ParseLineID(id string) (batch string, line int, sum uint32, err error) {
	rest, ok := strings.CutPrefix(id, linePrefix)
	parts := strings.Split(rest, "-")
	if !ok || len(parts) < 3 {
		return "", 0, 0, fmt.Errorf("id %q is not that of a result", id)
	}
	n := len(parts)
	line, err = strconv.Atoi(parts[n-2])
	raw, hexErr := hex.DecodeString(parts[n-1])
	if err != nil || hexErr != nil || line < 1 || line > math.MaxInt32 || len(raw) != 4 {
		return "", 0, 0, fmt.Errorf("id %q is not that of a result", id)
	}
	return strings.Join(parts[:n-2], "-"), line, binary.BigEndian.Uint32(raw), nil
}

// Result is what became of a row: its line of output, and what is counted of it.
type Result struct {
	Line   int
	Text   []byte // the Line as JSON, without a line end
	Failed bool
	Stats  Stats
}

// Failure is the result of a row that has no answer.
func Failure(batch string, line int, sum, customID string, e LineError, s Stats) Result {
	e.Message = fmt.Sprintf("line %d: %s", line, e.Message)
	return newResult(line, Line{ID: LineID(batch, line, sum), CustomID: customID, Error: &e, Stats: s})
}

// Rejected is the result of a row that cannot be used.
func Rejected(batch string, row Row, version string) Result {
	return Failure(batch, row.Line, row.Sum, row.CustomID, LineError(*row.Err), Stats{Origin: Origin{Version: version}})
}

// Answered is the result of a job with a response body.
func Answered(j *Job, body any, s Stats) Result {
	return newResult(j.Line, Line{
		ID:       LineID(j.Batch, j.Line, j.Sum),
		CustomID: j.CustomID,
		Response: &Response{StatusCode: 200, RequestID: TaskID(j.Batch, j.Line), Body: body},
		Stats:    s,
	})
}

func newResult(line int, l Line) Result {
	text, err := marshal(l)
	if err != nil { // a number that JSON cannot hold
		l.Response, l.Error = nil, &LineError{CodeFailed, fmt.Sprintf("line %d: write the result: %v", line, err)}
		if text, err = marshal(l); err != nil {
			panic(fmt.Sprintf("encode a result: %v", err))
		}
	}
	return Result{Line: line, Text: text, Failed: l.Error != nil, Stats: l.Stats}
}

// derivedSeed is the seed of a row that names none: 53 bits, so that every JSON reader keeps it exact.
func derivedSeed(batch string, line int) int64 {
	sum := sha256.Sum256([]byte(TaskID(batch, line)))
	return int64(binary.BigEndian.Uint64(sum[:8]) >> 11)
}
