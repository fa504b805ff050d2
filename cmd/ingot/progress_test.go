package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/local"
)

func TestProgressText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		p    local.Progress
		want string
	}{
		{"nothing yet", local.Progress{Total: 10}, "0 tokens/s, rows"},
		{"half", local.Progress{Total: 10, Done: 5, CompletionTokens: 300, Elapsed: 2 * time.Second}, "150 tokens/s, 2s left, rows"},
		{"with failures", local.Progress{Total: 10, Done: 3, Failed: 2, CompletionTokens: 30, Elapsed: time.Minute}, "0 tokens/s, 2 failed, 1m0s left, rows"},
		{"kept rows do not count for the speed", local.Progress{Total: 100, Kept: 90, Done: 5, CompletionTokens: 100, Elapsed: 10 * time.Second}, "10 tokens/s, 10s left, rows"},
		{"a pipe has no end", local.Progress{Done: 5, CompletionTokens: 100, Elapsed: 10 * time.Second}, "10 tokens/s, rows"},
	} {
		require.Equal(t, c.want, progressText(c.p), c.name)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	s := local.Summary{Progress: local.Progress{
		Kept: 4, Done: 9, Failed: 1, PromptTokens: 500, CompletionTokens: 1000, Elapsed: 4 * time.Second,
	}, KeptFailed: 2}
	require.Equal(t, "10 rows done (1 failed), 4 kept (2 failed), 500 prompt tokens, 1000 generated tokens in 4s: "+
		"2.5 rows/s, 250.0 tokens/s", summary(s))
}

// TestDisplayKeepsLogLinesWhole: the bar is removed before a log line is written.
func TestDisplayKeepsLogLinesWhole(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := newDisplay(&out)
	d.Show(local.Progress{Total: 10, Kept: 2, Done: 3, CompletionTokens: 30, Elapsed: time.Second})
	require.Contains(t, out.String(), "5/10")
	out.Reset()
	_, err := d.Write([]byte("a line of the log\n"))
	require.NoError(t, err)
	require.Regexp(t, "^\x1b\\[2K\ra line of the log\n", out.String())
	out.Reset()
	d.Close()
	require.Equal(t, "\x1b[2K\r", out.String())
}
