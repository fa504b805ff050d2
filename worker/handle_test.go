package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
)

// recorder keeps the result that a delivery records, and answers with an error.
type recorder struct {
	err    error
	result *queue.Result
}

func (r *recorder) Record(_ context.Context, result queue.Result) (bool, error) {
	r.result = &result
	return r.err == nil, r.err
}

func (r *recorder) Save(context.Context, []byte) error { return nil }

func answered(context.Context, generation.Request) (generation.Completion, error) {
	return generation.Completion{Choices: []generation.Choice{{Text: "ok", Tokens: []int32{1}}}, Stats: generation.Stats{CompletionTokens: 1}}, nil
}

func failing(err error) func(context.Context, generation.Request) (generation.Completion, error) {
	return func(context.Context, generation.Request) (generation.Completion, error) {
		return generation.Completion{}, err
	}
}

func untilDone(ctx context.Context, _ generation.Request) (generation.Completion, error) {
	<-ctx.Done()
	return generation.Completion{}, ctx.Err()
}

// A delivery ends in one way, records one result or none, and is counted once.
func TestOutcomesOfDeliveries(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		delivery queue.Delivery // without Job
		deadline time.Duration  // from now; 0 for none
		timeout  time.Duration
		body     string
		cause    error // with which the delivery's context ends; nil if it does not end
		generate func(context.Context, generation.Request) (generation.Completion, error)
		record   error // with which the queue answers

		want    queue.Outcome
		code    string // of the recorded error; empty for an answer
		message string
		counted string // the outcome that the metrics count; empty for none
		nothing bool   // nothing is recorded
	}{
		"an answer":                          {generate: answered, want: queue.Done(), counted: "done"},
		"a body that is not valid":           {body: `{"prompt":5}`, generate: answered, want: queue.Done(), code: openai.CodeInvalidType, counted: "failed", message: `line 7: "prompt" must be a string or an array, not a number`},
		"a request that cannot be answered":  {generate: failing(generation.BadRequest("too long")), want: queue.Done(), code: openai.CodeBadRequest, counted: "failed", message: "line 7: too long"},
		"a prompt that is too long":          {generate: failing(generation.TooLong("%d tokens", 9)), want: queue.Done(), code: openai.CodeContext, counted: "failed", message: "line 7: 9 tokens"},
		"a failure, not the last":            {delivery: queue.Delivery{Attempt: 2}, generate: failing(broken), want: queue.Retry(2*time.Second, broken), counted: "retried", nothing: true},
		"a failure in the last attempt":      {delivery: queue.Delivery{Attempt: 3, Deaths: 1}, generate: failing(broken), want: queue.Done(), code: openai.CodeFailed, counted: "failed", message: "line 7: broken (attempt 3 of 3)"},
		"more attempts than allowed":         {delivery: queue.Delivery{Attempt: 4}, generate: answered, want: queue.Done(), code: openai.CodeAbandoned, counted: "failed", message: "line 7: given up after 3 attempts: the last one ended without a result, or its result could not be recorded"},
		"deaths, not enough":                 {delivery: queue.Delivery{Deaths: maxDeaths - 1}, generate: answered, want: queue.Done(), counted: "done"},
		"too many deaths":                    {delivery: queue.Delivery{Deaths: maxDeaths}, generate: answered, want: queue.Done(), code: openai.CodeAbandoned, counted: "failed", message: "line 7: given up: 5 workers died while they ran the row; the last 3 of them ran no other row"},
		"overdue when it is taken":           {deadline: -time.Minute, generate: answered, want: queue.Done(), code: openai.CodeExpired, counted: "failed"},
		"a deadline in the middle":           {deadline: 50 * time.Millisecond, generate: untilDone, want: queue.Done(), code: openai.CodeExpired, counted: "failed"},
		"a timeout before the deadline":      {deadline: time.Hour, timeout: time.Second, delivery: queue.Delivery{Attempt: 3}, generate: untilDone, want: queue.Done(), code: openai.CodeTimeout, counted: "failed", message: "line 7: not finished within the timeout of 1s (attempt 3 of 3)"},
		"an engine that is closed":           {generate: failing(generation.ErrClosed), want: queue.HandBack(), counted: "handed_back", nothing: true},
		"the worker stops":                   {cause: context.Canceled, generate: untilDone, want: queue.HandBack(), counted: "handed_back", nothing: true},
		"a cancelled batch":                  {cause: queue.ErrCancelled, generate: untilDone, want: queue.Interrupted(queue.ErrCancelled), nothing: true},
		"a lost lease":                       {cause: queue.ErrSuperseded, generate: untilDone, want: queue.Interrupted(queue.ErrSuperseded), counted: "lease_lost", nothing: true},
		"recording: the batch is gone":       {generate: answered, record: queue.ErrNoBatch, want: queue.Done()},
		"recording: the batch was cancelled": {generate: answered, record: queue.ErrCancelled, want: queue.Done()},
		"recording: the batch was replaced":  {generate: answered, record: queue.ErrOtherFile, want: queue.Done()},
		"recording: the line does not exist": {generate: answered, record: queue.ErrNoRow, want: queue.Done()},
		"recording: another model":           {generate: answered, record: queue.ErrOtherModel, want: queue.Refuse(queue.ErrOtherModel), counted: "handed_back"},
		"recording: another worker has it":   {generate: answered, record: queue.ErrSuperseded, want: queue.Interrupted(queue.ErrSuperseded), counted: "lease_lost"},
		"recording fails":                    {delivery: queue.Delivery{Attempt: 2}, generate: answered, record: broken, want: queue.Retry(2*time.Second, broken), counted: "retried"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setUp(t, memqueue.New(), c.generate, Config{Name: "w"})
			b.worker.refusals.pause = 0
			var log bytes.Buffer
			b.worker.log = slog.New(slog.NewTextHandler(&log, nil))
			r := &recorder{err: c.record}
			d := &c.delivery
			d.Recorder = r
			d.Attempt = max(d.Attempt, 1)
			d.Job = &queue.Job{Batch: "b", Line: 7, Sum: "00c0ffee", CustomID: "x", Endpoint: openai.Completions, Body: []byte(`{"prompt":"a"}`), TimeoutMS: 60_000, MaxAttempts: 3}
			if c.body != "" {
				d.Body = []byte(c.body)
			}
			if c.timeout > 0 {
				d.TimeoutMS = c.timeout.Milliseconds()
			}
			if c.deadline != 0 {
				d.DeadlineMS = time.Now().Add(c.deadline).UnixMilli()
			}
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			if c.cause != nil {
				end(c.cause)
			}
			require.Equal(t, c.want, b.worker.handle(ctx, d))
			require.Equal(t, c.want.Kind == queue.KindRefuse, strings.Contains(log.String(), "refused a row"))
			require.NotContains(t, log.String(), "could not store a failed job")
			require.Empty(t, b.worker.checkpoints.tracked())
			require.Zero(t, b.worker.pulse.rows)

			for _, outcome := range []string{"done", "failed", "retried", "handed_back", "lease_lost"} {
				want := 0
				if outcome == c.counted {
					want = 1
				}
				require.Equal(t, want, b.count(t, outcome), outcome)
			}
			if c.nothing {
				require.Nil(t, r.result)
				return
			}
			row := decode(t, string(r.result.Text))["x"]
			require.Equal(t, d.Attempt+d.Deaths, row.Stats.Attempts)
			require.Equal(t, "w", row.Stats.Worker)
			require.Equal(t, c.code != "", r.result.Failed)
			if c.code == "" {
				require.Equal(t, "ok", row.Response.Body.Choices[0].Text)
				require.Nil(t, r.result.Job)
				return
			}
			require.Equal(t, c.code, row.Error.Code)
			if c.message != "" {
				require.Equal(t, c.message, row.Error.Message)
			}
			job, err := queue.Decode(r.result.Job)
			require.NoError(t, err, "a failed row can be queued again")
			require.Equal(t, 7, job.Line)
		})
	}
}

// fetched is a queue that answered last at a time.
type fetched struct {
	queue.Queue
	last time.Time
}

func (f *fetched) LastFetch() time.Time { return f.last }

// A worker retries to record a result while the queue cannot be used and delivers no rows, but not
// after its shutdown timeout.
func TestRecordingIsRetried(t *testing.T) {
	t.Parallel()
	down, broken := fmt.Errorf("connect: %w", queue.ErrUnavailable), errors.New("broken")
	recently, never := time.Now().Add(time.Hour), time.Time{}
	for name, c := range map[string]struct {
		last     time.Time
		stopped  bool
		answers  []error // of the queue; then it delivers rows
		want     error
		attempts int
	}{
		"recorded at once":               {never, false, []error{nil, nil}, nil, 1},
		"another error":                  {never, false, []error{broken, nil}, broken, 1},
		"the queue comes back":           {never, false, []error{down, down, down, nil, nil}, nil, 4},
		"another error after an outage":  {never, false, []error{down, broken, nil}, broken, 2},
		"the queue delivers rows":        {recently, false, []error{down, nil}, down, 1},
		"after the shutdown timeout":     {never, true, []error{down, nil}, down, 1},
		"recorded after the timeout":     {never, true, []error{nil, nil}, nil, 1},
		"rows are delivered after a try": {never, false, []error{down}, down, 1},
	} {
		q := &fetched{memqueue.New(), c.last}
		b := setUp(t, q, nil, Config{})
		b.worker.maxRecordWait = time.Millisecond // shorter than the first pause
		if c.stopped {
			b.worker.drain.giveUp()
		}
		attempts := 0
		err := b.worker.untilRecorded(func() error {
			attempts++
			if attempts >= len(c.answers) {
				q.last = recently
			}
			return c.answers[min(attempts, len(c.answers))-1]
		})
		require.Equal(t, c.want, err, name)
		require.Equal(t, c.attempts, attempts, name)
	}
}

// failingExpiry is a queue in which rows of some batches cannot expire.
type failingExpiry struct {
	queue.Queue
	broken map[string]error
}

func (f failingExpiry) Expire(ctx context.Context, batch string) (int, error) {
	if err := f.broken[batch]; err != nil {
		return 0, err
	}
	return f.Queue.Expire(ctx, batch)
}

// Nobody looks for overdue rows of a batch whose deadline has not passed.
func TestBatchesExpireAfterTheirDeadline(t *testing.T) {
	t.Parallel()
	i := &inspector{queue: failingExpiry{memqueue.New(), map[string]error{"b": errors.New("called")}}}
	later := time.Now().Add(time.Hour)
	require.NoError(t, i.expire(t.Context(), []queue.Status{{Batch: "b"}, {Batch: "b", Deadline: &later}}))
}

// If the rows of a batch cannot expire, those of the other batches do, and all errors are returned.
func TestOverdueBatchesExpireDespiteErrors(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	b := setUp(t, q, nil, Config{})
	var broken []error
	fails := map[string]error{}
	for _, batch := range []string{"b1", "b2", "b3", "b4"} {
		b.enqueue(t, prompts(2), enqueue.Options{Batch: batch, Deadline: time.Now().Add(-time.Second)})
		if batch == "b1" || batch == "b3" {
			err := fmt.Errorf("%s is broken", batch)
			fails[batch], broken = err, append(broken, err)
		}
	}
	b.enqueue(t, prompts(2), enqueue.Options{Batch: "later", Deadline: time.Now().Add(time.Hour)})
	b.worker.batches.queue = failingExpiry{q, fails}
	err := b.worker.batches.inspect(t.Context())
	for _, e := range broken {
		require.ErrorIs(t, err, e)
	}
	for batch, failed := range map[string]int{"b1": 0, "b2": 2, "b3": 0, "b4": 2, "later": 0} {
		s, err := q.Status(t.Context(), batch)
		require.NoError(t, err)
		require.Equal(t, failed, s.Failed, batch)
	}
}

// While a stopping worker lets its rows finish, it still stores their progress, so that a row that
// does not finish in time continues elsewhere.
func TestAStoppingWorkerStoresProgress(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	taken, stopping := make(chan struct{}), make(chan struct{})
	var b *bench
	b = setUp(t, q, func(ctx context.Context, r generation.Request) (generation.Completion, error) {
		close(taken)
		<-stopping
		r.Progress.To(generation.Progress{Prompt: generation.HashPrompt(r.Tokens), Choices: [][]int32{{5, 6, 7}}})
		stored := func() bool {
			all := b.worker.checkpoints.tracked()
			if len(all) != 1 {
				return false
			}
			all[0].mu.Lock()
			defer all[0].mu.Unlock()
			return all[0].stored == 3
		}
		if !assert.Eventually(t, stored, time.Minute, time.Millisecond) {
			return generation.Completion{}, errors.New("the progress is not stored")
		}
		return generation.Completion{}, generation.ErrClosed
	}, Config{Concurrency: 1, ShutdownTimeout: time.Minute})
	b.worker.checkpoints.interval = time.Millisecond
	b.enqueue(t, prompts(1), enqueue.Options{MaxAttempts: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var err error
	running.Go(func() { err = b.worker.Run(ctx) })
	<-taken
	cancel()
	require.Eventually(t, b.worker.drain.stopping.Load, time.Minute, time.Millisecond)
	close(stopping)
	running.Wait()
	require.NoError(t, err)

	resumed := make(chan *generation.Progress, 1)
	next := setUp(t, q, func(ctx context.Context, r generation.Request) (generation.Completion, error) {
		resumed <- r.Resume
		return answered(ctx, r)
	}, Config{Concurrency: 1})
	next.start(t)
	require.Nil(t, next.results(t)["row-1"].Error)
	require.Equal(t, [][]int32{{5, 6, 7}}, (<-resumed).Choices)
}
