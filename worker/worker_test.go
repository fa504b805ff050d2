package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
	"github.com/ingot-run/ingot/queue/queuetest"
)

func TestRowsAreAnsweredByTheEngine(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		b := setUp(t, q, nil, Config{Alias: "micro", Name: "mac", Version: "v1"})
		rows := prompts(40) +
			`{"custom_id":"many","body":{"prompt":["one","two","three"],"n":2,"max_tokens":3,"ignore_eos":true}}` + "\n" +
			`{"custom_id":"score","body":{"prompt":"one two three","echo":true,"logprobs":1,"max_tokens":0}}` + "\n" +
			`{"custom_id":"long","body":{"prompt":[` + strings.Repeat("5,", 9000) + `5]}}` + "\n" +
			`{"custom_id":"outside","body":{"prompt":[1000000]}}` + "\n" +
			`{"custom_id":"wrong","body":{"prompt":"a","temperature":"b"}}` + "\n"
		b.enqueue(t, rows, enqueue.Options{Alias: "micro", Priority: queue.Bulk})
		stop := b.start(t)
		lines := b.results(t)
		require.Len(t, lines, 45)
		for i := range 40 {
			row := lines[fmt.Sprintf("row-%d", i+1)]
			require.Nil(t, row.Error)
			require.Len(t, row.Response.Body.Choices[0].TokenIDs, 5)
			s := row.Stats
			require.Equal(t, []int{3, 5, 1}, []int{s.PromptTokens, s.CompletionTokens, s.Attempts})
			require.Positive(t, s.Steps)
			require.Positive(t, s.TotalMS)
			require.GreaterOrEqual(t, s.BatchMean, 1.0)
			require.Equal(t, []string{"mac", "cpu", "micro-llama", "v1"}, []string{s.Worker, s.Backend, s.Model, s.Version})
			require.Len(t, s.ModelSHA256, 64)
		}
		many := lines["many"].Response.Body
		require.Len(t, many.Choices, 6)
		for i, c := range many.Choices {
			require.Equal(t, i, c.Index)
		}
		require.Equal(t, 18, many.Usage.CompletionTokens)

		score := lines["score"].Response.Body
		require.Equal(t, "one two three", score.Choices[0].Text)
		require.Zero(t, score.Usage.CompletionTokens)
		var scores struct {
			Tokens   []string   `json:"tokens"`
			Logprobs []*float64 `json:"token_logprobs"`
		}
		require.NoError(t, json.Unmarshal(score.Choices[0].Logprobs, &scores))
		require.Len(t, scores.Tokens, score.Usage.PromptTokens)
		require.Nil(t, scores.Logprobs[0])
		for _, p := range scores.Logprobs[1:] {
			require.Negative(t, *p)
		}

		require.Equal(t, openai.CodeContext, lines["long"].Error.Code)
		require.Contains(t, lines["long"].Error.Message, "line 43: ")
		require.Equal(t, 1, lines["long"].Stats.Attempts)
		require.Equal(t, openai.CodeBadRequest, lines["outside"].Error.Code)
		require.Equal(t, openai.CodeInvalidType, lines["wrong"].Error.Code)
		stop()
		b.requireEmptyQueue(t)
	})
}

// The tokens of a row depend on the row, its batch id and its line number, but not on the kind of
// queue, the worker or the other rows.
func TestTheSameRowGivesTheSameTokens(t *testing.T) {
	t.Parallel()
	run := func(rows string, concurrency int) map[string]resultLine {
		b := setUp(t, memqueue.New(), nil, Config{Concurrency: concurrency})
		b.enqueue(t, rows, enqueue.Options{})
		b.start(t)
		return b.results(t)
	}
	all := run(prompts(12), 8)
	for id, row := range run(prompts(6), 1) {
		require.Equal(t, row.Response, all[id].Response)
	}
}

// faults injects failures into the first attempts at each row.
type faults struct {
	attempts sync.Map // by prompt
	times    int64
	fail     func() error
}

func (f *faults) generate(_ context.Context, r generation.Request) (generation.Completion, error) {
	n, _ := f.attempts.LoadOrStore(fmt.Sprint(r.Tokens), new(atomic.Int64))
	if n.(*atomic.Int64).Add(1) <= f.times {
		return generation.Completion{}, f.fail()
	}
	return generation.Completion{Choices: []generation.Choice{{Text: "ok", FinishReason: generation.FinishStop}}}, nil
}

func TestFailedAttempts(t *testing.T) {
	broken := errors.New("device lost")
	for _, c := range []struct {
		name     string
		times    int64
		fail     func() error
		attempts int
		code     string
		message  string
	}{
		{"an error that passes", 1, func() error { return broken }, 2, "", ""},
		{"a panic that passes", 1, func() error { panic("oops") }, 2, "", ""},
		{"an error that stays", 9, func() error { return broken }, 2, openai.CodeFailed, "line 1: device lost (attempt 2 of 2)"},
		{"a panic that stays", 9, func() error { panic("oops") }, 2, openai.CodeFailed, "line 1: internal error: oops (attempt 2 of 2)"},
		{"a request that cannot be answered", 9, func() error { return generation.BadRequest("too long") }, 1, openai.CodeBadRequest, "line 1: too long"},
		{"numbers that are wrong once", 1, func() error { return generation.ErrNotFinite }, 2, "", ""},
		{"a model that gives no numbers", 9, func() error { return generation.ErrNotFinite }, 2, openai.CodeFailed,
			"line 1: logits are not finite: the model's file may be damaged: compare its SHA-256 (attempt 2 of 2)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := &faults{times: c.times, fail: c.fail}
			b := setUp(t, memqueue.New(), f.generate, Config{})
			b.enqueue(t, prompts(1), enqueue.Options{MaxAttempts: 2})
			stop := b.start(t)
			row := b.results(t)["row-1"]
			require.Equal(t, c.attempts, row.Stats.Attempts)
			if c.code == "" {
				require.Equal(t, "ok", row.Response.Body.Choices[0].Text)
			} else {
				require.Equal(t, &openai.Error{Code: c.code, Message: c.message}, row.Error)
				require.NotEmpty(t, row.Stats.Worker)
			}
			stop()
			b.requireEmptyQueue(t)
		})
	}
}

// The prompts of a row run concurrently. A panic in one of them becomes the row's error and does
// not end the worker.
func TestAPanicInOneOfSeveralPrompts(t *testing.T) {
	t.Parallel()
	b := setUp(t, memqueue.New(), func(_ context.Context, r generation.Request) (generation.Completion, error) {
		if r.Text == "bad" {
			panic("oops")
		}
		return generation.Completion{Choices: []generation.Choice{{Text: "ok"}}}, nil
	}, Config{})
	b.enqueue(t, `{"custom_id":"row-1","prompt":["good","bad"]}`, enqueue.Options{MaxAttempts: 1})
	b.start(t)
	row := b.results(t)["row-1"]
	require.Equal(t, &openai.Error{Code: openai.CodeFailed, Message: "line 1: prompt 1: internal error: oops (attempt 1 of 1)"}, row.Error)
}

func TestAnAttemptIsLimitedInTime(t *testing.T) {
	t.Parallel()
	b := setUp(t, memqueue.New(), func(ctx context.Context, _ generation.Request) (generation.Completion, error) {
		<-ctx.Done()
		return generation.Completion{}, ctx.Err()
	}, Config{})
	b.enqueue(t, prompts(1), enqueue.Options{MaxAttempts: 1, Timeout: time.Second})
	stop := b.start(t)
	row := b.results(t)["row-1"]
	require.Equal(t, &openai.Error{Code: openai.CodeTimeout, Message: "line 1: not finished within the timeout of 1s (attempt 1 of 1)"}, row.Error)
	stop()
	b.requireEmptyQueue(t)
}

func TestAJobThatKillsItsWorkersIsGivenUp(t *testing.T) {
	t.Parallel()
	b := setUp(t, memqueue.New(), func(context.Context, generation.Request) (generation.Completion, error) {
		panic("not again")
	}, Config{})
	b.enqueue(t, prompts(1), enqueue.Options{MaxAttempts: 3})
	b.lose(t, 3)
	b.start(t)
	row := b.results(t)["row-1"]
	require.Equal(t, openai.CodeAbandoned, row.Error.Code)
	require.Equal(t, 4, row.Stats.Attempts)
}

func TestARecordedRowIsNotAnsweredAgain(t *testing.T) {
	t.Parallel()
	b := setUp(t, memqueue.New(), func(context.Context, generation.Request) (generation.Completion, error) {
		panic("a recorded row must not run again")
	}, Config{})
	b.enqueue(t, prompts(1), enqueue.Options{})
	// An earlier worker recorded the row and died before asynq removed the task.
	_, err := b.queue.Record(t.Context(), "b", queue.Answered(
		&queue.Job{Batch: "b", Line: 1, Sum: "00000001", CustomID: "row-1"}, new(openai.Request), nil, time.Now(), queue.Stats{}))
	require.NoError(t, err)
	stop := b.start(t)
	require.Nil(t, b.results(t)["row-1"].Error)
	b.waitForQueue(t)
	stop()
	b.requireEmptyQueue(t)
}

func TestALostLeaseIsNoFailure(t *testing.T) {
	t.Parallel()
	b := setUp(t, memqueue.New(), nil, Config{})
	b.enqueue(t, prompts(1), enqueue.Options{})
	ctx, lose := context.WithCancelCause(t.Context())
	b.worker.generate = func(ctx context.Context, _ generation.Request) (generation.Completion, error) {
		lose(queue.ErrSuperseded)
		<-ctx.Done()
		return generation.Completion{}, ctx.Err()
	}
	row := &queue.Delivery{Job: &queue.Job{Batch: "b", Line: 1, Endpoint: openai.Completions, Body: []byte(`{"prompt":"a"}`), TimeoutMS: 60_000, MaxAttempts: 1}, Attempt: 1}
	require.Equal(t, queue.Interrupted(queue.ErrSuperseded), b.worker.handle(ctx, row))
	require.Equal(t, 1, b.count(t, "lease_lost"))

	// The row is delivered again, and this counts as a second attempt.
	b.lose(t, 1)
	b.worker.generate = (&faults{}).generate
	b.start(t)
	require.Equal(t, 2, b.results(t)["row-1"].Stats.Attempts)
}

// lose takes the only row of the default queue n times without a result, as workers do that lose
// their leases.
func (b *bench) lose(t *testing.T, n int) {
	t.Helper()
	w := queuetest.Hold(t, b.queue, queue.DefaultAlias)
	for range n {
		w.Next(t).End(queue.Interrupted(queue.ErrSuperseded))
	}
	w.Stop()
}

// When a batch is cancelled, its running row is stopped and its waiting rows are dropped. Other
// batches are not affected.
func TestACancelledBatchIsDropped(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		begun, stopped := make(chan struct{}, 1), make(chan struct{}, 1)
		b := setUp(t, q, func(ctx context.Context, req generation.Request) (generation.Completion, error) {
			if req.Text != "hold" {
				return generation.Completion{Choices: []generation.Choice{{}}}, nil
			}
			begun <- struct{}{}
			<-ctx.Done()
			stopped <- struct{}{}
			return generation.Completion{}, ctx.Err()
		}, Config{Concurrency: 1})
		workers, err := q.Workers(t.Context(), queue.DefaultAlias)
		require.NoError(t, err)
		require.Zero(t, workers)
		unwanted := strings.Repeat("{\"prompt\": \"hold\"}\n", 50)
		b.enqueue(t, unwanted, enqueue.Options{Batch: "unwanted", Priority: queue.Critical})
		b.enqueue(t, `{"id": "row-1", "prompt": "other"}`, enqueue.Options{})
		stop := b.start(t)
		<-begun
		require.Eventually(t, func() bool {
			workers, err := q.Workers(t.Context(), queue.DefaultAlias)
			return err == nil && workers == 1
		}, time.Minute, time.Millisecond)
		workers, err = q.Workers(t.Context(), "other")
		require.NoError(t, err)
		require.Zero(t, workers)

		require.Eventually(t, func() bool { // asynq may not listen for cancellations yet
			finished, err := q.Cancel(t.Context(), "unwanted")
			return err == nil && !finished && len(stopped) == 1
		}, time.Minute, time.Millisecond)
		require.Len(t, b.results(t), 1)
		var none bytes.Buffer
		got, err := enqueue.Collect(t.Context(), q, rows.NewOutput(&none, "unwanted"), enqueue.CollectOptions{Follow: true})
		require.NoError(t, err)
		require.Equal(t, enqueue.Collected{Cancelled: true}, got)
		stop()
		queuetest.Take(t, q, queue.DefaultAlias, queue.Critical, 0)
		_, err = enqueue.Enqueue(t.Context(), q, strings.NewReader(unwanted),
			enqueue.Options{Batch: "unwanted", Priority: queue.Critical})
		require.ErrorIs(t, err, queue.ErrCancelled)
		require.ErrorContains(t, err, "give another batch id")
	})
}

// A worker takes rows in the ratio of the priorities, and none of another model.
func TestPriorities(t *testing.T) {
	t.Parallel()
	const n = 200
	q := memqueue.New()
	var order []string
	b := setUp(t, q, func(_ context.Context, req generation.Request) (generation.Completion, error) {
		order = append(order, req.Text) // one at a time
		return generation.Completion{Choices: []generation.Choice{{}}}, nil
	}, Config{Concurrency: 1})
	for _, p := range []queue.Priority{queue.Bulk, queue.Default, queue.Critical} {
		b.enqueue(t, strings.Repeat(fmt.Sprintf("{\"prompt\":%q}\n", p), n), enqueue.Options{Batch: string(p), Priority: p})
	}
	b.enqueue(t, `{"prompt":"other model"}`, enqueue.Options{Batch: "other", Alias: "other"})
	stop := b.start(t)
	for _, batch := range []string{"critical", "default", "bulk"} {
		_, err := enqueue.Collect(t.Context(), q, rows.NewOutput(&bytes.Buffer{}, batch), enqueue.CollectOptions{Follow: true})
		require.NoError(t, err)
	}
	stop()
	require.Len(t, order, 3*n)
	require.NotContains(t, order, "other model")
	first := map[string]int{} // rows among the first n, while all queues have rows
	for _, p := range order[:n] {
		first[p]++
	}
	require.Greater(t, first["critical"], first["default"])
	require.Greater(t, first["default"], first["bulk"])
	require.Positive(t, first["bulk"])
}

// A worker takes more rows than the engine computes at once. The others wait in the engine and
// start as soon as a row ends.
func TestRowsWaitInTheEngine(t *testing.T) {
	t.Parallel()
	const held = 3
	entered, finish := make(chan struct{}, held+1), make(chan struct{})
	b := setUp(t, memqueue.New(), func(context.Context, generation.Request) (generation.Completion, error) {
		entered <- struct{}{}
		<-finish
		return generation.Completion{Choices: []generation.Choice{{Text: "ok"}}}, nil
	}, Config{Concurrency: 1, Prefetch: held - 1})
	b.enqueue(t, prompts(held+1), enqueue.Options{})
	stop := b.start(t)
	for range held {
		<-entered
	}
	require.Empty(t, entered, "the last row waits for a free slot")
	close(finish)
	require.Len(t, b.results(t), held+1)
	stop()
}
