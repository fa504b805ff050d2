package fleet

import (
	"context"
	"fmt"
	"io"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/progress"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

// Collection writes the results of a batch to an output, and shows how the batch advances.
type Collection struct {
	Queue  *redisqueue.Queue
	Batch  string
	Out    *export.Output
	Follow bool      // wait for rows until the batch has ended
	Forget bool      // delete results from Redis once the output has them
	Stderr io.Writer // receives the progress and the outcome
}

// Totals are the outcome of a Collection.
type Totals struct {
	Batch     string `json:"batch"`
	Out       string `json:"out"`
	Rows      int    `json:"rows"` // in the output
	New       int    `json:"new"`  // written by this command
	Failed    int    `json:"failed"`
	Unparsed  int    `json:"unparsed_answers"` // answers in the output that are failed rows, since their text cannot become columns
	Finished  bool   `json:"finished"`
	Cancelled bool   `json:"cancelled"`

	PromptTokens     int            `json:"prompt_tokens"`
	CompletionTokens int            `json:"completion_tokens"`
	Errors           map[string]int `json:"errors"` // failed rows in the output by code
}

// Run writes the results and prints the outcome. Failed rows are not an error.
func (r *Collection) Run(ctx context.Context) (t Totals, err error) {
	output, err := r.Out.Open(ctx, "", r.Batch)
	if err != nil {
		return t, err
	}
	defer func() {
		if closeErr := output.Close(); err == nil { // writing may have failed with the same error
			err = closeErr
		}
	}()
	if r.Forget && !output.Regular() { // the path may have changed since the flags were checked
		return t, fmt.Errorf("--forget: %s is not a regular file", r.Out.Path)
	}
	c, s, err := r.collect(ctx, output)
	if err != nil && ctx.Err() == nil {
		return t, fmt.Errorf("read results: %w", err)
	}
	r.report(c, s, output)
	if err != nil {
		return t, r.Out.Stopped()
	}
	if err := c.Check(r.Batch, r.Out.Path); err != nil {
		return t, err
	}
	if r.Follow && c.Cancelled {
		return t, fmt.Errorf("read results of %s: %w: %s", r.Batch, queue.ErrCancelled, r.afterCancel())
	}
	t = Totals{
		Batch: r.Batch, Out: r.Out.Path, Rows: c.Kept + c.Written, New: c.Written, Failed: c.Failed, Finished: c.Finished, Cancelled: c.Cancelled,
		PromptTokens: s.PromptTokens, CompletionTokens: s.CompletionTokens, Errors: map[string]int{},
	}
	for code, f := range output.Codes() {
		t.Errors[code] = f.Rows
	}
	return t, nil
}

// AddUnparsed adds the answers that are failed rows because of their texts.
func (t *Totals) AddUnparsed(n int) {
	t.Unparsed = n
	if n > 0 {
		t.Errors[export.CodeUnparsed] = n
	}
}

// Check returns an error if more rows have failed than a limit allows.
func (t *Totals) Check(limit rows.FailLimit) error { return limit.Check(t.Failed+t.Unparsed, t.Rows) }

// afterCancel says how to use the results of a cancelled batch.
func (r *Collection) afterCancel() string {
	if r.Out.Appends() {
		return r.Out.Path + " has the rows that ended before; to answer the others, enqueue the file as another batch"
	}
	return "to make " + r.Out.Path + " of the rows that ended before, run the same command without --follow"
}

func (r *Collection) collect(ctx context.Context, output *rows.Output) (c enqueue.Collected, last queue.Status, err error) {
	d := newDisplay(r.Stderr)
	defer d.Close()
	waiting := stalls{queue: r.Queue, out: d}
	c, err = enqueue.Collect(ctx, r.Queue, output, enqueue.CollectOptions{
		Follow: r.Follow, Free: r.Forget,
		Progress: func(s queue.Status) {
			last = s
			show(d, s)
			if r.Follow {
				waiting.look(ctx, s)
			}
		},
	})
	return c, last, err
}

func (r *Collection) report(c enqueue.Collected, s queue.Status, output *rows.Output) {
	lines := []string{c.String()}
	if s.Ended() {
		lines = append(lines, progress.Figures(s.Done+s.Failed, s.PromptTokens, s.CompletionTokens, s.Took()))
	}
	if text := rows.WarnOfEmpty(output.Empty(), c.Written); text != "" {
		lines = append(lines, text)
	}
	for _, line := range append(lines, rows.DescribeFailures(output.Codes())...) {
		fmt.Fprintln(r.Stderr, line) //nolint:errcheck // there is nowhere to report it
	}
}

// Watch shows how a batch advances until it has ended.
func Watch(ctx context.Context, q *redisqueue.Queue, batch string, stderr io.Writer) error {
	d := newDisplay(stderr)
	defer d.Close()
	waiting := stalls{queue: q, out: d}
	return enqueue.Watch(ctx, q, batch, func(s queue.Status) {
		show(d, s)
		waiting.look(ctx, s)
	})
}

func newDisplay(w io.Writer) *progress.Display {
	return progress.New(w, progress.Options{Terminal: textfmt.IsTerminal(w), Tokens: true})
}

func show(d *progress.Display, s queue.Status) {
	d.Show(progress.Counts{Total: s.Total, Done: s.Done, Failed: s.Failed, Tokens: s.CompletionTokens, Running: s.Running})
}
