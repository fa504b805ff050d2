// Package remote answers the rows of a file with a server that speaks OpenAI's API. The output file is the only state: a run can be
// interrupted at any time, and another run answers the remaining rows.
package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/files/rows"
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

// Run reads rows from in, sends them to the server, and writes each result to out when it arrives. The batch id of out must be Batch. Run
// skips rows whose results out already has. A row that the server refuses, or that fails in all attempts, becomes an error line. Run
// returns an error if rows cannot be read or results cannot be written, or if the server cannot be reached or refuses all requests, for
// example because of a missing key. Run calls show, unless it is nil, after each row and every second, from one goroutine.
func (c *Client) Run(ctx context.Context, in io.Reader, out *rows.Output, show func(Progress)) (Progress, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r := &run{client: c, out: out, show: show, start: time.Now(), results: make(chan result), stop: stop}
	asking, askingCtx := errgroup.WithContext(ctx)
	asking.SetLimit(c.options.Concurrency)
	asked := make(chan error, 1)
	go func() {
		fed := r.feed(askingCtx, in, asking)
		asked <- cmp.Or(asking.Wait(), fed) // a failed request also ends feed, so its error takes precedence
		close(r.results)
	}()
	written := r.collect()
	err := cmp.Or(written, <-asked)
	r.progress.Elapsed = time.Since(r.start)
	return r.progress, err
}

// run is the state of one call of Run.
type run struct {
	client   *Client
	out      *rows.Output
	show     func(Progress)
	start    time.Time
	results  chan result
	stop     func()
	progress Progress // written by collect
}

// result is the outcome of a row.
type result struct {
	row     rows.Row
	answer  answer
	failure *openai.Error // nil if the row was answered
	kept    bool          // the output has the row's result already
}

// feed sends requests for the rows that the output does not hold.
func (r *run) feed(ctx context.Context, in io.Reader, asking *errgroup.Group) error {
	for row, err := range rows.NewReader(in, rows.Options{Format: rows.FormatJSONL}).Rows(ctx) {
		if err != nil {
			return err
		}
		if r.out.Has(row.Line) {
			if err := r.out.Check(row); err != nil {
				return err
			}
			r.results <- result{row: row, kept: true}
			continue
		}
		if row.Err != nil {
			r.results <- result{row: row, failure: row.Err}
			continue
		}
		asking.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			a, err := r.client.ask(ctx, row.Endpoint, row.Body)
			var refused *refusedError
			switch {
			case errors.As(err, &refused) && !refused.fatal():
				r.results <- result{row: row, answer: a, failure: refused.asError()}
			case err != nil:
				return err
			default:
				r.results <- result{row: row, answer: a}
			}
			return nil
		})
	}
	return nil
}

// collect writes results and shows the progress until the channel is closed. If a result cannot be written, it stops the run.
func (r *run) collect() error {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	var failed error
	for {
		select {
		case <-ticks.C:
		case one, ok := <-r.results:
			if !ok {
				return failed
			}
			if failed != nil {
				continue // only wait until the senders have ended
			}
			if failed = r.write(one); failed != nil {
				r.stop()
			}
		}
		r.progress.Elapsed = time.Since(r.start)
		if r.show != nil {
			r.show(r.progress)
		}
	}
}

// stats are the figures of a row that a client can measure.
type stats struct {
	Total            float64 `json:"total_ms"` // duration of the last attempt
	PromptTokens     int     `json:"prompt_tokens"`
	CompletionTokens int     `json:"completion_tokens"`
	Attempts         int     `json:"attempts"`
	Server           string  `json:"server"`
	Model            string  `json:"model"`
}

// write writes a result and flushes the output, so that the result is in the file before the next request.
func (r *run) write(one result) error {
	p := &r.progress
	if one.kept {
		p.Kept++
		return nil
	}
	a := &one.answer
	l := struct {
		openai.OutputLine
		Stats stats `json:"stats"`
	}{
		OutputLine: openai.OutputLine{ID: openai.ResultID(r.out.Batch(), one.row.Line, one.row.Sum), CustomID: one.row.CustomID, Error: one.failure},
		Stats: stats{
			Total: float64(a.took.Microseconds()) / 1000, PromptTokens: a.usage.Prompt, CompletionTokens: a.usage.Completion, Attempts: a.attempts,
			Server: r.client.address, Model: r.client.options.Model,
		},
	}
	p.Retries += max(0, a.attempts-1)
	if one.failure == nil {
		p.Done++
		p.PromptTokens += a.usage.Prompt
		p.CompletionTokens += a.usage.Completion
		l.Response = &openai.Response{StatusCode: 200, RequestID: a.id, Body: a.body}
	} else {
		p.Failed++
	}
	text, err := openai.Marshal(l)
	if err != nil {
		return err
	}
	if err := r.out.Write(one.row.Line, text, one.failure != nil); err != nil {
		return err
	}
	return r.out.Flush()
}

// body returns the request of a row, in which the model has its name on the server. A request for only a prompt's log-probabilities
// generates one token, because some servers do not accept max_tokens 0.
func (c *Client) body(raw json.RawMessage) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	model, err := openai.Marshal(c.options.Model)
	if err != nil {
		return nil, err
	}
	fields["model"] = model
	if string(fields["echo"]) == "true" && string(fields["max_tokens"]) == "0" {
		fields["max_tokens"] = json.RawMessage("1")
	}
	return openai.Marshal(fields)
}
