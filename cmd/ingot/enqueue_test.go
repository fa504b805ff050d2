package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/bounded"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// TestEnqueueStopsOnInterrupt: an interrupt ends enqueue even while it waits for rows on stdin. No
// row is queued then.
func TestEnqueueStopsOnInterrupt(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	ctx, interrupt := context.WithCancel(bounded.Context(t))
	defer interrupt()
	stdin, rows := io.Pipe()
	var stdout, stderr bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"enqueue", "-", "--redis", url, "--batch", "b"}, stdin, &stdout, &stderr)
	}()
	_, err := fmt.Fprintln(rows, askMarch) // returns when enqueue has read the row
	require.NoError(t, err)
	interrupt()
	require.Equal(t, exitFailure, <-code)
	require.Empty(t, stdout.String())
	require.Contains(t, stderr.String(), "ingot: enqueue -: stopped before a row was queued\n")
	require.Equal(t, exitFailure, ingot(t, "", "status", "b", "--redis", url).code, "there is no batch")
}

// TestEnqueueErrorsNameTheBatch: an error names the batch's id, without which a partly queued batch
// could not be completed. Redis may refuse any of the writes, since the number of rows that fit
// into its memory depends on its version.
func TestEnqueueErrorsNameTheBatch(t *testing.T) {
	t.Parallel()
	row := strings.Replace(askMarch, `"id":"march"`, `"user":"`+strings.Repeat("x", 16<<10)+`"`, 1) + "\n"
	in := write(t, "in.jsonl", strings.Repeat(row, 200))
	for _, room := range []int{0, 64 << 10, 1 << 20} {
		server := redistest.Start(t)
		used, err := server.Client.InfoMap(t.Context(), "memory").Result()
		require.NoError(t, err)
		bytes, err := strconv.Atoi(used["Memory"]["used_memory"])
		require.NoError(t, err)
		require.NoError(t, server.Client.ConfigSet(t.Context(), "maxmemory", strconv.Itoa(bytes+room)).Err())
		r := ingot(t, "", "enqueue", in, "--redis", server.URL)
		require.Equal(t, exitFailure, r.code)
		require.Empty(t, r.stdout)
		require.Regexp(t, `ingot: enqueue \S+: (create|queue rows from line \d+ of) batch \w+: OOM .* \(run the same command with --batch \w+ to queue the remaining rows\)\n$`, r.stderr)
		batch := regexp.MustCompile(`batch (\w+):`).FindStringSubmatch(r.stderr)[1]
		require.Contains(t, r.stderr, "--batch "+batch+" ")

		require.NoError(t, server.Client.ConfigSet(t.Context(), "maxmemory", "0").Err())
		r = ingot(t, "", "enqueue", in, "--redis", server.URL, "--batch", batch)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Contains(t, r.stderr, "200 rows: ")
	}
}

// TestEnqueueRefusesAnotherFile: a batch accepts rows of one file only.
func TestEnqueueRefusesAnotherFile(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	for i, in := range []string{write(t, "a.jsonl", askMarch), write(t, "b.jsonl", askFinland)} {
		r := ingot(t, "", "enqueue", in, "--redis", url, "--batch", "b")
		if i == 0 {
			require.Equal(t, exitOK, r.code, r.stderr)
			continue
		}
		require.Equal(t, exitFailure, r.code)
		require.Empty(t, r.stdout)
		require.Contains(t, r.stderr, "give another batch id")
	}
}

// TestEnqueueSetsRetentionAndWeight: the retention counts from the end of the batch, and a later
// enqueue can change the weight.
func TestEnqueueSetsRetentionAndWeight(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	in := write(t, "in.jsonl", askMarch)
	redis := withRedis(t, url, "")
	status := func() (s queue.Status) {
		t.Helper()
		require.NoError(t, json.Unmarshal([]byte(redis(exitOK, "status", "b", "--json").stdout), &s))
		return s
	}
	redis(exitOK, "enqueue", in, "--batch", "b", "--retention", "36h")
	require.Nil(t, status().Expires, "it has not ended")
	require.Equal(t, 1, status().Weight)
	redis(exitOK, "enqueue", in, "--batch", "b", "--weight", "7")
	require.Equal(t, 7, status().Weight)
	require.Regexp(t, `(?m)^priority +default, weight 7$`, redis(exitOK, "status", "b").stdout)
	redis(exitOK, "enqueue", in, "--batch", "b")
	require.Equal(t, 7, status().Weight)
	ended := time.Now()
	redis(exitOK, "cancel", "b")
	require.WithinRange(t, *status().Expires, ended.Add(36*time.Hour-time.Minute), time.Now().Add(36*time.Hour+time.Minute))
	for flag, values := range map[string][]string{"--weight": {"0", "-1", "1001", "x"}, "--retention": {"0", "1ms", "1000000h", "x"}} {
		for _, v := range values {
			require.Contains(t, redis(exitUsage, "enqueue", in, flag, v).stderr, flag)
		}
	}
}
