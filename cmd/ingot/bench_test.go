package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func readRecords(t *testing.T, data []byte) (records []map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(data, &records))
	return records
}

func TestBench(t *testing.T) {
	t.Parallel()
	figures := filepath.Join(t.TempDir(), "figures.json")
	r := ingot(t, "", "bench", "--model", tinyLlama, "--threads", "1", "--mode", "full", "--prompt", "40", "--gen", "4,8", "--batch", "1,2",
		"--repeat", "1", "--json", figures)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "tok/s")
	require.Equal(t, "figures written to "+figures+"\n", r.stderr)
	data, err := os.ReadFile(figures)
	require.NoError(t, err)
	records := readRecords(t, data)
	require.Len(t, records, 4)
	for i, want := range []struct{ batch, gen float64 }{{1, 4}, {2, 4}, {1, 8}, {2, 8}} {
		require.Equal(t, want.batch, records[i]["batch"])
		require.Equal(t, want.gen, records[i]["gen"])
		for _, name := range []string{
			"mode", "batch", "prompt", "gen", "context", "tokens_per_s", "p50_ms", "p95_ms", "bytes_per_token", "bandwidth_share",
			"acceptance", "backend", "threads", "first_token_p50_ms", "first_token_p95_ms",
		} {
			require.Contains(t, records[i], name)
		}
		require.Equal(t, "f16", records[i]["kv"])
	}
}

func TestBenchQuestions(t *testing.T) {
	t.Parallel()
	r := ingot(t, "", "bench", "--model", tinyGLM, "--threads", "1", "--questions", "../../models/heldout.jsonl", "--gen", "24",
		"--draft", "mtp", "--draft-tokens", "3", "--repeat", "1", "--json", "-")
	require.Equal(t, exitOK, r.code, r.stderr)
	records := readRecords(t, []byte(r.stdout))
	require.Len(t, records, 1)
	require.Equal(t, "decode", records[0]["mode"])
	require.Greater(t, records[0]["tokens_per_step"], 2.5)
	require.Greater(t, records[0]["acceptance"], 0.7)
}

// TestBenchWritesShapes checks that a shape's file gives the same benchmark as the shape.
func TestBenchWritesShapes(t *testing.T) {
	t.Parallel()
	const shape = "smollm-135m:2" // two layers
	path := filepath.Join(t.TempDir(), "smollm.gguf")
	r := ingot(t, "", "bench", "--shape", shape, "--write", path)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Empty(t, r.stdout, "nothing is measured")
	for _, args := range [][]string{{"--model", path}, {"--shape", shape}} {
		r = ingot(t, "", append([]string{"bench", "--mode", "prefill", "--prompt", "32", "--repeat", "1", "--json", "-"}, args...)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Equal(t, shape+" (random weights)", readRecords(t, []byte(r.stdout))[0]["model"])
	}
}
