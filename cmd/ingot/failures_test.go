package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/bounded"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

const badRow = `{"no":"prompt"}` + "\n"

// TestRunFailsWithItsRows checks the exit code and message of runs whose rows failed.
func TestRunFailsWithItsRows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in, flag string
		code     int
		message  string
	}{
		"no row failed":           {askMarch, "--fail-on-error", exitOK, ""},
		"no rows":                 {"", "--fail-on-error", exitOK, ""},
		"the only row failed":     {badRow, "", exitRows, "ingot: the only row failed\n"},
		"every row failed":        {badRow + badRow, "", exitRows, "ingot: all 2 rows failed\n"},
		"every row may fail":      {badRow + badRow, "--fail-on-error=100%", exitOK, ""},
		"most rows failed":        {askMarch + "\n" + badRow + badRow, "", exitRows, "ingot: 2 of 3 rows failed, more than half\n"},
		"a row failed":            {askMarch + "\n" + badRow, "", exitOK, ""},
		"none may fail":           {askMarch + "\n" + badRow, "--fail-on-error", exitRows, "ingot: 1 of 2 rows failed, more than 0%\n"},
		"half of them may fail":   {askMarch + "\n" + badRow, "--fail-on-error=50%", exitOK, ""},
		"less of them may fail":   {askMarch + "\n" + badRow, "--fail-on-error=49.5%", exitRows, "ingot: 1 of 2 rows failed, more than 49.5%\n"},
		"a share without percent": {askMarch, "--fail-on-error=0.5", exitUsage, `"0.5" is not a percentage from 0% to 100%`},
		"more than all":           {askMarch, "--fail-on-error=101%", exitUsage, `"101%" is not a percentage from 0% to 100%`},
		"not a number":            {askMarch, "--fail-on-error=NaN%", exitUsage, "is not a percentage"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"run", "-", "-o", filepath.Join(t.TempDir(), "out"), "--model", tinyLlama}
			if c.flag != "" {
				args = append(args, c.flag)
			}
			for range 2 { // the second run finds all rows in the output
				r := ingot(t, c.in, args...)
				require.Equal(t, c.code, r.code, r.stderr)
				require.Contains(t, r.stderr, c.message)
			}
		})
	}
}

// TestEvalRunFailsWithItsRows checks that an evaluation without a single score fails, and that its
// table has the task with the number of rows.
func TestEvalRunFailsWithItsRows(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "task.yaml")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "rows.jsonl"), []byte("{\"a\":\"b\"}\n{\"a\":\"c\"}\n"), 0o600))
	require.NoError(t, os.WriteFile(path, []byte("task: none\ndata: rows.jsonl\ndoc_to_text: '{{ \"\" }}'\ndoc_to_target: a\n"), 0o600))
	for range 2 { // the second run finds all rows in the directory
		r := ingot(t, "", "eval", "run", path, "-o", filepath.Join(folder, "run"), "--model", tinyLlama)
		require.Equal(t, exitRows, r.code, r.stderr)
		require.Contains(t, r.stderr, "all 2 rows failed; row 1: bad_request: line 1: the prompt is empty\n")
		require.Regexp(t, `(?m)^none +0 +2 +0$`, r.stdout)
	}
}

// TestEvalRunOfAnotherModel checks that the error of a run that another model began names flags
// which the command has.
func TestEvalRunOfAnotherModel(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "run")
	task := quiz(t)
	require.Equal(t, exitOK, ingot(t, "", "eval", "run", task, "-o", folder, "--model", tinyLlama, "--limit", "1").code)
	r := ingot(t, "", "eval", "run", task, "-o", folder, "--model", tinyGLM, "--limit", "1")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "answers of another model, or of other settings")
	require.Contains(t, r.stderr, "give an empty directory")
	require.NotContains(t, r.stderr, "--mix-models")
}

// TestAFailedWriteIsAFailure checks that an error of writing is reported even if every row failed
// as well.
func TestAFailedWriteIsAFailure(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	code := run(bounded.Context(t), []string{"run", "-", "-o", "-", "--model", tinyLlama}, strings.NewReader(badRow), full{}, &stderr)
	require.Equal(t, exitFailure, code, stderr.String())
}

// TestResultsFailWithTheirRows: "ingot results" fails if too many rows of a finished batch failed.
func TestResultsFailWithTheirRows(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	results := func(in, batch string, flags ...string) result {
		r := ingot(t, in, "enqueue", "-", "--redis", url, "--batch", batch)
		require.Equal(t, exitOK, r.code, r.stderr)
		return ingot(t, "", append([]string{"results", batch, "--redis", url, "-o", "-"}, flags...)...)
	}
	r := results(badRow+askMarch, "unfinished", "--fail-on-error")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "1 row, 1 failed: the batch is not finished\nerrors: missing_field 1 (line 1: has neither ")

	r = results(badRow+"{\n", "b", "--follow")
	require.Equal(t, exitRows, r.code)
	require.Regexp(t, `^2 rows, 2 failed: the batch is finished\n`+
		`0 prompt tokens, 0 generated tokens in 0s: 0\.0 rows/s, 0\.0 tokens/s\n`+
		`errors: invalid_json 1 \(line 2: .*\)\nerrors: missing_field 1 \(line 1: .*\)\n`+
		`ingot: all 2 rows failed\n$`, r.stderr)
	require.Equal(t, 2, strings.Count(r.stdout, "\n"))
	require.Equal(t, exitOK, results(badRow+"{\n", "b", "--fail-on-error=100%").code)
}

// TestStatusWatch: status --watch returns when the batch has ended.
func TestStatusWatch(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := ingot(t, askMarch, "enqueue", "-", "--redis", server.URL, "--batch", "b")
	require.Equal(t, exitOK, r.code, r.stderr)
	watch := []string{"status", "b", "--redis", server.URL, "--watch"}

	ctx, interrupt := context.WithCancel(bounded.Context(t))
	ended := make(chan result, 1)
	follow := func(ctx context.Context) {
		var stdout, stderr bytes.Buffer
		code := run(ctx, watch, strings.NewReader(""), &stdout, &stderr)
		ended <- result{code, stdout.String(), stderr.String()}
	}
	go follow(ctx)
	interrupt()
	r = <-ended
	require.Equal(t, exitFailure, r.code)

	go follow(bounded.Context(t))
	select {
	case r = <-ended:
		require.Fail(t, "the batch has not ended", "%+v", r)
	case <-time.After(10 * time.Millisecond):
	}
	_, err := redisqueue.New(server.Client).Cancel(t.Context(), "b")
	require.NoError(t, err)
	r = <-ended
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `(?m)^state +cancelled$`, r.stdout)
	require.Equal(t, exitUsage, ingot(t, "", "status", "--watch", "--redis", server.URL).code)
}
