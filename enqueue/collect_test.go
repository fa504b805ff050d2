package enqueue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
	"github.com/ingot-run/ingot/queue/queuetest"
)

// makeBatch creates batch b.
func makeBatch(t testing.TB, s queue.Store) {
	t.Helper()
	_, _, err := s.Create(t.Context(), queue.Batch{ID: "b", Alias: "m", Priority: queue.Default, Retention: time.Hour})
	require.NoError(t, err)
}

// finish records the result of a line. Every tenth result is an error.
func finish(t testing.TB, s queue.Store, line int) {
	t.Helper()
	j := &queue.Job{Batch: "b", Line: line, Sum: fmt.Sprintf("%08x", line), CustomID: rows.DefaultID(line)}
	r := queue.Answered(j, new(openai.Request), nil, time.Now(), queue.Stats{})
	if line%10 == 0 {
		r = queue.Failure(j, openai.Error{Code: openai.CodeFailed, Message: "no"}, queue.Stats{})
	}
	_, err := s.Record(t.Context(), "b", r)
	require.NoError(t, err)
}

// requireRows checks that an output holds each of lines 1 to n once.
func requireRows(t testing.TB, output string, n int) {
	t.Helper()
	seen := map[string]bool{}
	for text := range strings.Lines(output) {
		var l queue.Line
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		require.False(t, seen[l.CustomID], "%s is in the output twice", l.CustomID)
		seen[l.CustomID] = true
	}
	for line := range n {
		require.True(t, seen[rows.DefaultID(line+1)], "line %d is missing", line+1)
	}
	require.Len(t, seen, n)
}

func TestCollect(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		makeBatch(t, q)
		path := filepath.Join(t.TempDir(), "out.jsonl")
		collect := func(want enqueue.Collected) {
			t.Helper()
			out, err := rows.OpenOutput(path, "b")
			require.NoError(t, err)
			got, err := enqueue.Collect(t.Context(), q, out, enqueue.CollectOptions{})
			require.NoError(t, err)
			require.NoError(t, out.Close())
			require.Equal(t, want, got)
		}
		collect(enqueue.Collected{})
		for _, line := range rand.Perm(70) {
			finish(t, q, line+1)
		}
		collect(enqueue.Collected{Written: 70, Failed: 7})
		collect(enqueue.Collected{Kept: 70, Failed: 7})
		for line := 71; line <= 100; line++ {
			finish(t, q, line)
		}
		require.NoError(t, q.Seal(t.Context(), "b", 100, ""))
		collect(enqueue.Collected{Kept: 70, Written: 30, Failed: 10, Finished: true})
		collect(enqueue.Collected{Kept: 100, Failed: 10, Finished: true})
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		requireRows(t, string(text), 100)
	})
}

// textCounter counts the results that are read from a queue.
type textCounter struct {
	queue.Queue
	texts int
}

func (q *textCounter) Read(ctx context.Context, batch string, p queue.Page) ([]queue.Recording, error) {
	all, err := q.Queue.Read(ctx, batch, p)
	for _, r := range all {
		if r.Text != nil {
			q.texts++
		}
	}
	return all, err
}

// TestCollectReadsEachResultOnce: results that the output has are compared by their checksums.
func TestCollectReadsEachResultOnce(t *testing.T) {
	t.Parallel()
	q := &textCounter{Queue: memqueue.New()}
	makeBatch(t, q)
	path := filepath.Join(t.TempDir(), "out.jsonl")
	for line := 1; line <= 90; line++ {
		finish(t, q, line)
		if line%30 > 0 {
			continue
		}
		for range 2 {
			out, err := rows.OpenOutput(path, "b")
			require.NoError(t, err)
			_, err = enqueue.Collect(t.Context(), q, out, enqueue.CollectOptions{})
			require.NoError(t, err)
			require.NoError(t, out.Close())
			require.Equal(t, line, q.texts)
		}
	}
}

// TestCollectCanBeInterruptedAnywhere stops a collector and cuts its output many times. At the end,
// the output has each row once.
func TestCollectCanBeInterruptedAnywhere(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	makeBatch(t, q)
	const total = 200
	for line := range total {
		finish(t, q, line+1)
	}
	require.NoError(t, q.Seal(t.Context(), "b", total, ""))
	path := filepath.Join(t.TempDir(), "out.jsonl")
	random := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		out, err := rows.OpenOutput(path, "b")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		pages := 0
		_, err = enqueue.Collect(ctx, q, out, enqueue.CollectOptions{Written: func([]queue.Recording) error {
			if pages++; pages == 3 {
				cancel()
			}
			return nil
		}})
		require.ErrorIs(t, err, context.Canceled)
		cancel()
		require.NoError(t, out.Close())
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(path, info.Size()-random.Int64N(info.Size()/2)))
	}
	out, err := rows.OpenOutput(path, "b")
	require.NoError(t, err)
	got, err := enqueue.Collect(t.Context(), q, out, enqueue.CollectOptions{})
	require.NoError(t, err)
	require.NoError(t, out.Close())
	require.True(t, got.Finished)
	require.Equal(t, total, got.Kept+got.Written)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	requireRows(t, string(text), total)
}

func TestFollowEndsWithTheBatch(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		makeBatch(t, q)
		const total = 100
		var written bytes.Buffer
		var got enqueue.Collected
		var err error
		var last queue.Status
		progressed := make(chan struct{}, total+10)
		var following sync.WaitGroup
		following.Go(func() {
			got, err = enqueue.Collect(t.Context(), q, rows.NewOutput(&written, "b"), enqueue.CollectOptions{
				Follow:   true,
				Progress: func(st queue.Status) { last = st },
				Written:  func(rows []queue.Recording) error { progressed <- struct{}{}; return nil },
			})
		})
		for line := range total - 1 {
			finish(t, q, line+1)
			if line%30 == 0 {
				<-progressed // the row is written while other rows are missing
			}
		}
		require.NoError(t, q.Seal(t.Context(), "b", total, ""))
		finish(t, q, total)
		following.Wait()
		require.NoError(t, err)
		require.Equal(t, enqueue.Collected{Written: total, Failed: 10, Finished: true}, got)
		require.Equal(t, []int{90, 10}, []int{last.Done, last.Failed})
		requireRows(t, written.String(), total)
	})
}

func TestFollowStops(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	makeBatch(t, q)
	finish(t, q, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var written bytes.Buffer
	got, err := enqueue.Collect(ctx, q, rows.NewOutput(&written, "b"), enqueue.CollectOptions{
		Follow: true, Written: func([]queue.Recording) error { cancel(); return nil },
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, enqueue.Collected{Written: 1}, got)
	requireRows(t, written.String(), 1)
}

// An output that holds answers to another file is refused and left unchanged, whether or not the
// batch is finished.
func TestCollectRefusesAnOutputOfAnotherFile(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		makeBatch(t, q)
		for line := range 5 {
			finish(t, q, line+1)
		}
		path := filepath.Join(t.TempDir(), "out.jsonl")
		collect := func() (enqueue.Collected, error) {
			out, err := rows.OpenOutput(path, "b")
			require.NoError(t, err)
			defer func() { require.NoError(t, out.Close()) }()
			return enqueue.Collect(t.Context(), q, out, enqueue.CollectOptions{})
		}
		_, err := collect()
		require.NoError(t, err)
		old, err := os.ReadFile(path)
		require.NoError(t, err)

		_, err = q.Cancel(t.Context(), "b")
		require.NoError(t, err)
		require.NoError(t, q.Purge(t.Context(), "b")) // the batch id is now free for another file
		makeBatch(t, q)
		for line := range 8 {
			j := &queue.Job{Batch: "b", Line: line + 1, Sum: fmt.Sprintf("%08x", line+1), CustomID: rows.DefaultID(line + 1)}
			if line == 4 {
				j.Sum = "ffffffff"
			}
			_, err := q.Record(t.Context(), "b", queue.Answered(j, new(openai.Request), nil, time.Now(), queue.Stats{}))
			require.NoError(t, err)
		}
		for range 2 {
			_, err = collect()
			require.ErrorIs(t, err, rows.ErrOtherFile)
			require.ErrorContains(t, err, "line 5 differs")
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(old), string(text))
			require.NoError(t, q.Seal(t.Context(), "b", 8, ""))
		}
	})
}

// Rows that are recorded after the first comparison are compared as well.
func TestFollowRefusesAnOutputOfAnotherFile(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	makeBatch(t, q)
	path := filepath.Join(t.TempDir(), "out.jsonl")
	id := openai.ResultID("b", 1, "ffffffff")
	require.NoError(t, os.WriteFile(path, []byte(`{"id":"`+id+`","stats":{}}`+"\n"), 0o600))
	out, err := rows.OpenOutput(path, "b")
	require.NoError(t, err)
	recorded := false
	_, err = enqueue.Collect(t.Context(), q, out, enqueue.CollectOptions{Follow: true, Progress: func(queue.Status) {
		if !recorded {
			recorded = true
			finish(t, q, 1)
		}
	}})
	require.ErrorIs(t, err, rows.ErrOtherFile)
	require.NoError(t, out.Close())
}

// Lines of an output that a finished batch does not have are counted as lines of another file.
func TestCollectCountsLinesOfAnotherFile(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	makeBatch(t, q)
	finish(t, q, 1)
	path := filepath.Join(t.TempDir(), "out.jsonl")
	for want := range 2 {
		id := openai.ResultID("b", 2, "00000002")
		require.NoError(t, os.WriteFile(path, []byte(`{"id":"`+id+`","stats":{}}`+"\n"), 0o600))
		out, err := rows.OpenOutput(path, "b")
		require.NoError(t, err)
		got, err := enqueue.Collect(t.Context(), q, out, enqueue.CollectOptions{})
		require.NoError(t, err)
		require.NoError(t, out.Close())
		require.Equal(t, want, got.Foreign, "an unfinished batch may still get the line")
		require.NoError(t, q.Seal(t.Context(), "b", 1, ""))
	}
}

func TestCollectOfNoBatch(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	_, err := enqueue.Collect(t.Context(), q, rows.NewOutput(&bytes.Buffer{}, "b"), enqueue.CollectOptions{Follow: true})
	require.ErrorIs(t, err, queue.ErrNoBatch)
	_, err = q.Status(t.Context(), "b")
	require.ErrorIs(t, err, queue.ErrNoBatch)
}

func TestStatusFigures(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		makeBatch(t, q)
		w := queuetest.Hold(t, q, "m")
		held := map[int]*queuetest.Held{}
		for line := 1; line <= 4; line++ {
			_, err := q.Add(t.Context(), "m", queue.Default, []*queue.Job{{
				Batch: "b", Line: line, Sum: "00000000", CustomID: "a", Endpoint: openai.Chat, Body: []byte("{}"), TimeoutMS: 60_000, MaxAttempts: 1,
			}})
			require.NoError(t, err)
			held[line] = w.Next(t)
			require.NoError(t, held[line].Refused)
		}
		_, err := held[1].Record(t.Context(), queue.Result{Line: 1, Sum: "00000000", Text: []byte("{}"), Stats: queue.Stats{
			PromptTokens: 100, CachedTokens: 40, CompletionTokens: 50, DraftTokens: 9, AcceptedTokens: 6,
		}})
		require.NoError(t, err)
		require.NoError(t, q.Seal(t.Context(), "b", 10, ""))
		st, err := q.Status(t.Context(), "b")
		require.NoError(t, err)
		require.Equal(t, []int{10, 1, 0, 3, 6, 100, 40, 50, 9, 6}, []int{
			st.Total, st.Done, st.Failed, st.Running, st.Waiting(),
			st.PromptTokens, st.CachedTokens, st.CompletionTokens, st.DraftTokens, st.AcceptedTokens,
		})
		require.WithinDuration(t, time.Now(), st.Created, time.Minute)
		require.WithinDuration(t, time.Now(), *st.Started, time.Minute)
	})
}
