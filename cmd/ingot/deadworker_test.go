package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue/fleet"
	"github.com/ingot-run/ingot/internal/bounded"
	"github.com/ingot-run/ingot/queue/redistest"
)

// answered is an HTTP response with its body.
type answered struct {
	status int
	header http.Header
	text   string
}

// try sends a request, which may fail. An empty body stands for a GET request.
func (s *serveProcess) try(t *testing.T, path, body string) answered {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(t, err)
	got, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	return answered{got.StatusCode, got.Header, string(text)}
}

func completion(tokens int) string {
	return fmt.Sprintf(`{"model":"tiny","prompt":"Once upon a time","max_tokens":%d,"ignore_eos":true,"n":64}`, tokens)
}

// workerStates returns the states of the workers, as ingot workers prints them.
func workerStates(t *testing.T, url string) (states []string) {
	t.Helper()
	r := ingot(t, "", "workers", "--json", "--redis", url)
	require.Equal(t, exitOK, r.code, r.stderr)
	var list []fleet.Worker
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &list))
	for _, w := range list {
		states = append(states, w.State)
	}
	return states
}

// TestServerFindsDeadWorker kills the only worker of a server. The server declares it lost,
// although no other worker runs, and tells its clients to try again. A new worker answers them.
func TestServerFindsDeadWorker(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	worker := startWorker(t, url, "tiny")
	s := startServe(t, "--redis", url)
	require.Equal(t, http.StatusOK, s.try(t, "/readyz", "").status)
	require.Equal(t, http.StatusOK, s.try(t, "/v1/completions", completion(1)).status)

	waiting := make(chan answered, 1)
	go func() { waiting <- s.try(t, "/v1/completions", completion(2000)) }() //nolint:testifylint // an error ends the test through the missing value
	require.Eventually(t, func() bool {
		return !strings.Contains(worker.get(t, "/metrics"), "ingot_engine_running_sequences 0\n")
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, worker.cmd.Process.Kill())
	killed := time.Now()

	got := <-waiting
	t.Logf("the request ended %v after the worker was killed", time.Since(killed).Round(time.Millisecond))
	for _, got := range []answered{got, s.try(t, "/v1/completions", completion(1)), s.try(t, "/v1/models/tiny", "")} {
		require.Equal(t, http.StatusServiceUnavailable, got.status, got.text)
		require.Equal(t, "5", got.header.Get("Retry-After"))
		require.Contains(t, got.text, `no worker serves the model \"tiny\" now`)
	}
	require.Equal(t, http.StatusServiceUnavailable, s.try(t, "/readyz", "").status)
	require.JSONEq(t, `{"object":"list","data":[]}`, s.try(t, "/v1/models", "").text)
	require.Equal(t, []string{"lost"}, workerStates(t, url))

	startWorker(t, url, "tiny")
	require.Eventually(t, func() bool {
		return s.try(t, "/v1/completions", completion(1)).status == http.StatusOK
	}, time.Minute, 10*time.Millisecond)
}

// TestCollectorFindsDeadWorker kills the only worker of a batch while a collector waits for rows.
// The collector declares it lost and returns its rows to the queue.
func TestCollectorFindsDeadWorker(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{{"results", "nightly", "--follow", "-o", filepath.Join(t.TempDir(), "out.jsonl")}, {"status", "nightly", "--watch"}} {
		t.Run(command[0], func(t *testing.T) {
			t.Parallel()
			url := redistest.Start(t).URL
			in := write(t, "in.jsonl", strings.Repeat(`{"prompt":"Once upon a time","max_tokens":2000,"ignore_eos":true,"n":64}`+"\n", 4))
			r := ingot(t, "", "enqueue", in, "--batch", "nightly", "--alias", "tiny", "--redis", url)
			require.Equal(t, exitOK, r.code, r.stderr)
			worker := startWorker(t, url, "tiny")
			status := func() (s fleet.Batch) {
				r := ingot(t, "", "status", "nightly", "--json", "--redis", url)
				require.NoError(t, json.Unmarshal([]byte(r.stdout), &s), r.stderr)
				return s
			}
			require.Eventually(t, func() bool { return status().Running > 0 }, time.Minute, 10*time.Millisecond)
			require.NoError(t, worker.cmd.Process.Kill())
			require.Equal(t, []string{"live"}, workerStates(t, url))
			collector := program(t, append(command, "--redis", url)...)
			collector.Stdout = new(bytes.Buffer)
			require.NoError(t, collector.Start())
			t.Cleanup(func() { collector.Process.Kill() }) //nolint:errcheck // the process may have ended
			require.Eventually(t, func() bool { return strings.Join(workerStates(t, url), "") == "lost" }, time.Minute, 50*time.Millisecond)
			require.Eventually(t, func() bool { return status().Running == 0 }, time.Minute, 50*time.Millisecond, "its rows wait for other workers")
		})
	}
}

// TestStatusOfChats: requests of a server's clients are no batches of users: ingot status does not
// list them, and can show and purge one. The server deletes those that it has answered.
func TestStatusOfChats(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	startWorker(t, redis.URL, "tiny")
	s := startServe(t, "--redis", redis.URL)
	chats := func() (ids []string) {
		keys, err := redis.Client.Keys(t.Context(), "ingot:{live-*}:meta").Result()
		require.NoError(t, err)
		for _, key := range keys {
			ids = append(ids, strings.TrimSuffix(strings.TrimPrefix(key, "ingot:{"), "}:meta"))
		}
		return ids
	}
	require.Equal(t, http.StatusOK, s.try(t, "/v1/completions", completion(1)).status)
	require.Eventually(t, func() bool { return len(chats()) == 0 }, time.Minute, 10*time.Millisecond, "the server deletes what it has answered")

	s.leave(t, completion(2000), func() bool { return len(chats()) == 1 })
	id := chats()[0]
	command := func(args ...string) result { return ingot(t, "", append(args, "--redis", redis.URL)...) }
	require.Eventually(t, func() bool { return strings.Contains(command("status", id).stdout, "cancelled") }, time.Minute, 10*time.Millisecond)
	for _, more := range [][]string{nil, {"--json"}} {
		r := command(append([]string{"status"}, more...)...)
		require.Equal(t, exitOK, r.code)
		require.Empty(t, r.stderr)
		require.NotContains(t, r.stdout, id)
	}
	require.Regexp(t, `(?m)^priority +interactive$`, command("status", id).stdout)
	require.Equal(t, exitOK, command("purge", id).code)
	require.Empty(t, chats())
}

// leave sends a request and leaves before its answer, when begun returns true.
func (s *serveProcess) leave(t *testing.T, body string, begun func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(bounded.Context(t))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/completions", strings.NewReader(body))
	require.NoError(t, err)
	left := make(chan error, 1)
	go func() {
		_, err := http.DefaultClient.Do(r) //nolint:bodyclose // there is no response
		left <- err
	}()
	require.Eventually(t, begun, time.Minute, 10*time.Millisecond)
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
}
