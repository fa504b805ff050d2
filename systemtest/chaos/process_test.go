package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/bounded"
)

// newTestProcess returns a process that runs a shell script.
func newTestProcess(t *testing.T, script string) *process {
	t.Helper()
	return &process{
		name: "p", command: []string{"sh", "-c", script}, dir: t.TempDir(), journal: newJournal(io.Discard),
		storm: t.Context(), done: make(chan struct{}),
	}
}

// lines waits until the process has logged n lines.
func lines(t *testing.T, p *process, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(p.log())
		return err == nil && strings.Count(string(text), "\n") >= n
	}, time.Minute, time.Millisecond)
}

func start(t *testing.T, p *process) (end func() error) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- p.run(bounded.Context(t)) }()
	return func() error {
		p.retire(t.Context())
		return <-ended
	}
}

func TestProcessStartsAgain(t *testing.T) {
	p := newTestProcess(t, "trap 'exit 0' TERM; echo started; while :; do sleep 0.01; done")
	end := start(t, p)
	lines(t, p, 1)
	require.True(t, p.kill(0))
	lines(t, p, 2)
	require.True(t, p.drain(t.Context(), 0))
	require.False(t, p.drain(t.Context(), 0), "a process that is ending is not drained again")
	lines(t, p, 3)
	undo, ok := p.stop()
	require.True(t, ok)
	undo()
	require.NoError(t, end())
	require.NoError(t, p.journal.faults())
	starts, drains := p.history()
	require.Equal(t, 3, starts)
	require.Len(t, drains, 2)
	require.False(t, p.kill(0), "a process that has ended is not killed")
}

func TestProcessRunsOnce(t *testing.T) {
	again := filepath.Join(t.TempDir(), "again")
	p := newTestProcess(t, "if test -e "+again+"; then exit 0; fi; touch "+again+"; exit 1")
	p.once = true
	require.NoError(t, p.run(bounded.Context(t)))
	starts, _ := p.history()
	require.Equal(t, 2, starts)
	require.NoError(t, p.journal.faults())
}

// A process may fail shortly after its start, if it cannot reach Redis, and may end after a signal
// of chaos. Any other end is a fault.
func TestProcessEnds(t *testing.T) {
	failure := errors.New("exit status 1")
	for _, c := range []struct {
		name   string
		once   bool
		age    time.Duration
		ending syscall.Signal
		err    error
		fault  string // empty for none
	}{
		{"killed", false, time.Hour, syscall.SIGKILL, failure, ""},
		{"drained", false, time.Hour, syscall.SIGTERM, nil, ""},
		{"fails when it is drained", false, time.Hour, syscall.SIGTERM, failure, "after SIGTERM with exit status 1"},
		{"fails at its start", false, time.Second, 0, failure, ""},
		{"fails later", false, time.Hour, 0, failure, "ended by itself after 1h0m0s with exit status 1"},
		{"ends without a signal", false, time.Second, 0, nil, "ended by itself"},
		{"command succeeds", true, time.Hour, 0, nil, ""},
		{"command fails later", true, time.Hour, 0, failure, "ended by itself"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newTestProcess(t, "")
			p.once, p.since, p.ending = c.once, time.Now().Add(-c.age), c.ending
			_, done := p.ended(c.err)
			require.Equal(t, c.once && c.err == nil, done)
			if c.fault == "" {
				require.NoError(t, p.journal.faults())
			} else {
				require.ErrorContains(t, p.journal.faults(), c.fault)
			}
		})
	}
}
