package enqueue_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
	"github.com/ingot-run/ingot/queue/queuetest"
)

// prompts returns a file of n valid rows.
func prompts(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"custom_id\":\"row-%d\",\"prompt\":\"hello %d\"}\n", i+1, i+1)
	}
	return b.String()
}

// requireNothing checks that there is no batch and no job.
func requireNothing(t testing.TB, q queue.Queue) {
	t.Helper()
	all, err := q.Batches(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
	queuetest.Take(t, q, queue.DefaultAlias, queue.Default, 0)
}

func TestEachRowIsQueuedOnce(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		file := prompts(500) + "{\"custom_id\":\"row-1\",\"prompt\":\"again\"}\n\nnonsense\n"
		options := enqueue.Options{Batch: "b", Alias: "m", Priority: queue.Bulk, Version: "v1"}
		sum, err := enqueue.Enqueue(t.Context(), q, strings.NewReader(file), options)
		require.NoError(t, err)
		require.Equal(t, enqueue.Summary{Batch: "b", Total: 502, Rows: 502, Added: 500, Rejected: 2}, sum)

		again, err := enqueue.Enqueue(t.Context(), q, strings.NewReader(file), options)
		require.NoError(t, err)
		require.Equal(t, enqueue.Summary{Batch: "b", Total: 502, Rows: 502, Known: 502}, again)

		st, err := q.Status(t.Context(), "b")
		require.NoError(t, err)
		require.Equal(t, []int{502, 0, 2, 500}, []int{st.Total, st.Done, st.Failed, st.Waiting()})
		require.Equal(t, queue.InProgress, st.State)
		require.Len(t, st.FileSHA, 64)
		queuetest.Take(t, q, "m", queue.Bulk, 500)
	})
}

func TestAJobCarriesItsRow(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	before := time.Now()
	_, err := enqueue.Enqueue(t.Context(), q, strings.NewReader("\n"+prompts(1)), enqueue.Options{
		Batch: "b", Timeout: 10 * time.Minute, MaxAttempts: 3,
	})
	require.NoError(t, err)
	j := queuetest.Take(t, q, queue.DefaultAlias, queue.Default, 1)[0]
	require.WithinRange(t, time.UnixMilli(j.EnqueuedMS), before.Add(-time.Second), time.Now().Add(time.Second))
	sum := sha256.Sum256([]byte("\n" + prompts(1)))
	require.Equal(t, &queue.Job{
		Batch: "b", Line: 2, Sum: j.Sum, File: hex.EncodeToString(sum[:8]), CustomID: "row-1", Endpoint: openai.Completions,
		Body: []byte(`{"custom_id":"row-1","prompt":"hello 1"}`), EnqueuedMS: j.EnqueuedMS, TimeoutMS: 600_000, MaxAttempts: 3,
	}, j)
	require.Len(t, j.Sum, 8)
}

// A file without rows creates no batch, since that batch would never finish.
func TestAFileWithoutRowsCreatesNoBatch(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	for _, file := range []string{`[{"prompt":"x"}]`, "\xff\xfe{\x00"} {
		for _, in := range []io.Reader{strings.NewReader(file), onlyReader{strings.NewReader(file)}} {
			_, err := enqueue.Enqueue(t.Context(), q, in, enqueue.Options{Batch: "b"})
			require.Error(t, err)
			requireNothing(t, q)
		}
	}
	sum, err := enqueue.Enqueue(t.Context(), q, strings.NewReader("\n"), enqueue.Options{Batch: "b"})
	require.NoError(t, err)
	require.Equal(t, enqueue.Summary{Batch: "b"}, sum)
	st, err := q.Status(t.Context(), "b")
	require.NoError(t, err)
	require.Equal(t, queue.Completed, st.State, "a batch without rows is complete")
}

// onlyReader is a reader that cannot seek.
type onlyReader struct{ io.Reader }

func TestAnInterruptedEnqueueIsCompletedByAnother(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		file := prompts(300)
		options := enqueue.Options{Batch: "b"}
		broken := errors.New("unplugged")
		half := &breaksOnSecondRead{Reader: strings.NewReader(file), limit: len(file) / 2, err: broken}
		_, err := enqueue.Enqueue(t.Context(), q, half, options)
		require.ErrorIs(t, err, broken)
		st, err := q.Status(t.Context(), "b")
		require.NoError(t, err)
		require.Equal(t, queue.Enqueueing, st.State)

		// A row that has been recorded in the meantime is not queued again.
		_, err = q.Record(t.Context(), "b", queue.Result{Line: 300, Text: []byte("{}")})
		require.NoError(t, err)

		sum, err := enqueue.Enqueue(t.Context(), q, onlyReader{strings.NewReader(file)}, options)
		require.NoError(t, err)
		require.Equal(t, 300, sum.Rows)
		require.Equal(t, 300, sum.Added+sum.Known)
		require.Positive(t, sum.Known)
		lines := map[int]bool{}
		for _, j := range queuetest.Take(t, q, queue.DefaultAlias, queue.Default, 299) {
			require.False(t, lines[j.Line])
			require.Less(t, j.Line, 300)
			lines[j.Line] = true
		}
	})
}

// breaksOnSecondRead is a file that can be read once as a whole. On the second read, it fails after
// limit bytes.
type breaksOnSecondRead struct {
	*strings.Reader
	limit int
	again bool
	err   error
}

func (b *breaksOnSecondRead) Seek(offset int64, whence int) (int64, error) {
	b.again = b.again || whence == io.SeekStart
	return b.Reader.Seek(offset, whence)
}

func (b *breaksOnSecondRead) Read(p []byte) (int, error) {
	if !b.again {
		return b.Reader.Read(p)
	}
	if b.limit == 0 {
		return 0, b.err
	}
	n, err := b.Reader.Read(p[:min(len(p), b.limit)])
	b.limit -= n
	return n, err
}

// WriteTo replaces the WriteTo of strings.Reader, which would read everything at once.
func (b *breaksOnSecondRead) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, onlyReader{b})
}

type iotestErr struct{ err error }

func (e iotestErr) Read([]byte) (int, error) { return 0, e.err }

// An interrupted pipe leaves no batch and no jobs, so that rows of another file cannot be mixed
// with its rows. A refused pipe queues nothing.
func TestAPipeIsQueuedAsAWholeOrNotAtAll(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		options := enqueue.Options{Batch: "b"}
		broken := errors.New("unplugged")
		_, err := enqueue.Enqueue(t.Context(), q, io.MultiReader(strings.NewReader(prompts(300)), iotestErr{broken}), options)
		require.ErrorIs(t, err, broken)
		requireNothing(t, q)

		other := strings.ReplaceAll(prompts(100), "hello", "goodbye")
		sum, err := enqueue.Enqueue(t.Context(), q, onlyReader{strings.NewReader(other)}, options)
		require.NoError(t, err)
		require.Equal(t, enqueue.Summary{Batch: "b", Total: 100, Rows: 100, Added: 100}, sum)

		_, err = enqueue.Enqueue(t.Context(), q, onlyReader{strings.NewReader(prompts(300))}, options)
		require.ErrorIs(t, err, rows.ErrOtherFile)
		again, err := enqueue.Enqueue(t.Context(), q, strings.NewReader(other), options)
		require.NoError(t, err)
		require.Equal(t, 100, again.Known)
		queuetest.Take(t, q, queue.DefaultAlias, queue.Default, 100) // no row of the other file is queued
	})
}

func TestAnInterruptedPipeIsAbandoned(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	ctx, cancel := context.WithCancel(t.Context())
	pipe, rows := io.Pipe()
	defer rows.Close()
	go func() {
		fmt.Fprint(rows, prompts(1)) //nolint:errcheck // the test fails if the row is not read
		cancel()
	}()
	_, err := enqueue.Enqueue(ctx, q, pipe, enqueue.Options{Batch: "b"})
	require.ErrorIs(t, err, context.Canceled)
	requireNothing(t, q)
}

func TestABatchKeepsItsFileItsModelAndItsPriority(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	run := func(in io.Reader, o enqueue.Options) error {
		o.Batch = "b"
		_, err := enqueue.Enqueue(t.Context(), q, in, o)
		return err
	}
	require.NoError(t, run(strings.NewReader(prompts(3)), enqueue.Options{}))
	require.ErrorIs(t, run(strings.NewReader(prompts(4)), enqueue.Options{}), rows.ErrOtherFile)
	require.ErrorIs(t, run(onlyReader{strings.NewReader(prompts(2))}, enqueue.Options{}), rows.ErrOtherFile)
	require.ErrorContains(t, run(strings.NewReader(prompts(3)), enqueue.Options{Alias: "m"}), "was queued for model name default")
	require.ErrorContains(t, run(strings.NewReader(prompts(3)), enqueue.Options{Priority: queue.Bulk}), "with priority default")
	require.NoError(t, run(strings.NewReader(prompts(3)), enqueue.Options{}))
	queuetest.Take(t, q, queue.DefaultAlias, queue.Default, 3) // no row of the other file is queued
}

// Enqueueing the same file again queues rows whose jobs Redis has lost.
func TestLostRowsAreQueuedAgain(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		run := func() enqueue.Summary {
			sum, err := enqueue.Enqueue(t.Context(), q, strings.NewReader(prompts(5)), enqueue.Options{Batch: "b"})
			require.NoError(t, err)
			return sum
		}
		lost := func() int {
			st, err := q.Status(t.Context(), "b")
			require.NoError(t, err)
			n, err := q.Missing(t.Context(), st)
			require.NoError(t, err)
			return n
		}
		run()
		require.Zero(t, lost())
		_, err := q.Record(t.Context(), "b", queue.Result{Line: 3, Text: []byte("{}")})
		require.NoError(t, err)
		queuetest.Take(t, q, queue.DefaultAlias, queue.Default, 5)
		require.Equal(t, 4, lost())
		require.Equal(t, enqueue.Summary{Batch: "b", Total: 5, Rows: 5, Added: 4, Known: 1}, run())
		require.Zero(t, lost())
	})
}

// After a batch is purged, a new batch with the same id has none of its jobs.
func TestAPurgedBatchLeavesNoJobs(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		_, err := enqueue.Enqueue(t.Context(), q, strings.NewReader(prompts(5)), enqueue.Options{Batch: "b"})
		require.NoError(t, err)
		_, err = q.Cancel(t.Context(), "b")
		require.NoError(t, err)
		require.NoError(t, q.Purge(t.Context(), "b"))
		other := strings.ReplaceAll(prompts(3), "hello", "goodbye")
		sum, err := enqueue.Enqueue(t.Context(), q, strings.NewReader(other), enqueue.Options{Batch: "b"})
		require.NoError(t, err)
		require.Equal(t, enqueue.Summary{Batch: "b", Total: 3, Rows: 3, Added: 3}, sum)
		for _, j := range queuetest.Take(t, q, queue.DefaultAlias, queue.Default, 3) {
			require.Contains(t, string(j.Body), "goodbye", j.Line)
		}
	})
}

// A batch that is cancelled while it is queued, and maybe purged too, gets few more rows, and none
// stay in the queue.
func TestEnqueueEndsWithItsBatch(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		const rows = 10_000
		for _, purge := range []bool{false, true} {
			batch := fmt.Sprint("b-", purge)
			end := sync.OnceFunc(func() {
				if _, err := q.Cancel(t.Context(), batch); err != nil {
					t.Error(err)
				}
				if purge {
					assert.NoError(t, q.Purge(t.Context(), batch))
				}
			})
			sum, err := enqueue.Enqueue(t.Context(), q, strings.NewReader(prompts(rows)), enqueue.Options{Batch: batch, Progress: func(enqueue.Summary) { end() }})
			if !purge || !errors.Is(err, queue.ErrNoBatch) { // rows may also be added between the two calls
				require.ErrorIs(t, err, queue.ErrCancelled)
			}
			require.Less(t, sum.Rows, rows/2)
			queuetest.Take(t, q, queue.DefaultAlias, queue.Default, 0)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	for want, o := range map[string]enqueue.Options{
		"batch id":   {},
		"model name": {Batch: "b", Alias: "a:b"},
		"priority":   {Batch: "b", Priority: "high"},
		"attempts":   {Batch: "b", MaxAttempts: -1},
		"timeout":    {Batch: "b", Timeout: time.Millisecond},
		"retention":  {Batch: "b", Retention: time.Millisecond},
		"weight":     {Batch: "b", Weight: 1001},
	} {
		_, err := enqueue.Enqueue(t.Context(), q, strings.NewReader(prompts(1)), o)
		require.ErrorContains(t, err, want)
	}
	requireNothing(t, q)
}

func TestProgressIsReported(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	var seen []int
	sum, err := enqueue.Enqueue(t.Context(), q, strings.NewReader(prompts(2500)), enqueue.Options{
		Batch: "b", Progress: func(s enqueue.Summary) { seen = append(seen, s.Rows) },
	})
	require.NoError(t, err)
	require.Equal(t, 2500, sum.Added)
	require.Equal(t, []int{1000, 2000, 2500}, seen)
}

func TestEnqueueStopsWithTheContext(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := enqueue.Enqueue(ctx, q, strings.NewReader(prompts(100_000)), enqueue.Options{
		Batch: "b", Progress: func(enqueue.Summary) { cancel() },
	})
	require.ErrorIs(t, err, context.Canceled)
	st, err := q.Status(t.Context(), "b")
	require.NoError(t, err)
	require.Equal(t, queue.Enqueueing, st.State)
}

func TestBatchIDs(t *testing.T) {
	t.Parallel()
	a, b := enqueue.NewBatchID(), enqueue.NewBatchID()
	require.NotEqual(t, a, b)
	require.NoError(t, queue.CheckBatch(a))
}
