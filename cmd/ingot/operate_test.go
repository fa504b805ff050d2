package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue/fleet"
	"github.com/ingot-run/ingot/internal/bounded"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// TestRetry: rows that are too long for a worker fail and are listed as errors. After a retry, a
// worker with a longer context answers them. The output has each row once.
func TestRetry(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	redis := withRedis(t, url, "")
	long := `{"custom_id":"long","prompt":"` + strings.Repeat("Which month comes after March? ", 40) + `","max_tokens":2}`
	in := write(t, "in.jsonl", strings.Join([]string{askMarch, long, badRow, strings.Replace(long, "long", "longer", 1)}, "\n"))
	out := filepath.Join(t.TempDir(), "out.jsonl")
	r := redis(exitOK, "enqueue", in, "--batch", "b")
	require.Contains(t, r.stderr, "no worker serves model name \"default\": the rows wait for one\n")
	require.Equal(t, "missing_field: 1 row\n", strings.SplitAfter(redis(exitOK, "errors", "b").stdout, "\n")[0])

	none := strings.TrimSpace(redis(exitOK, "enqueue", write(t, "good.jsonl", askMarch)).stdout)
	require.Equal(t, result{stderr: "no row of " + none + " failed\n"}, redis(exitOK, "errors", none))
	require.Empty(t, redis(exitOK, "errors", none, "--json").stdout)

	w := startWorker(t, url, queue.DefaultAlias, "--context", "64")
	redis(exitRows, "results", "b", "-o", out, "--follow")
	w.stop(t)
	r = redis(exitOK, "errors", "b")
	require.Regexp(t, `^context_length_exceeded: 2 rows\n  lines 2, 5: .*64.*\nmissing_field: 1 row\n  line 3: .*\n$`, r.stdout)
	var e queue.RowError
	require.NoError(t, json.Unmarshal([]byte(strings.SplitAfter(redis(exitOK, "errors", "b", "--json").stdout, "\n")[1]), &e))
	require.Equal(t, "context_length_exceeded", e.Code)
	before := readAnswers(t, readFile(t, out))
	require.Len(t, before, 4)

	require.Equal(t, `b: 0 rows queued again, since none failed with the code "mising_field"; the codes are context_length_exceeded, missing_field; did you mean "missing_field"?`+"\n",
		redis(exitOK, "retry", "b", "--code", "mising_field").stderr)
	require.Equal(t, "b: 2 rows queued again\n", redis(exitOK, "retry", "b", "--code", "context_length_exceeded").stderr)
	require.Equal(t, "b: 0 rows queued again, 1 row cannot be used\n", redis(exitOK, "retry", "b").stderr)
	require.Contains(t, redis(exitOK, "status", "b").stdout, "in_progress")
	redis(exitOK, "results", "b", "-o", out)
	require.Len(t, readAnswers(t, readFile(t, out)), 2, "the old errors are gone")

	startWorker(t, url, queue.DefaultAlias)
	r = redis(exitOK, "results", "b", "-o", out, "--follow")
	require.Contains(t, r.stderr, "4 rows, 2 of them new, 1 failed: the batch is finished\n")
	after := readAnswers(t, readFile(t, out))
	require.Len(t, after, 4)
	require.Equal(t, before["march"], after["march"])
	for _, id := range []string{"long", "longer"} {
		require.NotNil(t, before[id].Error)
		require.NotNil(t, after[id].Response)
	}
	require.Equal(t, exitFailure, ingot(t, "", "errors", "c", "--redis", url).code)
	require.Equal(t, exitFailure, ingot(t, "", "retry", "c", "--redis", url).code)
}

// TestPauseAndResume: status shows a paused model name, and its rows are answered after it is
// resumed.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	redis := withRedis(t, url, askMarch)
	require.Contains(t, redis(exitFailure, "pause", "glm").stderr, `no rows were queued for model name "glm", and no worker serves it; there are no model names yet`)
	require.Equal(t, "there are no model names yet\n", redis(exitOK, "pause").stderr)
	startWorker(t, url, "glm")
	require.Eventually(t, func() bool { return redis(exitOK, "resume").stderr == "glm: was not paused\n" }, time.Minute, 10*time.Millisecond)
	require.Contains(t, redis(exitFailure, "pause", "gml").stderr, `no worker serves it; the known names are: glm`)
	require.Equal(t, "glm: paused\n", redis(exitOK, "pause").stderr)
	require.Equal(t, "glm: was paused before\n", redis(exitOK, "pause", "glm").stderr)
	r := redis(exitOK, "enqueue", "-", "--batch", "b", "--model-name", "glm")
	require.Contains(t, r.stderr, "model name \"glm\" is paused: the rows wait for \"ingot resume glm\"\n")
	require.Regexp(t, `(?m)^paused +no rows of model name "glm" are taken: ingot resume glm$`, redis(exitOK, "status", "b").stdout)
	ctx, stop := context.WithCancel(bounded.Context(t))
	defer stop()
	var stdout bytes.Buffer
	watched := onWrite{do: func(part string) {
		if strings.Contains(part, "model name \"glm\" is paused: the rows wait for \"ingot resume glm\"\n") {
			stop()
		}
	}}
	require.Equal(t, exitFailure, run(ctx, []string{"status", "b", "--watch", "--redis", url}, strings.NewReader(""), &stdout, &watched))
	require.Contains(t, watched.String(), "stopped watching: the batch has not ended")
	require.Equal(t, "glm: resumed\n", redis(exitOK, "resume", "glm").stderr)
	require.Equal(t, "glm: was not paused\n", redis(exitOK, "resume").stderr)
	r = redis(exitOK, "results", "b", "-o", "-", "--follow")
	require.Contains(t, r.stdout, "April.")
	require.NotContains(t, redis(exitOK, "status", "b").stdout, "paused")
	require.Equal(t, exitUsage, ingot(t, "", "pause", "a b", "--redis", url).code)
	require.Equal(t, exitUsage, ingot(t, "", "pause", "a", "b", "--redis", url).code)
}

// TestDeadline: status and results end an overdue batch even without a worker.
func TestDeadline(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	redis := withRedis(t, url, askMarch+"\n"+askFinland)
	redis(exitOK, "enqueue", "-", "--batch", "later", "--deadline", "1h")
	require.Regexp(t, `(?m)^deadline +\d`, redis(exitOK, "status", "later").stdout)
	redis(exitOK, "enqueue", "-", "--batch", "b", "--deadline", "1ms")
	redis(exitOK, "enqueue", "-", "--batch", "c", "--deadline", time.Millisecond.String())
	require.Regexp(t, `(?m)^rows +2: 0 answered, 2 failed, 0 running, 0 waiting$`, redis(exitOK, "status", "b").stdout)
	r := redis(exitRows, "results", "c", "-o", "-", "--follow")
	require.Regexp(t, `errors: expired 2 \(such as line [12]: not answered before the deadline of its batch, `, r.stderr)
	require.Equal(t, 2, strings.Count(r.stdout, `"code":"expired"`))
	require.Regexp(t, `(?m)^state +in_progress$`, redis(exitOK, "status", "later").stdout)

	require.Equal(t, "b: 2 rows queued again\n", redis(exitOK, "retry", "b").stderr)
	require.NotContains(t, redis(exitOK, "status", "b").stdout, "deadline")
	startWorker(t, url, queue.DefaultAlias)
	require.Contains(t, redis(exitOK, "results", "b", "-o", "-", "--follow").stdout, "April.")
	require.Equal(t, exitUsage, ingot(t, "", "enqueue", "-", "--redis", url, "--deadline", "-1h").code)
}

// TestALoadingWorkerIsShown: a worker that loads its model is listed, and enqueue says that rows
// wait for it.
func TestALoadingWorkerIsShown(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	q, _, err := redisqueue.Dial(t.Context(), url, 1, func(string) {})
	require.NoError(t, err)
	defer q.Close()
	stop := q.ListLoading(t.Context(), queue.Worker{Name: "host:1", Loading: "glm", Model: "glm.gguf"}, slog.New(slog.DiscardHandler))
	defer stop()
	redis := withRedis(t, url, askMarch)
	require.Eventually(t, func() bool { return len(workerStates(t, url)) == 1 }, time.Minute, time.Millisecond)
	require.Regexp(t, `(?m)^host:1 +loading +glm +glm\.gguf`, redis(exitOK, "workers").stdout)
	require.Contains(t, redis(exitOK, "enqueue", "-", "--alias", "glm").stderr, "worker host:1 loads the model for model name \"glm\": the rows wait for it\n")
}

// TestWorkers checks the list of live, paused and lost workers.
func TestWorkers(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	workers := func() map[string]fleet.Worker {
		t.Helper()
		var all []fleet.Worker
		r := ingot(t, "", "workers", "--json", "--redis", url)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &all))
		byName := map[string]fleet.Worker{}
		for _, w := range all {
			byName[w.Name] = w
		}
		return byName
	}
	require.Empty(t, workers())
	a, b := startWorker(t, url, "glm"), startWorker(t, url, "tiny")
	name := func(w *workerProcess) string {
		host, err := os.Hostname()
		require.NoError(t, err)
		return fmt.Sprintf("%s:%d", host, w.cmd.Process.Pid)
	}
	require.Eventually(t, func() bool {
		all := workers()
		return all[name(a)].ModelSHA256 != "" && all[name(b)].ModelSHA256 != ""
	}, time.Minute, 10*time.Millisecond)
	w := workers()[name(a)]
	require.Equal(t, []any{"live", []string{"glm"}, "tiny-llama.q4_0", 2, 0}, []any{w.State, w.Aliases, w.Model, w.Concurrency, w.Rows})
	require.Equal(t, "8e227e38c18a31dbe3a9281d96dd31910690c610a8d3c0afff65ad7a6bdcb38d", w.ModelSHA256)
	require.WithinDuration(t, time.Now(), w.Beat, time.Minute)

	r := ingot(t, "", "pause", "glm", "--redis", url)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.NoError(t, b.cmd.Process.Kill())
	require.Eventually(t, func() bool { return workers()[name(b)].State == "lost" }, 2*time.Minute, 100*time.Millisecond)
	text := ingot(t, "", "workers", "--redis", url).stdout
	require.Regexp(t, `(?m)^\S+:\d+ +paused +glm +tiny-llama.q4_0 +8e227e38c18a  `, text)
	require.Regexp(t, `(?m)^\S+:\d+ +lost +tiny +tiny-llama.q4_0 +8e227e38c18a  .* 0/\d+ +0.0 .* ago$`, text)
	require.True(t, strings.HasSuffix(text, "\npaused model names: glm\n"), text)
	a.stop(t)
	require.NotContains(t, workers(), name(a), "a worker that has stopped is not listed")
}

// TestRollingUpgrade: workers are replaced one after another while they answer rows, and each row
// is answered once. A row that a stopped worker returned does not lose one of its attempts.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	const n = 60
	in := write(t, "in.jsonl", strings.Join(someRows(n), ""))
	r := ingot(t, "", "enqueue", in, "--redis", url, "--batch", "b")
	require.Equal(t, exitOK, r.code, r.stderr)
	finished := func(rows int) func() bool {
		return func() bool {
			var s queue.Status
			r := ingot(t, "", "status", "b", "--redis", url, "--json")
			return json.Unmarshal([]byte(r.stdout), &s) == nil && s.Done >= rows
		}
	}
	fleet := []*workerProcess{startWorker(t, url, queue.DefaultAlias), startWorker(t, url, queue.DefaultAlias)}
	for i := range fleet {
		require.Eventually(t, finished(10*(i+1)), time.Minute, 5*time.Millisecond)
		next := startWorker(t, url, queue.DefaultAlias)
		fleet[i].stop(t) // with rows in flight
		fleet[i] = next
	}
	r = ingot(t, "", "results", "b", "--redis", url, "-o", "-", "--follow", "--fail-on-error")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Len(t, readAnswers(t, r.stdout), n)
	require.NotContains(t, r.stdout, `"attempts":2`)
}

// TestASecondSignalEndsAWorkerAtOnce: a second signal ends a worker even while it finishes a row.
func TestASecondSignalEndsAWorkerAtOnce(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	long := `{"prompt":["Tell me a story."` + strings.Repeat(`,"And then?"`, 2000) + `],"max_tokens":100,"ignore_eos":true}` + "\n"
	r := ingot(t, long, "enqueue", "-", "--redis", url, "--batch", "b")
	require.Equal(t, exitOK, r.code, r.stderr)
	w := startWorker(t, url, queue.DefaultAlias)
	running := regexp.MustCompile(`(?m)^ingot_engine_running_sequences [1-9]`)
	require.Eventually(t, func() bool { // a row that the engine does not have yet is handed back at the first signal
		_, metrics := w.ask(t, "/metrics")
		return running.MatchString(metrics)
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, w.cmd.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool {
		code, _ := w.ask(t, "/readyz")
		return code == http.StatusServiceUnavailable
	}, time.Minute, time.Millisecond)
	require.NoError(t, w.cmd.Process.Signal(syscall.SIGTERM))
	log := <-w.log
	require.ErrorContains(t, w.cmd.Wait(), "signal: terminated")
	require.NotContains(t, log, "msg=stopped")
}

// TestErrorsAndWorkersPrintNoEscapes: control characters in rows and in workers' records are
// escaped before they are printed.
func TestErrorsAndWorkersPrintNoEscapes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	bad := `{"custom_id":"\u001b[31m","prompt":"x","\u001b[31mred":1}` + "\n" + `{"prompt":"x","model":"\u009b31m"}` + "\n"
	require.Equal(t, exitOK, ingot(t, bad, "enqueue", "-", "--redis", server.URL, "--batch", "b").code)
	escape := "\x1b]0;x\a"
	record, err := json.Marshal(queue.Worker{Name: escape, Model: escape, ModelSHA256: escape, Version: escape, Device: escape, Aliases: []string{escape}})
	require.NoError(t, err)
	require.NoError(t, server.Client.HSet(t.Context(), "ingot:{:fleet}:records", "w", record).Err())
	require.NoError(t, server.Client.HSet(t.Context(), "ingot:{:fleet}:beats", "w", time.Now().UnixMilli()).Err())
	require.NoError(t, server.Client.SAdd(t.Context(), "asynq:queues", escape+":default").Err())
	require.NoError(t, server.Client.Set(t.Context(), "asynq:{"+escape+":default}:paused", 1, 0).Err())
	for _, args := range [][]string{{"errors", "b"}, {"workers"}, {"pause"}} {
		r := ingot(t, "", append(args, "--redis", server.URL)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.NotContains(t, r.stdout+r.stderr, "\x1b", args)
		require.NotContains(t, r.stdout+r.stderr, "\u009b", args)
	}
}
