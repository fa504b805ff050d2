package enqueue_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/queuetest"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// Collect does not trust what Redis returns. It leaves out and reports entries and results that are
// not a row's, and the output can still be continued.
func TestCollectLeavesOutWhatIsDamaged(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	q := redisqueue.New(r.Client)
	makeBatch(t, q)
	entry := func(line, sum string) {
		t.Helper()
		require.NoError(t, r.Client.XAdd(t.Context(), &redis.XAddArgs{
			Stream: "ingot:{b}:stream", Values: []string{"line", line, "sum", sum, "failed", "0"},
		}).Err())
	}
	for _, line := range []string{"-3", "0", "4000000000", "99999999999999999999", "x", "\x1b[31m", ""} {
		entry(line, "00000001")
	}
	entry("1", "\x1b[31m")
	entry("1", "1")
	require.NoError(t, r.Client.XAdd(t.Context(), &redis.XAddArgs{Stream: "ingot:{b}:stream", Values: []string{"a", "b"}}).Err())
	forged := 10
	for line := 1; line <= 10; line++ {
		finish(t, q, line)
	}
	result := func(line int, change func(string) string) {
		t.Helper()
		text, err := r.Client.HGet(t.Context(), "ingot:{b}:results", fmt.Sprint(line)).Result()
		require.NoError(t, err)
		require.NoError(t, r.Client.HSet(t.Context(), "ingot:{b}:results", line, change(text)).Err())
		forged++
	}
	result(3, func(s string) string { return s + "\n" + s })
	result(4, func(s string) string { return strings.Replace(s, "req_b", "req_c", 1) })
	result(5, func(string) string { return "\x1b[31mred" })
	result(6, func(string) string { return "" })
	require.NoError(t, q.Seal(t.Context(), "b", 10, "sha"))

	path := filepath.Join(t.TempDir(), "out.jsonl")
	for range 2 {
		out, err := rows.OpenOutput(path, "b")
		require.NoError(t, err)
		c, err := enqueue.Collect(t.Context(), q, out, enqueue.CollectOptions{})
		require.NoError(t, err)
		require.NoError(t, out.Close())
		require.Equal(t, []int{6, forged, 0}, []int{c.Kept + c.Written, c.Damaged, c.Foreign})
		require.Regexp(t, `^entry \d+-0 of the stream: line number -3 is not between 1 and 2147483647$`, c.FirstDamage)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, 6, bytes.Count(text, []byte("\n")))
	}
}

// Results are freed once an output has them on the disk. The batch can still be compared with that
// output. Another output is reported as incomplete.
func TestCollectedResultsAreFreed(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		makeBatch(t, q)
		path := filepath.Join(t.TempDir(), "out.jsonl")
		collect := func(path string, free bool) (enqueue.Collected, error) {
			out, err := rows.OpenOutput(path, "b")
			require.NoError(t, err)
			defer out.Close()
			return enqueue.Collect(t.Context(), q, out, enqueue.CollectOptions{Free: free})
		}
		const n = 1500
		for line := 1; line <= n; line++ {
			finish(t, q, line)
		}
		c, err := collect(path, true)
		require.NoError(t, err)
		require.Equal(t, []int{n, 0}, []int{c.Written, c.Freed})
		held, err := q.Read(t.Context(), "b", queue.Page{Count: 2 * n, MaxBytes: 1 << 30, Want: func(queue.Recording) bool { return true }})
		require.NoError(t, err)
		require.Len(t, held, n)
		for _, h := range held {
			require.Equal(t, h.Failed, h.Text != nil, "line %d: only error lines stay, since their rows can be queued again", h.Line)
		}

		finish(t, q, n+1)
		require.NoError(t, q.Seal(t.Context(), "b", n+1, "sha"))
		c, err = collect(path, false)
		require.NoError(t, err)
		require.Equal(t, []any{n, 1, 0, 0, true}, []any{c.Kept, c.Written, c.Freed, c.Foreign, c.Finished})
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		requireRows(t, string(text), n+1)

		c, err = collect(filepath.Join(t.TempDir(), "elsewhere.jsonl"), false)
		require.NoError(t, err)
		require.Equal(t, []int{1 + n/10, n - n/10}, []int{c.Written, c.Freed})

		edited := strings.Replace(string(text), "-7-00000007", "-7-00000008", 1)
		require.NoError(t, os.WriteFile(path, []byte(edited), 0o600))
		_, err = collect(path, false)
		require.ErrorIs(t, err, rows.ErrOtherFile)
	})
}
