package worker

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

// longPrompts returns a file of n rows. Their answers are long and of different lengths, so that a
// worker always has unfinished rows.
func longPrompts(n int) string {
	var rows strings.Builder
	for i := range n {
		fmt.Fprintf(&rows, "{\"custom_id\":\"row-%d\",\"prompt\":[%d,5],\"max_tokens\":%d,\"ignore_eos\":true}\n", i+1, 300+i, longTokens(i))
	}
	return rows.String()
}

// longTokens returns the number of tokens that row i of longPrompts generates.
func longTokens(i int) int { return 300 + 13*i%150 }

// requireLongAnswers checks that rows 1 to n of longPrompts have complete answers, and that there
// are no other rows.
func requireLongAnswers(t *testing.T, lines map[string]resultLine, n int) {
	t.Helper()
	require.Len(t, lines, n)
	for i := range n {
		row := lines[fmt.Sprintf("row-%d", i+1)]
		require.Nil(t, row.Error)
		require.Equal(t, longTokens(i), row.Response.Body.Usage.CompletionTokens)
	}
}

// Two worker processes share a batch, and one of them is killed in the middle.
func TestNoRowIsLostWithAWorker(t *testing.T) {
	t.Parallel()
	const n = 120
	b, r := onRedis(t, longPrompts(n))
	workers := [2]*exec.Cmd{process{}.start(t, r), process{}.start(t, r)}
	start := time.Now()
	var text bytes.Buffer
	out := rows.NewOutput(&text, "b")
	var killed, survivor *exec.Cmd
	got, err := enqueue.Collect(t.Context(), b.queue, out, enqueue.CollectOptions{
		Follow: true,
		Written: func(rows []queue.Recording) error {
			if lines, _ := out.Counts(); lines < n/3 || killed != nil {
				return nil
			}
			killed, survivor = workers[0], workers[1] // kill the worker of the last answer, which is running rows
			for _, row := range decode(t, string(rows[len(rows)-1].Text)) {
				if isOf(survivor, row.Stats.Worker) {
					killed, survivor = survivor, killed
				}
			}
			return killed.Process.Kill()
		},
	})
	require.NoError(t, err)
	require.NotNil(t, killed)
	t.Logf("%d rows in %v, with one of two workers killed in the middle", n, time.Since(start))
	require.Equal(t, enqueue.Collected{Written: n, Finished: true}, got)
	lines := decode(t, text.String())
	requireLongAnswers(t, lines, n)
	again := map[string]int{}
	for _, row := range lines {
		again[row.Stats.Worker] += row.Stats.Attempts - 1
	}
	require.Error(t, killed.Wait())
	handedOn := 0
	for worker, attempts := range again {
		if isOf(survivor, worker) {
			handedOn = attempts
		} else {
			require.Zero(t, attempts)
		}
	}
	require.Positive(t, handedOn, "the jobs that the killed worker had taken were answered by the other")
	require.LessOrEqual(t, handedOn, 8)
	require.NoError(t, survivor.Process.Kill())
	require.Error(t, survivor.Wait())
}

// isOf reports whether a worker name in a result is that of a process.
func isOf(process *exec.Cmd, worker string) bool {
	return strings.HasSuffix(worker, fmt.Sprintf(":%d", process.Process.Pid))
}

// Redis is killed three times during a batch, and restarts with the data on its disk. If Redis dies
// while it delivers a job, the job is delivered again when its lease ends. With INGOT_LONG=1,
// leases have their usual length, so that this can take two minutes.
func TestNoRowIsLostWithRedis(t *testing.T) {
	t.Parallel()
	n, leases := 100, quick
	if os.Getenv("INGOT_LONG") != "" {
		n, leases = 300, redisqueue.Leases{}
	}
	b, r := onRedis(t, longPrompts(n))
	process := process{Leases: leases}.start(t, r)
	start := time.Now()
	var text bytes.Buffer
	out := rows.NewOutput(&text, "b")
	kills := 0
	got, err := enqueue.Collect(t.Context(), b.queue, out, enqueue.CollectOptions{
		Follow: true,
		Written: func([]queue.Recording) error {
			if lines, _ := out.Counts(); lines > (kills+1)*n/4 {
				kills++
				r.Restart(t)
			}
			return nil
		},
	})
	require.NoError(t, err)
	t.Logf("%d rows in %v, with Redis killed %d times", n, time.Since(start), kills)
	require.Equal(t, 3, kills)
	require.Equal(t, enqueue.Collected{Written: n, Finished: true}, got)
	requireLongAnswers(t, decode(t, text.String()), n)
	require.NoError(t, process.Process.Kill())
	require.Error(t, process.Wait())
}
