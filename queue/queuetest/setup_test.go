package queuetest

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

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

func newJobs(lines int) []*queue.Job {
	jobs := make([]*queue.Job, lines)
	for i := range jobs {
		jobs[i] = newJob(i + 1)
	}
	return jobs
}

// add queues jobs of alias "m", and creates their batches if they do not exist. It reports for each
// job whether it was added.
func add(t testing.TB, q queue.Queue, p queue.Priority, jobs ...*queue.Job) []bool {
	t.Helper()
	for i, j := range jobs {
		if i == 0 || jobs[i-1].Batch != j.Batch {
			_, _, err := q.Create(t.Context(), queue.Batch{ID: j.Batch, Alias: "m", Priority: p, Retention: time.Hour})
			require.NoError(t, err)
		}
	}
	added, err := q.Add(t.Context(), "m", p, jobs)
	require.NoError(t, err)
	return added
}

// begin queues a job for a worker of alias "m" and waits until the worker has taken it.
func begin(t testing.TB, q queue.Queue, w *Worker, j *queue.Job) *Held {
	t.Helper()
	eventually(t, "an earlier delivery of the row has ended", func() bool {
		added, err := q.Add(t.Context(), w.alias, queue.Bulk, []*queue.Job{j})
		return err == nil && added[0] // the error may be ErrRowRunning
	})
	return w.Next(t)
}

// beginLine begins a row of batch "b" and checks the number of the attempt.
func beginLine(t testing.TB, q queue.Queue, w *Worker, line, attempt int) *Held {
	t.Helper()
	h := begin(t, q, w, newJob(line))
	require.NoError(t, h.Refused)
	require.Equal(t, attempt, h.Attempt)
	return h
}

// newJob returns a job of batch "b".
func newJob(line int) *queue.Job {
	return &queue.Job{
		Batch: "b", Line: line, Sum: fmt.Sprintf("%08x", line), File: queue.FileID(fileSHA), CustomID: fmt.Sprint("row-", line),
		Endpoint: openai.Completions, Body: []byte(`{"prompt":"<é>"}`), EnqueuedMS: 1700000000000, TimeoutMS: 60_000, MaxAttempts: 3,
	}
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, maxWait, time.Millisecond, what)
}
