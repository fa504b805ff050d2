package batch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// finalize writes the batch's files and ends the batch. It can be repeated after a crash at any
// point.
func (s *Store) finalize(ctx context.Context, b *batch, runner Runner) error {
	r := b.state()
	id := r.Batch.ID
	if err := runner.Forget(ctx, id); err != nil { // Redis deletes the batch after its retention
		s.log.Warn("the results of a batch could not be deleted from the queue", "batch", id, "error", err)
	}
	f, err := s.newFiles(r)
	defer f.discard()
	if err != nil {
		return err
	}
	if err := f.write(ctx); err != nil {
		return err
	}
	output, err := f.publish(&f.output, r.Ending.OutputFile, "output")
	if err != nil {
		return err
	}
	failed, err := f.publish(&f.errors, r.Ending.ErrorFile, "error")
	if err != nil {
		return err
	}
	err = s.change(b, func(r *record) {
		v := &r.Batch
		v.Status = r.Ending.Status
		v.OutputFileID, v.ErrorFileID = output, failed
		v.RequestCounts.Completed, v.RequestCounts.Failed = f.output.lines, f.errors.lines
		if f.output.lines > 0 {
			v.Usage = &f.usage
		}
		at := map[Status]**int64{Completed: &v.CompletedAt, Failed: &v.FailedAt, Expired: &v.ExpiredAt, Cancelled: &v.CancelledAt}
		*at[v.Status] = s.unix()
	})
	if err != nil {
		return err
	}
	b.results.Store(nil)
	if err := remove(s.resultsPath(id)); err != nil { // the next Open removes the file
		s.log.Warn("the results file of a batch could not be deleted", "batch", id, "error", err)
	}
	return nil
}

type files struct {
	store  *Store
	record *record
	output lineFile // file of answers
	errors lineFile // file of rows that failed or were not run
	usage  Usage
}

// Sizes of buffers in bytes.
const (
	outputBuffer  = 256 << 10
	resultsBuffer = 1 << 20
)

type lineFile struct {
	file  *os.File
	w     *bufio.Writer
	lines int
	bytes int64
}

// newFiles makes temporary files. The caller must discard them, even if there is an error.
func (s *Store) newFiles(r *record) (*files, error) {
	f := &files{store: s, record: r}
	for _, l := range []*lineFile{&f.output, &f.errors} {
		temp, err := os.CreateTemp(s.folder(filesFolder), tempPattern)
		if err != nil {
			return f, err
		}
		l.file, l.w = temp, bufio.NewWriterSize(temp, outputBuffer)
	}
	return f, nil
}

func (f *files) discard() {
	for _, l := range []*lineFile{&f.output, &f.errors} {
		if l.file != nil {
			discard(l.file)
		}
	}
}

func (l *lineFile) write(line []byte) error {
	l.lines++
	l.bytes += int64(len(line)) + 1
	_, _ = l.w.Write(line) // WriteByte returns its error too
	return l.w.WriteByte('\n')
}

func (f *files) publish(l *lineFile, id, kind string) (*string, error) {
	if l.lines == 0 {
		return nil, nil
	}
	if err := l.w.Flush(); err != nil {
		return nil, err
	}
	file := File{Bytes: l.bytes, Purpose: PurposeOutput, Filename: fmt.Sprintf("%s_%s.jsonl", f.record.Batch.ID, kind)}
	_, err := f.store.publishFile(id, l.file, file, f.record.OutputExpiry)
	l.file = nil
	return &id, err
}

func (f *files) write(ctx context.Context) error {
	total := f.record.Batch.RequestCounts.Total
	if total == 0 {
		return nil // the batch ended before its input was read
	}
	path := f.store.resultsPath(f.record.Batch.ID)
	results, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer results.Close() //nolint:errcheck // the file was only read
	in := bufio.NewReaderSize(results, resultsBuffer)
	for ctx.Err() == nil {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if f.output.lines+f.errors.lines == total {
				return nil
			}
			return f.missing(ctx)
		}
		if err == nil {
			err = f.result(text[:len(text)-1])
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
	}
	return ctx.Err()
}

type resultLine struct {
	ID       string `json:"id"`
	CustomID string `json:"custom_id"`
	Response struct {
		Body struct {
			Usage struct {
				PromptTokens     int `json:"prompt_tokens"`
				CompletionTokens int `json:"completion_tokens"`
				PromptDetails    struct {
					CachedTokens int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
				CompletionDetails struct {
					ReasoningTokens int `json:"reasoning_tokens"`
				} `json:"completion_tokens_details"`
			} `json:"usage"`
		} `json:"body"`
	} `json:"response"`
	Error *openai.Error   `json:"error"`
	Stats json.RawMessage `json:"stats"`
}

func (f *files) result(text []byte) error {
	var l resultLine
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	if l.Error != nil {
		return f.failure(l)
	}
	u := l.Response.Body.Usage
	f.usage.InputTokens += u.PromptTokens
	f.usage.InputDetails.CachedTokens += u.PromptDetails.CachedTokens
	f.usage.OutputTokens += u.CompletionTokens
	f.usage.OutputDetails.ReasoningTokens += u.CompletionDetails.ReasoningTokens
	f.usage.TotalTokens += u.PromptTokens + u.CompletionTokens
	return f.output.write(text)
}

// failure writes the line of a row whose result is an error. As in OpenAI's files, the line has the
// response that the request would have got over HTTP. The line of an expired row has an error
// instead.
func (f *files) failure(l resultLine) error {
	batch, number, _, err := openai.ParseResultID(l.ID)
	if err != nil {
		return err
	}
	line := outputLine{OutputLine: openai.OutputLine{ID: l.ID, CustomID: l.CustomID}, Stats: l.Stats}
	if l.Error.Code == openai.CodeExpired {
		line.Error = notRun(Expired)
	} else {
		status, body := response(l.Error)
		line.Response = &openai.Response{StatusCode: status, RequestID: queue.TaskID(batch, number), Body: body}
	}
	return f.errors.marshal(line)
}

func response(e *openai.Error) (status int, body any) {
	switch e.Code {
	case openai.CodeTimeout, openai.CodeFailed, openai.CodeTooLarge, openai.CodeAbandoned:
		return http.StatusInternalServerError, openai.NewErrorBody(openai.TypeServer, e.Message, "", e.Code)
	}
	return e.HTTP()
}

type outputLine struct {
	openai.OutputLine
	Stats json.RawMessage `json:"stats,omitempty"`
}

func (l *lineFile) marshal(line outputLine) error {
	text, err := openai.Marshal(line)
	if err != nil {
		return err
	}
	return l.write(text)
}

// notRun returns the error of a row without a result, given the status of its ended batch. In a
// completed batch, the result was lost.
func notRun(s Status) *openai.Error {
	switch s {
	case Expired:
		return &openai.Error{Code: "batch_expired", Message: "This request could not be executed before the completion window expired."}
	case Cancelled:
		return &openai.Error{Code: "batch_cancelled", Message: "This request was not executed because its batch was cancelled."}
	case Failed:
		return &openai.Error{Code: "batch_failed", Message: "This request was not executed because its batch failed."}
	}
	return &openai.Error{Code: "result_lost", Message: "The result of this request was lost in the queue. Send it again in another batch."}
}

func (f *files) missing(ctx context.Context) error {
	v := f.record.Batch
	results, err := rows.OpenOutput(f.store.resultsPath(v.ID), v.ID)
	if err != nil {
		return err
	}
	defer results.Close() //nolint:errcheck // the output was only read
	in, err := os.Open(f.store.contentPath(v.InputFileID))
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // the file was only read
	input := rows.NewReader(in, rows.Options{Format: rows.FormatJSONL})
	for ctx.Err() == nil {
		l, err := input.NextLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if results.Has(l.Number) {
			continue
		}
		var row struct {
			CustomID string `json:"custom_id"`
		}
		if err := json.Unmarshal(l.Text, &row); err != nil {
			return fmt.Errorf("read line %d of the input: %w", l.Number, err)
		}
		line := openai.OutputLine{ID: openai.ResultID(v.ID, l.Number, l.Sum()), CustomID: row.CustomID, Error: notRun(f.record.Ending.Status)}
		if err := f.errors.marshal(outputLine{OutputLine: line}); err != nil {
			return err
		}
	}
	return ctx.Err()
}
