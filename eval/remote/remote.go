// Package remote answers the rows of a file with a server that speaks OpenAI's API. The output file
// is the only state: a run can be interrupted at any time, and another run answers the remaining
// rows.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/openai"
)

// Batch is the batch id in outputs of this package.
const Batch = "remote"

// Progress is the progress of a run.
type Progress struct {
	Kept             int // rows with results from earlier runs
	Done             int // rows answered by this run
	Failed           int // rows of this run that became error lines
	Retries          int // requests that were sent again
	PromptTokens     int // sum of the server's counts
	CompletionTokens int
	Elapsed          time.Duration
}

// String describes the rows of a run in one line.
func (p Progress) String() string {
	text := textfmt.Count(p.Done+p.Failed, "row") + " done"
	if p.Failed > 0 {
		text += fmt.Sprintf(" (%d failed)", p.Failed)
	}
	if p.Kept > 0 {
		text += fmt.Sprintf(", %d kept", p.Kept)
	}
	if p.Retries > 0 {
		text += ", " + textfmt.Count(p.Retries, "request") + " sent again"
	}
	return text
}

// RunFile sends the rows of a file and writes the results to another; see Run. show also gets the
// number of all rows. RunFile returns the output's error lines by code.
func (c *Client) RunFile(ctx context.Context, requests, answers string, show func(total int, p Progress)) (p Progress, codes map[string]rows.Failures, err error) {
	in, err := os.Open(requests)
	if err != nil {
		return p, nil, fmt.Errorf("read requests: %w", err)
	}
	defer in.Close() //nolint:errcheck // the file was only read
	total, err := rows.Count(in, rows.FormatJSONL)
	if err == nil {
		_, err = in.Seek(0, io.SeekStart)
	}
	if err != nil {
		return p, nil, fmt.Errorf("read requests: %w", err)
	}
	out, err := rows.OpenOutput(answers, Batch)
	if err != nil {
		return p, nil, err
	}
	p, err = c.Run(ctx, in, out, func(p Progress) { show(total, p) })
	return p, out.Codes(), errors.Join(err, out.Close())
}

// Run reads rows from in, sends them to the server, and writes each result to out when it arrives.
// The batch id of out must be Batch. Run skips rows whose results out already has. A row that the
// server refuses, or that fails in all attempts, becomes an error line. Run returns an error if
// rows cannot be read or results cannot be written, or if the server cannot be reached or refuses
// all requests, for example because of a missing key. Run calls show, unless it is nil, after each
// row and every second, one call at a time.
func (c *Client) Run(ctx context.Context, in io.Reader, out *rows.Output, show func(Progress)) (Progress, error) {
	r := &run{client: c, out: out, show: show, start: time.Now()}
	ctx, stop := context.WithCancel(ctx)
	var ticking sync.WaitGroup
	ticking.Go(func() { r.tick(ctx) })
	asking, asked := errgroup.WithContext(ctx)
	asking.SetLimit(c.options.Concurrency + 1) // one of them reads the rows
	asking.Go(func() error { return r.feed(asked, in, asking) })
	err := asking.Wait()
	stop()
	ticking.Wait()
	r.progress.Elapsed = time.Since(r.start)
	return r.progress, err
}

type run struct {
	client *Client
	out    *rows.Output
	show   func(Progress)
	start  time.Time

	mu       sync.Mutex // guards progress and calls of show
	progress Progress
}

func (r *run) tick(ctx context.Context) {
	for ticks := time.Tick(time.Second); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
			r.update(func(*Progress) {})
		}
	}
}

func (r *run) update(change func(p *Progress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.progress)
	r.progress.Elapsed = time.Since(r.start)
	if r.show != nil {
		r.show(r.progress)
	}
}

func (r *run) feed(ctx context.Context, in io.Reader, asking *errgroup.Group) error {
	for row, err := range rows.NewReader(in, rows.Options{Format: rows.FormatJSONL}).Rows(ctx) {
		switch {
		case err != nil:
		case r.out.Has(row.Line):
			if err = r.out.Check(row); err == nil {
				r.update(func(p *Progress) { p.Kept++ })
			}
		case row.Err != nil:
			err = r.write(&row, &answer{}, row.Err)
		default:
			asking.Go(func() error { return r.ask(ctx, &row) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) ask(ctx context.Context, row *rows.Row) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a, err := r.client.ask(ctx, row.Endpoint, row.Body)
	var refused *refusedError
	switch {
	case errors.As(err, &refused) && !refused.fatal():
		return r.write(row, &a, refused.asError())
	case err != nil:
		return err
	}
	return r.write(row, &a, nil)
}

type stats struct {
	Total            float64 `json:"total_ms"` // duration of the last attempt
	PromptTokens     int     `json:"prompt_tokens"`
	CompletionTokens int     `json:"completion_tokens"`
	Attempts         int     `json:"attempts"`
	Server           string  `json:"server"`
	Model            string  `json:"model"`
}

// write writes a result, an error line if there is a failure. It flushes the output, so that the
// result is in the file before the next request.
func (r *run) write(row *rows.Row, a *answer, failure *openai.Error) error {
	l := struct {
		openai.OutputLine
		Stats stats `json:"stats"`
	}{
		OutputLine: openai.OutputLine{ID: openai.ResultID(r.out.Batch(), row.Line, row.Sum), CustomID: row.CustomID, Error: failure},
		Stats: stats{
			Total: float64(a.took.Microseconds()) / 1000, PromptTokens: a.usage.Prompt, CompletionTokens: a.usage.Completion, Attempts: a.attempts,
			Server: r.client.address, Model: r.client.options.Model,
		},
	}
	if failure == nil {
		l.Response = &openai.Response{StatusCode: 200, RequestID: a.id, Body: a.body}
	}
	text, err := openai.Marshal(l)
	if err == nil {
		err = errors.Join(r.out.Write(row.Line, text, failure != nil), r.out.Flush())
	}
	if err != nil {
		return err
	}
	r.update(func(p *Progress) {
		p.Retries += max(0, a.attempts-1)
		if failure != nil {
			p.Failed++
			return
		}
		p.Done++
		p.PromptTokens += a.usage.Prompt
		p.CompletionTokens += a.usage.Completion
	})
	return nil
}

// body returns the request of a row, in which the model has its name on the server. A request for
// only a prompt's log-probabilities generates one token, because some servers do not accept
// max_tokens 0.
func (c *Client) body(raw json.RawMessage) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	fields["model"], _ = openai.Marshal(c.options.Model) // a text has JSON
	if string(fields["echo"]) == "true" && string(fields["max_tokens"]) == "0" {
		fields["max_tokens"] = json.RawMessage("1")
	}
	return openai.Marshal(fields)
}
