package enqueue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// retried is a batch whose rows fail and are queued again.
type retried struct {
	rapid.TB
	q     *redisqueue.Queue
	redis *redistest.Server
	batch string
	tries int // number of recorded results, so that each result is different
}

func (b *retried) newJob(line int) *queue.Job {
	return &queue.Job{
		Batch: b.batch, Line: line, Sum: fmt.Sprintf("%08x", line), CustomID: rows.DefaultID(line),
		Endpoint: openai.Completions, Body: []byte("{}"), TimeoutMS: 1000, MaxAttempts: 1,
	}
}

// record takes a row's job from the queue and records a result: an answer if code is empty, else an
// error. It returns the result's text, or an empty string if the row has no job because it is
// recorded.
func (b *retried) record(line int, code string, usable bool) string {
	ctx := context.Background()
	j := b.newJob(line)
	b.tries++
	stats := queue.Stats{Attempts: b.tries}
	r := queue.Answered(j, new(openai.Request), nil, time.Unix(0, 0), stats)
	if code != "" {
		r = queue.Failure(j, openai.Error{Code: code, Message: "no"}, stats)
		if usable {
			var err error
			r.Job, err = j.Encode()
			require.NoError(b, err)
		}
	}
	first, err := b.q.Record(ctx, b.batch, r)
	require.NoError(b, err)
	if !first {
		return ""
	}
	err = asynq.NewInspectorFromRedisClient(b.redis.Client).DeleteTask("m:default", queue.TaskID(b.batch, line))
	require.True(b, err == nil || strings.Contains(err.Error(), "not found"), "%v", err)
	return string(r.Text)
}

func (b *retried) collect(path string) enqueue.Collected {
	out, err := rows.OpenOutput(path, b.batch)
	require.NoError(b, err)
	c, err := enqueue.Collect(context.Background(), b.q, out, enqueue.CollectOptions{})
	require.NoError(b, err)
	require.NoError(b, out.Close())
	return c
}

func (b *retried) lines(path string) []string {
	text, err := os.ReadFile(path)
	require.NoError(b, err)
	return slices.Sorted(strings.Lines(string(text)))
}

// Rows fail, are queued again and are collected many times. Some outputs are collected rarely,
// others are new. At the end, each output has the last result of each row once.
func TestARetriedRowIsInTheOutputOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	q := redisqueue.New(server.Client)
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		b := &retried{t, q, server, "b", 0}
		ctx := t.Context()
		// Every check begins with an empty server and the same names: rapid repeats a check that
		// has failed, and its error must be the same again.
		require.NoError(t, server.Client.FlushDB(ctx).Err())
		dir := outer.TempDir()
		_, _, err := q.Create(ctx, queue.Batch{ID: b.batch, Alias: "m", Priority: queue.Default, Retention: time.Hour})
		require.NoError(t, err)
		n := rapid.IntRange(1, 12).Draw(t, "rows")
		var jobs []*queue.Job
		for line := range n {
			jobs = append(jobs, b.newJob(line+1))
		}
		_, err = q.Add(ctx, "m", queue.Default, jobs)
		require.NoError(t, err)
		require.NoError(t, q.Seal(ctx, b.batch, n, ""))
		outputs := []string{filepath.Join(dir, "1"), filepath.Join(dir, "2"), filepath.Join(dir, "3")}

		last := map[int]string{}   // results by line
		failed := map[int]string{} // error codes of rows that can be tried again, by line
		for range rapid.IntRange(0, 40).Draw(t, "operations") {
			line := rapid.IntRange(1, n).Draw(t, "line")
			switch rapid.IntRange(0, 3).Draw(t, "operation") {
			case 0:
				if text := b.record(line, "", false); text != "" {
					require.NotContains(t, last, line)
					last[line] = text
				}
			case 1:
				code := rapid.SampledFrom([]string{openai.CodeTimeout, openai.CodeFailed}).Draw(t, "code")
				usable := rapid.IntRange(0, 4).Draw(t, "usable") > 0
				if text := b.record(line, code, usable); text != "" {
					require.NotContains(t, last, line)
					if last[line] = text; usable {
						failed[line] = code
					}
				}
			case 2:
				code := rapid.SampledFrom([]string{"", openai.CodeTimeout, openai.CodeFailed}).Draw(t, "code to retry")
				want := 0
				for line, with := range failed {
					if code == "" || code == with {
						want++
						delete(last, line)
						delete(failed, line)
					}
				}
				got, err := q.Requeue(ctx, b.batch, code)
				require.NoError(t, err)
				require.Equal(t, want, got.Queued)
				s, err := q.Status(ctx, b.batch)
				require.NoError(t, err)
				require.Equal(t, len(last), s.Done+s.Failed)
				require.Equal(t, len(last) == n, s.State == queue.Completed)
				require.Equal(t, s.State == queue.Completed, s.Expires != nil, "only a batch that has ended expires")
			case 3:
				path := outputs[rapid.IntRange(0, 1).Draw(t, "output")]
				b.collect(path)
				text, err := os.ReadFile(path)
				require.NoError(t, err)
				seen := map[string]bool{}
				for l := range strings.Lines(string(text)) {
					var row struct {
						CustomID string `json:"custom_id"`
					}
					require.NoError(t, json.Unmarshal([]byte(l), &row))
					require.False(t, seen[row.CustomID], "twice: %s", l)
					seen[row.CustomID] = true
				}
			}
		}
		for line := range n { // the rows without an answer are answered
			if text := b.record(line+1, "", false); text != "" {
				last[line+1] = text
			}
		}
		var want []string
		for _, text := range last {
			want = append(want, text+"\n")
		}
		slices.Sort(want)
		for _, path := range outputs {
			c := b.collect(path)
			require.True(t, c.Finished)
			require.Zero(t, c.Foreign)
			require.Equal(t, n, c.Kept+c.Written)
			require.Equal(t, want, b.lines(path))
		}
		done, err := q.Requeue(ctx, b.batch, "")
		require.NoError(t, err)
		require.Equal(t, len(failed), done.Queued)
	})
}

// A collector that follows a batch notices that a row was queued again, even if the row's next
// result is already recorded.
func TestFollowReplacesErrors(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	b := &retried{t, redisqueue.New(server.Client), server, "b", 0}
	_, _, err := b.q.Create(t.Context(), queue.Batch{ID: "b", Alias: "m", Priority: queue.Default, Retention: time.Hour})
	require.NoError(t, err)
	b.record(1, "", false)
	b.record(2, openai.CodeTimeout, true)
	path := filepath.Join(t.TempDir(), "out")
	b.collect(path)

	out, err := rows.OpenOutput(path, "b")
	require.NoError(t, err)
	text, reads := "", 0
	c, err := enqueue.Collect(t.Context(), b.q, out, enqueue.CollectOptions{
		Follow: true,
		Progress: func(queue.Status) {
			switch reads++; reads {
			case 1: // after the output was compared, before the first page
				b.record(3, openai.CodeFailed, true)
			case 2:
				_, err := b.q.Requeue(t.Context(), "b", "")
				require.NoError(t, err)
				text = b.record(2, "", false) + "\n" + b.record(3, openai.CodeTimeout, true) + "\n"
				require.NoError(t, b.q.Seal(t.Context(), "b", 3, ""))
			}
		},
	})
	require.NoError(t, err)
	require.Equal(t, enqueue.Collected{Kept: 1, Written: 2, Failed: 1, Finished: true}, c)
	require.NoError(t, out.Close())
	all, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(all), "\n"))
	require.True(t, strings.HasSuffix(string(all), text))
}
