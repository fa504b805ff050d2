package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/models/trained"
	"github.com/ingot-run/ingot/queue/redistest"
)

// TestTrainedTables answers a table with a trained model, with run and with a worker. A vocabulary
// of 49,152 tokens, a chat template and text in several scripts pass through both.
func TestTrainedTables(t *testing.T) {
	t.Parallel()
	path, err := trained.SmolLM2.Find()
	if err != nil {
		t.Skipf("no table is answered with a trained model: %v", err)
	}
	questions := []string{
		"What is the capital of France?", "Name three primary colours.", "用中文介绍北京。", "Write a line with three emoji 🎉.",
		"Which is larger, 7 or 12?\nAnswer with one number.", `Repeat: "a,b"; 'c'`,
	}
	var table strings.Builder
	table.WriteString("n,question\n")
	for i, q := range questions {
		table.WriteString(string(rune('1'+i)) + `,"` + strings.ReplaceAll(q, `"`, `""`) + "\"\n")
	}
	in, folder := write(t, "in.csv", table.String()), t.TempDir()
	prompt := []string{"--prompt", "{{.question}}", "--temperature", "0", "--max-tokens", "16"}

	alone := filepath.Join(folder, "run.csv")
	r := ingot(t, "", append([]string{"run", in, "-o", alone, "--model", path, "--context", "256", "--concurrency", "1"}, prompt...)...)
	require.Equal(t, exitOK, r.code, r.stderr)
	rows := readCSV(t, alone)
	require.Equal(t, questions, column(rows, "question"))
	for _, answer := range column(rows, "response") {
		require.NotEmpty(t, strings.TrimSpace(answer))
		require.NotContains(t, answer, "<|", "control tokens are no text")
	}

	url := redistest.Start(t).URL
	redis := withRedis(t, url, "")
	redis(exitOK, append([]string{"enqueue", in, "--batch", "b", "--alias", "smollm2"}, prompt...)...)
	w := startWorker(t, url, "smollm2", "--model", path, "--context", "256", "--concurrency", "4")
	defer w.stop(t)
	queued := filepath.Join(folder, "queued.csv")
	redis(exitOK, "results", "b", "-o", queued, "--input", in, "--follow")
	require.Equal(t, column(rows, "response"), column(readCSV(t, queued), "response"))
}
