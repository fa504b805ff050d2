package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/bench"
)

// TestBenchReport checks that a report has the machine, the versions, a table, and the figures as
// data, of answers and prompts.
func TestBenchReport(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "report.md")
	flags := []string{"--model", tinyLlama, "--backend", "cpu", "--batch", "1", "--prompt", "8", "--gen", "3", "--repeat", "1", "--draft", "off"}
	r := ingot(t, "", append([]string{"bench", "--report", path}, flags...)...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "report written to "+path)
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	text := string(file)
	for _, want := range []string{`(?m)^ingot +\S+ \(go\S+\)$`, `(?m)^system +` + runtime.GOOS + "/", `(?m)^backend cpu `, `(?m)^ +decode +1 `, `(?m)^ +prefill +1 `} {
		require.Regexp(t, want, text)
	}
	require.NotContains(t, text, "## Kernels", "the CPU is not tuned")
	_, data, ok := strings.Cut(text, "```json\n")
	require.True(t, ok)
	var records []bench.Record
	require.NoError(t, json.NewDecoder(strings.NewReader(data)).Decode(&records))
	require.Len(t, records, 2)
	for i, mode := range []bench.Mode{bench.Decode, bench.Prefill} {
		require.Equal(t, mode, records[i].Mode)
		require.Positive(t, records[i].TokensPerS)
	}
	for _, flag := range []string{"--mode=full", "--json=-", "--roofline=M1"} {
		require.Equal(t, exitUsage, ingot(t, "", append([]string{"bench", "--report", path, flag}, flags...)...).code, flag)
	}
}
