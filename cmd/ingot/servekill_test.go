package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue/redistest"
)

// serveProcess is a server in its own process.
type serveProcess struct {
	cmd *exec.Cmd
	url string
}

// startServe starts a server and returns when it accepts requests.
func startServe(t *testing.T, flags ...string) *serveProcess {
	t.Helper()
	cmd := program(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, flags...)...)
	cmd.Stderr = nil
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() }) //nolint:errcheck // the process may have ended
	address := regexp.MustCompile(`msg="serving OpenAI's API".* address=(\S+)`)
	var log strings.Builder
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		fmt.Fprintln(&log, lines.Text())
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			go io.Copy(io.Discard, stderr) //nolint:errcheck // ends with the process
			return &serveProcess{cmd, "http://" + m[1]}
		}
	}
	require.Fail(t, "the server ended", log.String())
	return nil
}

func (s *serveProcess) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Kill())
	require.ErrorContains(t, s.cmd.Wait(), "killed")
}

// send sends a request and returns the response's body. The request must succeed.
func (s *serveProcess) send(t *testing.T, method, path, kind string, body io.Reader) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, body)
	require.NoError(t, err)
	r.Header.Set("Content-Type", kind)
	got, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.StatusCode, "%s", text)
	return text
}

// servedBatch has the parts of OpenAI's batch object that the tests use.
type servedBatch struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Output string `json:"output_file_id"`
	Errors string `json:"error_file_id"`
	Counts struct {
		Total     int `json:"total"`
		Completed int `json:"completed"`
		Failed    int `json:"failed"`
	} `json:"request_counts"`
}

// createBatch uploads rows and creates a batch of them.
func (s *serveProcess) createBatch(t *testing.T, rows string) (b servedBatch) {
	t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	file, err := w.CreateFormFile("file", "rows.jsonl")
	require.NoError(t, err)
	_, err = io.WriteString(file, rows)
	require.NoError(t, err)
	require.NoError(t, w.WriteField("purpose", "batch"))
	require.NoError(t, w.Close())
	var f struct {
		ID string `json:"id"`
	}
	require.NoError(t, json.Unmarshal(s.send(t, http.MethodPost, "/v1/files", w.FormDataContentType(), &form), &f))
	body := fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/completions","completion_window":"24h"}`, f.ID)
	require.NoError(t, json.Unmarshal(s.send(t, http.MethodPost, "/v1/batches", "application/json", strings.NewReader(body)), &b))
	return b
}

// await polls a batch until the given number of rows are finished, or, for 0, until the batch has
// ended.
func (s *serveProcess) await(t *testing.T, id string, rows int) (b servedBatch) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		require.NoError(t, json.Unmarshal(s.send(t, http.MethodGet, "/v1/batches/"+id, "", nil), &b))
		done := b.Counts.Completed + b.Counts.Failed
		if b.Status == "completed" || rows > 0 && done >= rows {
			return b
		}
		require.Contains(t, []string{"validating", "in_progress", "finalizing"}, b.Status)
	}
}

func (s *serveProcess) customIDs(t *testing.T, file string) (ids []string) {
	t.Helper()
	for line := range bytes.Lines(s.send(t, http.MethodGet, "/v1/files/"+file+"/content", "", nil)) {
		var l struct {
			CustomID string `json:"custom_id"`
		}
		require.NoError(t, json.Unmarshal(line, &l), "%s", line)
		ids = append(ids, l.CustomID)
	}
	return ids
}

// TestServeSurvivesKills kills a server while it runs a batch and starts it again. At the end, each
// row is in the output or the error file exactly once.
func TestServeSurvivesKills(t *testing.T) {
	t.Parallel()
	surviveKills(t, "--model", "tiny="+tinyLlama, "--concurrency", "4")
}

// TestFrontSurvivesKills kills a server in front of two workers, which keep running, in the same
// way.
func TestFrontSurvivesKills(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	for range 2 {
		startWorker(t, url, "tiny")
	}
	surviveKills(t, "--redis", url)
	require.NotContains(t, ingot(t, "", "status", "--redis", url).stdout, "batch_", "nothing is left in the queue")
}

// surviveKills kills a server during a batch. With INGOT_LONG=1, the batch has 5,000 rows and the
// server is killed ten times.
func surviveKills(t *testing.T, flags ...string) {
	t.Helper()
	n, kills := 120, 2
	if os.Getenv("INGOT_LONG") != "" {
		n, kills = 5000, 10
	}
	var rows strings.Builder
	for i := range n {
		body := fmt.Sprintf(`{"model":"tiny","prompt":"Story %d: once upon a time","max_tokens":12,"ignore_eos":true}`, i)
		if i%20 == 0 {
			body = `{"model":"tiny","prompt":"x","temperature":5}`
		}
		fmt.Fprintf(&rows, `{"custom_id":"row-%d","method":"POST","url":"/v1/completions","body":%s}`+"\n", i, body)
	}
	flags = append(flags, "--data", t.TempDir())
	s := startServe(t, flags...)
	b := s.createBatch(t, rows.String())
	started := time.Now()
	for i := range kills {
		at := s.await(t, b.ID, (i+1)*n/(kills+2))
		s.kill(t)
		t.Logf("killed %v after the start, %s, with %d rows completed and %d failed", time.Since(started).Round(time.Millisecond),
			at.Status, at.Counts.Completed, at.Counts.Failed)
		s = startServe(t, flags...)
	}
	b = s.await(t, b.ID, 0)
	t.Logf("completed %v after the start", time.Since(started).Round(time.Millisecond))
	answered, failed := s.customIDs(t, b.Output), s.customIDs(t, b.Errors)
	t.Logf("%d lines in the output file, %d in the error file", len(answered), len(failed))
	require.Len(t, failed, (n+19)/20)
	require.Equal(t, []int{n, len(answered), len(failed)}, []int{b.Counts.Total, b.Counts.Completed, b.Counts.Failed})
	distinct := map[string]bool{}
	for _, id := range append(answered, failed...) {
		distinct[id] = true
	}
	require.Len(t, distinct, n)
	require.Equal(t, n, len(answered)+len(failed))
}
