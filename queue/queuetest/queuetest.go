// Package queuetest is the suite that every implementation of queue.Queue must pass.
package queuetest

import (
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// Run runs the suite. Each call of open must return a new, empty queue.
func Run(t *testing.T, open func(t testing.TB) queue.Queue) {
	t.Helper()
	for _, group := range []map[string]func(t *testing.T, q queue.Queue){batchTests, recordTests, resultTests, addTests, serveTests, turnTests, deadlineTests, liveTests, aliasTests} {
		for name, test := range group {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, open(t))
			})
		}
	}
	t.Run("RandomOperations", func(t *testing.T) {
		t.Parallel()
		testRandomOperations(t, open)
	})
}

// OnEach runs a test on each implementation: with a new queue in Redis, and with a new queue in memory.
func OnEach(t *testing.T, test func(t *testing.T, q queue.Queue)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, redisqueue.New(redistest.Start(t).Client))
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, memqueue.New())
	})
}

// maxWait is the maximum time that a test waits for a condition.
const maxWait = time.Minute

// fileSHA is the SHA-256 of the file of the batch with the id "b", in which most tests work.
const fileSHA = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// create creates the batch with the id "b", whose rows have the model alias "m".
func create(t testing.TB, q queue.Queue) {
	t.Helper()
	_, created, err := q.Create(t.Context(), queue.Batch{ID: "b", Alias: "m", Priority: queue.Bulk, FileSHA: fileSHA, Retention: time.Hour})
	require.NoError(t, err)
	require.True(t, created)
}

func result(line int, failed bool) queue.Result {
	return queue.Result{
		Line: line, Sum: fmt.Sprintf("%08x", line), Text: []byte("result " + strconv.Itoa(line)), Failed: failed,
		Stats: queue.Stats{PromptTokens: 10, CompletionTokens: 5},
	}
}

func record(t testing.TB, q queue.Queue, r queue.Result) (first bool) {
	t.Helper()
	first, err := q.Record(t.Context(), "b", r)
	require.NoError(t, err)
	return first
}

func status(t testing.TB, q queue.Queue) queue.Status {
	t.Helper()
	s, err := q.Status(t.Context(), "b")
	require.NoError(t, err)
	return s
}

func begin(t testing.TB, q queue.Queue, line, want int) {
	t.Helper()
	n, err := q.Begin(t.Context(), &queue.Job{Batch: "b", Line: line})
	require.NoError(t, err)
	require.Equal(t, want, n.Attempt)
}

// newJob returns a job of batch "b".
func newJob(line int) *queue.Job {
	return &queue.Job{
		Batch: "b", Line: line, Sum: fmt.Sprintf("%08x", line), File: queue.FileID(fileSHA), CustomID: fmt.Sprint("row-", line),
		Endpoint: openai.Completions, Body: []byte(`{"prompt":"<é>"}`), EnqueuedMS: 1700000000000, TimeoutMS: 60_000, MaxAttempts: 3,
	}
}

func newJobs(lines int) []*queue.Job {
	jobs := make([]*queue.Job, lines)
	for i := range jobs {
		jobs[i] = newJob(i + 1)
	}
	return jobs
}

// add queues jobs of alias "m". It reports for each job whether it was added.
func add(t testing.TB, q queue.Queue, p queue.Priority, jobs ...*queue.Job) []bool {
	t.Helper()
	added, err := q.Add(t.Context(), "m", p, jobs)
	require.NoError(t, err)
	return added
}

var quiet = slog.New(slog.DiscardHandler)

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, maxWait, time.Millisecond, what)
}
