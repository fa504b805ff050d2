package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/internal/bounded"
	"github.com/ingot-run/ingot/queue/redistest"
)

// spoilings are what other programs do to an output while it is written.
var spoilings = map[string]func(path string) error{
	"removed": os.Remove,
	"replaced by another file": func(path string) error {
		if err := os.WriteFile(path+".new", nil, 0o600); err != nil {
			return err
		}
		return os.Rename(path+".new", path)
	},
	"bytes, and": func(path string) error { return os.Truncate(path, 5) },
}

// TestResultsForgetNeedsItsOutput: OUT is spoilt while results follow a batch. Redis must keep all
// results, and the command fails.
func TestResultsForgetNeedsItsOutput(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	redis := withRedis(t, url, "")
	for what, spoil := range spoilings {
		batch := strings.Trim(strings.Fields(what)[0], ",")
		redis(exitOK, "enqueue", write(t, "in.jsonl", "{}\n"+askMarch+"\n"+askFinland+"\n"), "--batch", batch, "--alias", batch)
		out := filepath.Join(t.TempDir(), "out.jsonl")
		cmd := program(t, "results", batch, "--redis", url, "-o", out, "--follow", "--forget")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		require.NoError(t, cmd.Start())
		require.Eventually(t, func() bool { text, _ := os.ReadFile(out); return bytes.Contains(text, []byte("\n")) }, time.Minute, time.Millisecond)
		require.NoError(t, spoil(out))
		w := startWorker(t, url, batch)
		require.Error(t, cmd.Wait(), what)
		require.Equal(t, exitFailure, cmd.ProcessState.ExitCode())
		require.Contains(t, stderr.String(), "another program changed the output: "+out)
		require.Contains(t, stderr.String(), what)
		require.Equal(t, 1, strings.Count(stderr.String(), "another program"), stderr.String())

		again := filepath.Join(t.TempDir(), "again.jsonl")
		redis(exitOK, "results", batch, "-o", again, "--follow")
		require.Len(t, readAnswers(t, readFile(t, again)), 3)
		w.stop(t)
	}
}

// TestForgetNeedsARegularFile: nothing is deleted if OUT cannot keep it.
func TestForgetNeedsARegularFile(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	redis := withRedis(t, url, "")
	redis(exitOK, "enqueue", write(t, "in.jsonl", "{}\n"), "--batch", "b")
	fifo := filepath.Join(t.TempDir(), "fifo.csv")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	for _, out := range [][]string{{os.DevNull}, {os.DevNull, "--output-format", "csv"}, {fifo}, {"-"}} {
		r := redis(exitUsage, append([]string{"results", "b", "--forget", "-o"}, out...)...)
		require.Contains(t, r.stderr, "--forget needs a file as OUT")
	}
	redis(exitOK, "status", "b")
}

// TestRunNeedsItsOutput: OUT is spoilt while a run writes it.
func TestRunNeedsItsOutput(t *testing.T) {
	t.Parallel()
	for what, spoil := range spoilings {
		for _, name := range []string{"out.jsonl", "out.csv.answers.jsonl"} {
			t.Run(what+" "+name, func(t *testing.T) {
				t.Parallel()
				answers := filepath.Join(t.TempDir(), name)
				in := write(t, "in.jsonl", strings.Join(someRows(300), ""))
				cmd := program(t, "run", in, "-o", strings.TrimSuffix(answers, ".answers.jsonl"), "--model", tinyLlama, "--concurrency", "1")
				require.NoError(t, cmd.Start())
				waitForAnswers(t, answers)
				require.NoError(t, spoil(answers))
				require.Error(t, cmd.Wait())
				stderr := cmd.Stderr.(*bytes.Buffer).String()
				require.Equal(t, exitFailure, cmd.ProcessState.ExitCode(), stderr)
				require.Contains(t, stderr, "another program changed the output: "+answers)
				require.Contains(t, stderr, what)
			})
		}
	}
}

// TestRunKeepsAnotherFile: another program makes OUT while the rows of a table are answered.
func TestRunKeepsAnotherFile(t *testing.T) {
	t.Parallel()
	in, out := write(t, "in.csv", questions), filepath.Join(t.TempDir(), "out.csv")
	r := afterAnswer(t, func() { require.NoError(t, os.WriteFile(out, []byte("years of work\n"), 0o600)) }, answering(in, out)...)
	require.Equal(t, exitFailure, r.code, r.stderr)
	require.Contains(t, r.stderr, out+" was made by another program meanwhile")
	require.Equal(t, "years of work\n", readFile(t, out))
	require.NoError(t, os.Remove(out))
	require.Equal(t, exitOK, ingot(t, "", answering(in, out)...).code)
	require.Equal(t, exitOK, ingot(t, "", answering(in, out)...).code)
}

// started starts a run that writes much more than a pipe holds to a pipe that only the test reads.
func started(t *testing.T, out string) (cmd *exec.Cmd, pipe *os.File) {
	t.Helper()
	in := write(t, "in.jsonl", strings.Repeat(`{"prompt":"Hi","max_tokens":1,"metadata":{}}`+"\n", 300))
	cmd = program(t, "run", in, "-o", out, "--model", tinyLlama)
	pipe, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { pipe.Close() })
	cmd.Stdout = w
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	return cmd, pipe
}

// TestAPipeThatIsClosed: the reader of a pipe reads one line, as head -1 does. The program ends.
func TestAPipeThatIsClosed(t *testing.T) {
	t.Parallel()
	for out, end := range map[string]string{"/dev/stdout": "exit status 1", "-": "signal: broken pipe"} {
		cmd, pipe := started(t, out)
		line, err := bufio.NewReaderSize(pipe, 16).ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, line, "batch_req_local-")
		require.NoError(t, pipe.Close())
		require.EqualError(t, cmd.Wait(), end, out)
	}
}

// TestANamedPipe: lines and tables can be written to a named pipe, and nothing is left beside it.
func TestANamedPipe(t *testing.T) {
	t.Parallel()
	in := write(t, "in.jsonl", strings.Join(someRows(3), ""))
	for name, want := range map[string]int{"out.jsonl": 3, "out.csv": 4} {
		folder := t.TempDir()
		fifo := filepath.Join(folder, name)
		require.NoError(t, unix.Mkfifo(fifo, 0o600))
		cmd := program(t, "run", in, "-o", fifo, "--model", tinyLlama)
		require.NoError(t, cmd.Start())
		text, err := bounded.Command(t, "cat", fifo).Output()
		require.NoError(t, err)
		require.NoError(t, cmd.Wait())
		require.Equal(t, want, strings.Count(string(text), "\n"), string(text))
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	}
	cmd := program(t, "run", in, "-o", "/dev/stdout", "--output-format", "csv", "--model", tinyLlama)
	var err error
	cmd.Stdout, err = os.Create(filepath.Join(t.TempDir(), "table.csv"))
	require.NoError(t, err)
	require.NoError(t, cmd.Run(), "stdout is a file")
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	r := ingot(t, "", "run", in, "-o", fifo, "--ordered", "--model", tinyLlama)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "--ordered needs a file as OUT")
}

// TestAFullDiskIsReportedOnce: /dev/full fails each write as a full disk does.
func TestAFullDiskIsReportedOnce(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	url := redistest.Start(t).URL
	in := write(t, "in.jsonl", askMarch+"\n{}\n")
	require.Equal(t, exitOK, ingot(t, "", "enqueue", in, "--redis", url, "--batch", "b").code)
	for _, args := range [][]string{
		{"run", in, "--model", tinyLlama, "-o", "/dev/full"},
		{"run", in, "--model", tinyLlama, "-o", "/dev/full", "--output-format", "csv"},
		{"results", "b", "--redis", url, "-o", "/dev/full"},
		{"results", "b", "--redis", url, "-o", "/dev/full", "--output-format", "csv"},
	} {
		r := ingot(t, "", args...)
		require.Equal(t, exitFailure, r.code, r.stderr)
		require.Equal(t, 1, strings.Count(r.stderr, "no space left on device"), r.stderr)
	}
}

// TestEnqueueFlagsWithoutEffect: flags that an existing batch does not follow are named.
func TestEnqueueFlagsWithoutEffect(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	redis := withRedis(t, url, "")
	in := write(t, "in.jsonl", askMarch+"\n")
	flags := []string{"enqueue", in, "--batch", "b", "--retention", "2h", "--deadline", "3h", "--unknown-fields", "ignore"}
	require.NotContains(t, redis(exitOK, flags...).stderr, "no effect")
	text := redis(exitOK, flags...).stderr
	require.Contains(t, text, "--retention has no effect: batch b exists already, and it keeps its retention\n")
	require.Regexp(t, `--deadline has no effect: batch b exists already, and its deadline stays \d{4}-`, text)
	require.NotContains(t, text, "--unknown-fields has no effect")
	text = redis(exitOK, "enqueue", in, "--batch", "b", "--unknown-fields", "error").stderr
	require.Contains(t, text, "--unknown-fields has no effect: batch b exists already, and all of its rows go to one model name\n")
	require.NotContains(t, text, "--deadline")
	require.NotContains(t, redis(exitOK, "enqueue", in, "--batch", "b", "--weight", "3").stderr, "no effect")
}
