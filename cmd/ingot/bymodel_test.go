package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue/fleet"
	"github.com/ingot-run/ingot/queue/redistest"
)

// TestBatchOfSeveralModels follows a batch whose rows name models. Two workers with different
// models answer it, and nobody serves a third name. One of the names is paused for a while, and a
// row fails and is queued again.
func TestBatchOfSeveralModels(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	redis := withRedis(t, server.URL, "")
	status := func() (s fleet.Batch) {
		t.Helper()
		require.NoError(t, json.Unmarshal([]byte(redis(exitOK, "status", "b", "--json").stdout), &s))
		return s
	}
	answered := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { s := status(); return s.Done+s.Failed >= n }, time.Minute, 10*time.Millisecond)
		require.Equal(t, n, status().Done+status().Failed)
	}
	var lines []string
	for i := range 12 {
		model := []string{"", `,"model":"llama"`, `,"model":"glm"`}[i%3]
		lines = append(lines, fmt.Sprintf(`{"custom_id":"r%d","prompt":"Tell me about %d toads.","max_tokens":4,"temperature":0%s}`, i, i, model))
	}
	long := strings.Repeat("Which month comes after March? ", 40)
	lines = append(lines, `{"custom_id":"long","prompt":"`+long+`","max_tokens":2,"model":"glm"}`, `{"custom_id":"lone","prompt":"a","model":"nobody"}`)
	in := write(t, "in.jsonl", strings.Join(lines, "\n"))
	enqueue := []string{"enqueue", in, "--batch", "b", "--model-name", "llama", "--priority", "bulk"}

	const counts = "rows by model name: glm 5, llama 8, nobody 1\n"
	r := redis(exitOK, append(enqueue, "--dry-run", "100")...)
	require.Equal(t, counts, r.stderr)
	require.Equal(t, 14, strings.Count(r.stdout, "\n"))
	r = redis(exitOK, enqueue...)
	require.Contains(t, r.stderr, "14 rows: 14 queued\n"+counts)
	for _, warning := range []string{`"glm": its rows (5) wait`, `"llama": its rows (8) wait`, `"nobody": its rows (1) wait`} {
		require.Contains(t, r.stderr, "no worker serves model name "+warning)
	}
	text := redis(exitOK, "status", "b").stdout
	require.Regexp(t, `(?m)^model name +glm, llama, nobody$`, text)
	require.Equal(t, 3, strings.Count(text, "none serves model name"))
	require.Regexp(t, `(?m)^b +in_progress +14 +0 +0 +glm,llama,nobody +bulk`, redis(exitOK, "status").stdout)

	redis(exitOK, "pause", "glm")
	glm := startWorker(t, server.URL, "glm", "--model", tinyGLM, "--context", "64")
	startWorker(t, server.URL, "llama", "--model", tinyLlama)
	answered(8)
	text = redis(exitOK, "status", "b").stdout
	require.Regexp(t, `(?m)^workers +1 with model name "llama"$`, text)
	require.Regexp(t, `(?m)^paused +no rows of model name "glm" are taken: ingot resume glm$`, text)
	redis(exitOK, "resume", "glm")
	answered(13)
	require.Equal(t, 1, status().Failed)
	require.Contains(t, redis(exitOK, enqueue...).stderr, "14 rows: 0 queued, 14 already in the batch\n"+counts)

	glm.stop(t)
	require.Equal(t, "b: 1 row queued again\n", redis(exitOK, "retry", "b").stderr)
	startWorker(t, server.URL, "glm", "--model", tinyGLM)
	answered(13)
	require.Zero(t, status().Failed)
	var names, pins []string
	for _, m := range status().Models {
		names, pins = append(names, m.Alias), append(pins, m.Pin)
	}
	require.Equal(t, []string{"glm", "llama", "nobody"}, names)
	require.NotEmpty(t, pins[0])
	require.NotEmpty(t, pins[1])
	require.NotEqual(t, pins[0], pins[1])
	require.Empty(t, pins[2])

	out := filepath.Join(t.TempDir(), "out.csv")
	redis(exitOK, "cancel", "b")
	require.Contains(t, redis(exitOK, "results", "b", "-o", out, "--input", in, "--column-prefix", "a_").stderr, "13 rows: the batch is cancelled")
	all := readAnswers(t, readFile(t, out+".answers.jsonl"))
	require.Len(t, all, 13)
	for id, a := range all {
		want := "tiny-llama"
		if slices.Contains([]string{"r2", "r5", "r8", "r11", "long"}, id) {
			want = "tiny-glm"
		}
		require.Equal(t, want, a.Stats.Model, id)
	}
	redis(exitOK, "purge", "b")
	for _, left := range []string{"asynq:*:t:*", "ingot:*:waiting:b", "ingot:{b}:*"} {
		require.Empty(t, server.Client.Keys(t.Context(), left).Val())
	}
}

// TestLostRowsOfSeveralModels: rows that Redis has lost are queued again for the models that they
// name.
func TestLostRowsOfSeveralModels(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	in := write(t, "in.jsonl", `{"prompt":"a"}`+"\n"+`{"prompt":"b","model":"glm"}`+"\n")
	redis := withRedis(t, server.URL, "")
	redis(exitOK, "enqueue", in, "--batch", "b")
	inspector := asynq.NewInspectorFromRedisClient(server.Client)
	for _, queue := range []string{"default:default", "glm:default"} {
		require.NotContains(t, redis(exitOK, "status", "b").stdout, "lost")
		_, err := inspector.DeleteAllPendingTasks(queue)
		require.NoError(t, err)
	}
	require.Regexp(t, `(?m)^lost +2 rows `, redis(exitOK, "status", "b").stdout)
	require.Contains(t, redis(exitOK, "enqueue", in, "--batch", "b").stderr, "2 rows: 2 queued\n")
	require.NotContains(t, redis(exitOK, "status", "b").stdout, "lost")

	// Without --unknown-fields ignore or with it, an existing batch is continued as it was created.
	require.Contains(t, redis(exitOK, "enqueue", in, "--batch", "b", "--unknown-fields", "ignore").stderr, "2 rows: 0 queued, 2 already in the batch\n")
	redis(exitOK, "enqueue", in, "--batch", "c", "--unknown-fields", "ignore")
	require.Contains(t, redis(exitOK, "enqueue", in, "--batch", "c").stderr, "2 rows: 0 queued, 2 already in the batch\n")
	require.Regexp(t, `(?m)^model name +default$`, redis(exitOK, "status", "c").stdout)
}
