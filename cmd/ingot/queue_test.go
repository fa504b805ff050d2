package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/bounded"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// workerProcess is a worker in its own process.
type workerProcess struct {
	cmd *exec.Cmd
	web string // address of /healthz and /metrics
	log <-chan string
}

// startWorker starts a worker and returns when its web server runs.
func startWorker(t *testing.T, url, alias string, flags ...string) *workerProcess {
	t.Helper()
	cmd := program(t, append([]string{
		"worker", "--redis", url, "--model", tinyLlama, "--name", alias, "--concurrency", "2", "--listen", "127.0.0.1:0",
	}, flags...)...)
	cmd.Stderr = nil
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() }) //nolint:errcheck // the process may have ended
	address := regexp.MustCompile(`address=(\S+)`)
	found, log := make(chan string, 1), make(chan string, 1)
	go func() {
		var all strings.Builder
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintln(&all, lines.Text())
			if m := address.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case found <- m[1]:
				default: // the address is known
				}
			}
		}
		close(found)
		log <- all.String()
	}()
	web := <-found
	if web == "" {
		require.Fail(t, "the worker ended", <-log)
	}
	return &workerProcess{cmd, web, log}
}

// stop ends the worker with SIGTERM. The worker must exit with 0.
func (w *workerProcess) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, w.cmd.Process.Signal(syscall.SIGTERM))
	log := <-w.log
	require.NoError(t, w.cmd.Wait(), log)
	require.Contains(t, log, "msg=stopped")
}

func (w *workerProcess) get(t *testing.T, path string) string {
	t.Helper()
	code, body := w.ask(t, path)
	require.Equal(t, http.StatusOK, code, "%s", body)
	return body
}

// ask returns the HTTP status and the body for a path of the worker's web server.
func (w *workerProcess) ask(t *testing.T, path string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.web+path, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// TestQueue follows a batch from start to end. The batch is queued twice, answered by a worker that
// is stopped midway and by a second worker, and collected twice, the first time with --follow.
func TestQueue(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	const n = 40
	in := write(t, "in.jsonl", strings.Join(someRows(n), "")+"no JSON\n")
	out := filepath.Join(t.TempDir(), "out.jsonl")
	redis := func(args ...string) result {
		t.Helper()
		return ingot(t, "", append(args, "--redis", url)...)
	}
	status := func() queue.Status {
		t.Helper()
		r := redis("status", "nightly", "--json")
		require.Equal(t, exitOK, r.code, r.stderr)
		var s queue.Status
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &s))
		return s
	}

	r := redis("status", "nightly")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "ingot: read status: batch nightly: no such batch")
	r = redis("results", "nightly", "-o", out)
	require.Equal(t, exitFailure, r.code)
	require.NoFileExists(t, out)

	enqueue := []string{"enqueue", in, "--batch", "nightly", "--model-name", "tiny", "--priority", "bulk"}
	r = redis(enqueue...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Equal(t, "nightly\n", r.stdout, "the batch id alone")
	require.Contains(t, r.stderr, "41 rows: 40 queued, 1 cannot be used")
	r = redis(enqueue...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "41 rows: 0 queued, 41 already in the batch")
	s := status()
	require.Equal(t, []any{queue.InProgress, n + 1, 0, 1, "tiny", queue.Bulk}, []any{s.State, s.Total, s.Done, s.Failed, s.Alias, s.Priority})
	require.Regexp(t, `(?m)^rows +41: 0 answered, 1 failed, 0 running, 40 waiting$`, redis("status", "nightly").stdout)

	first := startWorker(t, url, "tiny")
	require.Equal(t, "ok\n", first.get(t, "/healthz"))
	require.Contains(t, first.get(t, "/metrics"), "ingot_")
	require.Eventually(t, func() bool {
		return !strings.Contains(redis("status", "nightly").stdout, " 0 answered")
	}, time.Minute, time.Millisecond)
	first.stop(t)
	r = redis("results", "nightly", "-o", out)
	require.Equal(t, exitOK, r.code, r.stderr)
	some := len(readAnswers(t, readFile(t, out)))
	require.Equal(t, status().Done+1, some)
	if some < n+1 {
		require.Contains(t, r.stderr, ": the batch is not finished\n")
	}

	second := startWorker(t, url, "tiny")
	r = redis("results", "nightly", "-o", out, "--follow")
	second.stop(t)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, fmt.Sprintf("41 rows, %d of them new, 1 failed: the batch is finished\n", n+1-some))
	require.Len(t, readAnswers(t, readFile(t, out)), n+1)
	s = status()
	require.Equal(t, []any{queue.Completed, n, 1, 48 * n}, []any{s.State, s.Done, s.Failed, s.CompletionTokens})

	all := readFile(t, out)
	r = redis("results", "nightly", "-o", out)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Equal(t, all, readFile(t, out))
	r = redis("results", "nightly", "-o", "-")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Equal(t, readAnswers(t, all), readAnswers(t, r.stdout))
}

// TestResultsForget: "ingot results --forget" and "ingot purge" delete a batch that has ended.
func TestResultsForget(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	out := filepath.Join(t.TempDir(), "out.jsonl")
	redis := func(code int, in string, args ...string) string {
		t.Helper()
		r := ingot(t, in, append(args, "--redis", url)...)
		require.Equal(t, code, r.code, r.stderr)
		return r.stderr
	}
	redis(exitOK, askMarch, "enqueue", "-", "--batch", "b")
	require.NotContains(t, redis(exitOK, "", "results", "b", "-o", out, "--forget"), "deleted", "it is not finished")
	require.Contains(t, redis(exitFailure, "", "purge", "b"), "ingot: purge batch b: batch is not finished: cancel it first\n")
	redis(exitOK, "", "cancel", "b")
	require.NotContains(t, redis(exitOK, "", "results", "b", "-o", out, "--forget"), "deleted", "it is cancelled")
	require.Equal(t, "b: deleted\n", redis(exitOK, "", "purge", "b"))
	require.Contains(t, redis(exitFailure, "", "purge", "b"), "no such batch")

	redis(exitOK, "{}\n", "enqueue", "-", "--batch", "c") // its only row is an error
	out = filepath.Join(t.TempDir(), "out.jsonl")
	require.Contains(t, redis(exitUsage, "", "results", "c", "-o", "-", "--forget"), "--forget needs a file")
	require.Contains(t, redis(exitRows, "", "results", "c", "-o", out, "--forget"), "c: deleted from Redis\n")
	require.Equal(t, 1, strings.Count(readFile(t, out), "\n"))
	redis(exitFailure, "", "status", "c")
}

// TestStatusShowsLostRows: status shows rows that Redis has lost, and enqueueing the file again
// queues them.
func TestStatusShowsLostRows(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	in := write(t, "in.jsonl", askMarch+"\n"+askFinland+"\n")
	enqueue := func() string {
		r := ingot(t, "", "enqueue", in, "--redis", server.URL, "--batch", "b")
		require.Equal(t, exitOK, r.code, r.stderr)
		return r.stderr
	}
	status := func() string { return ingot(t, "", "status", "b", "--redis", server.URL).stdout }
	enqueue()
	require.NotContains(t, status(), "lost")
	_, err := asynq.NewInspectorFromRedisClient(server.Client).DeleteAllPendingTasks("default:default")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^lost +2 rows neither recorded nor queued: enqueue the file again with --batch b$`, status())
	require.Contains(t, enqueue(), "2 rows: 2 queued")
	require.NotContains(t, status(), "lost")
}

// TestEnqueueMakesABatchID: without --batch, enqueue makes a new id and prints only that to stdout.
func TestEnqueueMakesABatchID(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	ids := map[string]bool{}
	for range 2 {
		r := ingot(t, askMarch, "enqueue", "-", "--redis", url)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Regexp(t, `^[0-9A-Z]{26}\n$`, r.stdout)
		ids[r.stdout] = true
	}
	require.Len(t, ids, 2)
}

// TestNightly runs docs/nightly.sh twice in the same night, in two cases: without an earlier night,
// and after a night with a higher score. The second run of a night adds no score, and compares with
// the night before.
func TestNightly(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("docs/nightly.sh was not run: install jq")
	}
	url := redistest.Start(t).URL
	dir := t.TempDir()
	self, err := filepath.Abs(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(dir, "ingot")))
	script, err := filepath.Abs("../../docs/nightly.sh")
	require.NoError(t, err)
	questions := write(t, "questions.jsonl", `{"id":"a","answer":"April.",`+askMarch[1:len(askMarch)-len(`,"id":"march"}`)]+"}\n"+
		`{"id":"b","answer":"Paris.",`+askFinland[1:]+"\n")
	startWorker(t, url, queue.DefaultAlias)
	nightly := func() (string, error) {
		cmd := bounded.Command(t, script, questions)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), asProgram+"=1", "INGOT_REDIS="+url, "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	scores := filepath.Join(dir, "scores")
	tonight := regexp.MustCompile(`^nightly-[\d-]+ 0\.5\n$`)
	for range 2 {
		out, err := nightly()
		require.NoError(t, err, out)
		require.Regexp(t, tonight, readFile(t, scores))
	}
	const before = "nightly-1 0.3\nnightly-2 0.9\n"
	require.NoError(t, os.WriteFile(scores, []byte(before), 0o600))
	for range 2 { // the second run too compares with nightly-2, not with the first run
		out, err := nightly()
		require.Error(t, err)
		require.Contains(t, out, ": the score is 0.5, after 0.9\n")
		earlier, last := readFile(t, scores)[:len(before)], readFile(t, scores)[len(before):]
		require.Equal(t, before, earlier)
		require.Regexp(t, tonight, last)
	}
}

// TestCancel lists and cancels a batch that no worker serves.
func TestCancel(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	redis := withRedis(t, url, "")
	out := filepath.Join(t.TempDir(), "out.jsonl")
	require.Equal(t, 1, strings.Count(redis(exitOK, "status").stdout, "\n"), "a heading")
	require.Equal(t, "[]\n", redis(exitOK, "status", "--json").stdout)
	redis(exitOK, "enqueue", write(t, "in.jsonl", askMarch+"\nno JSON\n"), "--batch", "nightly", "--model-name", "tinny")
	require.Regexp(t, `(?m)^nightly  in_progress  2     0         1       tinny +default +\d`, redis(exitOK, "status").stdout)
	require.Regexp(t, `(?m)^workers +none serves model name "tinny" now$`, redis(exitOK, "status", "nightly").stdout)

	r := redis(exitOK, "cancel", "nightly")
	require.Equal(t, "nightly: cancelled, with 0 answered and 1 failed\n", r.stderr)
	require.Empty(t, r.stdout)
	text := redis(exitOK, "status", "nightly").stdout
	require.Regexp(t, `(?m)^state +cancelled$`, text)
	require.Regexp(t, `(?m)^rows +0 answered, 1 failed, the rest cancelled$`, text)
	require.Regexp(t, `(?m)^kept until `, text)
	require.NotContains(t, text, "workers")
	var all []queue.Status
	require.NoError(t, json.Unmarshal([]byte(redis(exitOK, "status", "--json").stdout), &all))
	require.Len(t, all, 1)
	require.Equal(t, queue.Cancelled, all[0].State)

	r = redis(exitOK, "results", "nightly", "-o", out)
	require.Contains(t, r.stderr, "1 row, 1 failed: the batch is cancelled, and there are no more\n")
	r = redis(exitFailure, "results", "nightly", "-o", out, "--follow")
	require.Contains(t, r.stderr, "ingot: read results of nightly: batch is cancelled: "+out+" has the rows that ended before; to answer the others, enqueue the file as another batch\n")
	r = redis(exitFailure, "results", "nightly", "-o", out+".csv", "--follow")
	require.Contains(t, r.stderr, "batch is cancelled: to make "+out+".csv of the rows that ended before, run the same command without --follow\n")
	require.NoFileExists(t, out+".csv")
	redis(exitOK, "results", "nightly", "-o", out+".csv")
	require.Len(t, readCSV(t, out+".csv"), 1)
	r = redis(exitFailure, "retry", "nightly")
	require.Contains(t, r.stderr, "ingot: retry nightly: batch is cancelled, so its rows are not answered: enqueue the file as another batch\n")
	require.Equal(t, 1, strings.Count(readFile(t, out), "\n"))
	r = redis(exitFailure, "cancel", "weekly")
	require.Contains(t, r.stderr, "ingot: cancel: batch weekly: no such batch: it was never queued here")
	require.Equal(t, exitUsage, ingot(t, "", "cancel", "a b", "--redis", url).code)
	require.Equal(t, exitUsage, ingot(t, "", "cancel", "--redis", url).code)
}

// TestResultsOfAnotherFileAreRefused: an output of one input file is not continued with another
// file's answers, even if the batch ids are equal.
func TestResultsOfAnotherFileAreRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	out := filepath.Join(t.TempDir(), "out.jsonl")
	results := func(file string) result {
		t.Helper()
		require.NoError(t, server.Client.FlushAll(t.Context()).Err())
		r := ingot(t, file, "enqueue", "-", "--redis", server.URL, "--batch", "b")
		require.Equal(t, exitOK, r.code, r.stderr)
		return ingot(t, "", "results", "b", "--redis", server.URL, "-o", out)
	}
	// Rows that cannot be used get their results from enqueue, without a worker.
	require.Equal(t, exitRows, results("{}\n{\"a\":1}\n").code)
	before := readFile(t, out)
	require.Equal(t, 2, strings.Count(before, "\n"))
	require.Equal(t, exitRows, results("{}\n{\"a\":1}\n").code, "the same file")
	r := results("{}\n{\"a\":2}\n")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "made from a different input file than batch b: line 2 differs; choose another output")
	require.Equal(t, before, readFile(t, out))
	r = results("{}\n")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "made from a different input file than batch b: the batch lacks 1 row of the output; choose another output")
	require.Equal(t, before, readFile(t, out))
}

// TestUnknownFieldsAreErrors: unknown fields are errors, and rows go to the models that they name.
// --unknown-fields ignore accepts such rows and sends all to one model.
func TestUnknownFieldsAreErrors(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	in := write(t, "in.jsonl", strings.Join([]string{
		askMarch, `{"prompt":"a","images":["x"]}`, `{"prompt":"b","model":"gpt 4"}`, `{"prompt":"c","model":"glm"}`, `{"prompt":"d","model":"gpt-4"}`, "",
	}, "\n"))
	enqueue := []string{"enqueue", in, "--redis", url, "--model-name", "glm"}
	r := ingot(t, "", append(enqueue, "--batch", "strict")...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "5 rows: 3 queued, 2 cannot be used")
	require.Contains(t, r.stderr, "\nrows by model name: glm 2, gpt-4 1\n")
	require.Contains(t, r.stderr, `no worker serves model name "glm": its rows (2) wait for one`+"\n")
	require.Contains(t, r.stderr, `no worker serves model name "gpt-4": its rows (1) wait for one. To send all rows to "glm", cancel the batch`)
	errs := ingot(t, "", "results", "strict", "--redis", url, "-o", "-").stdout
	require.Contains(t, errs, `line 2: \"images\" is not supported: only text can be used`)
	require.Contains(t, errs, `line 3: \"gpt 4\" is not a valid model name: use 1 to 128 letters`)
	r = ingot(t, "", append(enqueue, "--batch", "lax", "--unknown-fields", "ignore")...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "5 rows: 5 queued\nno worker serves model name \"glm\": the rows wait for one\n")
	r = ingot(t, "", append(enqueue, "--unknown-fields", "drop")...)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, `--unknown-fields: "drop" is not known: use error or ignore`)
}

// TestResultsKeepADamagedBatch: a batch stays in Redis while the output lacks any of its results.
func TestResultsKeepADamagedBatch(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	out := filepath.Join(t.TempDir(), "out.jsonl")
	// Rows that cannot be used get their results from enqueue, without a worker.
	r := ingot(t, "{}\n{\"a\":1}\n", "enqueue", "-", "--redis", server.URL, "--batch", "b")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.NoError(t, server.Client.HSet(t.Context(), "ingot:{b}:results", "2", "{\"id\":\"\x1b[31m\"}").Err())
	results := []string{"results", "b", "--redis", server.URL, "-o", out, "--forget", "--fail-on-error=100%"}
	r = ingot(t, "", results...)
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "batch b: Redis holds 1 result that cannot be read, so "+out+" is incomplete; the first is the result of line 2: ")
	require.NotContains(t, r.stderr, "\x1b")
	require.Equal(t, 1, strings.Count(readFile(t, out), "\n"))
	require.Equal(t, exitOK, ingot(t, "", "status", "b", "--redis", server.URL).code)

	r = ingot(t, "", "results", "b", "--redis", server.URL, "-o", filepath.Join(t.TempDir(), "elsewhere.jsonl"))
	require.Equal(t, exitFailure, r.code)
	require.NoError(t, server.Client.HDel(t.Context(), "ingot:{b}:results", "2").Err())
	r = ingot(t, "", "results", "b", "--redis", server.URL, "-o", filepath.Join(t.TempDir(), "elsewhere.jsonl"))
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, " lacks 1 row that an earlier collection with --forget wrote to another output and deleted from Redis")
}

// TestStatusSkipsWhatIsNoBatch: a damaged batch does not hide the others, and its name is escaped
// on the terminal.
func TestStatusSkipsWhatIsNoBatch(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	require.Equal(t, exitOK, ingot(t, "{}\n", "enqueue", "-", "--redis", server.URL, "--batch", "b").code)
	require.NoError(t, server.Client.Set(t.Context(), "ingot:{\x1b[31mred}:meta", "x", 0).Err())
	for _, more := range [][]string{nil, {"--json"}} {
		r := ingot(t, "", append([]string{"status", "--redis", server.URL}, more...)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Contains(t, r.stdout, "completed")
		require.Contains(t, r.stderr, `skipped batch "\x1b[31mred": it is damaged, or was not made by ingot`)
		require.NotContains(t, r.stdout+r.stderr, "\x1b")
	}
}
