package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/bounded"
	"github.com/ingot-run/ingot/queue/redistest"
)

// commandLine returns a function that runs asynq's own command line and returns its output.
func commandLine(t *testing.T, server *redistest.Server) func(args ...string) string {
	t.Helper()
	path, err := filepath.Abs("../../.tools/asynq")
	require.NoError(t, err)
	if _, err := exec.LookPath(path); err != nil {
		t.Skip("no .tools/asynq here, so nothing was tested with asynq's command line: run .ci/install")
	}
	home := t.TempDir() // without a configuration file
	return func(args ...string) string {
		t.Helper()
		cmd := bounded.Command(t, path, append(args, "--uri", server.Client.Options().Addr)...)
		cmd.Env = []string{"HOME=" + home, "NO_COLOR=1"}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", strings.Join(args, " "), out)
		return string(out)
	}
}

// TestAsynqsCommandLine operates rows with asynq's own command line, as docs/queue.md and
// docs/operations.md describe: a paused queue gives no rows, an archived row is queued again, a row
// can be run again by hand, and a deleted row is lost until its file is enqueued again.
func TestAsynqsCommandLine(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	asynq := commandLine(t, server)
	const rows = 8
	var lines strings.Builder
	var all []string // the ids of the batch's tasks
	for line := range rows {
		fmt.Fprintf(&lines, "{\"prompt\": \"%d plus 1 is\", \"max_tokens\": 4}\n", line)
		all = append(all, fmt.Sprintf("b:%d", line+1))
	}
	in := write(t, "in.jsonl", lines.String())
	ingot := withRedis(t, server.URL, "")
	status := func(batch string) (s struct{ Done, Lost int }) {
		t.Helper()
		require.NoError(t, json.Unmarshal([]byte(ingot(exitOK, "status", batch, "--json").stdout), &s))
		return s
	}
	until := func(condition func() bool) {
		t.Helper()
		require.Eventually(t, condition, time.Minute, 20*time.Millisecond)
	}
	// ids returns the tasks of the queue m:default in a state.
	ids := func(state string) (list []string) {
		t.Helper()
		for line := range strings.Lines(asynq("task", "ls", "--queue", "m:default", "--state", state)) {
			if id, _, ok := strings.Cut(line, " "); ok && strings.HasPrefix(id, "b:") {
				list = append(list, id)
			}
		}
		return list
	}

	ingot(exitOK, "enqueue", in, "--batch", "b", "--model-name", "m")
	require.Contains(t, asynq("queue", "ls"), "m:default")
	require.Equal(t, all, ids("pending"))
	require.Contains(t, asynq("task", "inspect", "--queue", "m:default", "--id", "b:1"), "ingot:job")

	asynq("task", "archive", "--queue", "m:default", "--id", "b:1")
	asynq("task", "archive", "--queue", "m:default", "--id", "b:2")
	asynq("task", "delete", "--queue", "m:default", "--id", "b:3")
	require.ElementsMatch(t, []string{"b:1", "b:2"}, ids("archived"))
	asynq("task", "run", "--queue", "m:default", "--id", "b:2")
	require.Equal(t, []string{"b:1"}, ids("archived"))
	require.ElementsMatch(t, append([]string{"b:2"}, all[3:]...), ids("pending"))

	// The worker answers the rows of another queue, and takes none of the paused one. It queues the
	// archived row again.
	asynq("queue", "pause", "m:default")
	worker := startWorker(t, server.URL, "m")
	ingot(exitOK, "enqueue", in, "--batch", "urgent", "--model-name", "m", "--priority", "critical")
	until(func() bool { return status("urgent").Done == rows })
	until(func() bool { return len(ids("archived")) == 0 })
	require.ElementsMatch(t, append([]string{"b:1", "b:2"}, all[3:]...), ids("pending"))
	require.Zero(t, status("b").Done)

	asynq("queue", "unpause", "m:default")
	until(func() bool { return status("b").Done == rows-1 })
	require.Equal(t, 1, status("b").Lost)
	require.Contains(t, ingot(exitOK, "enqueue", in, "--batch", "b", "--model-name", "m").stderr, "8 rows: 1 queued")
	until(func() bool { return status("b").Done == rows })
	require.Zero(t, status("b").Lost)
	require.Empty(t, ids("pending"))
	require.Empty(t, ids("active"))
	worker.stop(t)
}
