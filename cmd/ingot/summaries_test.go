package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue/redistest"
)

// TestSummariesForScripts: --quiet prints nothing but errors, and --json the summary as JSON.
func TestSummariesForScripts(t *testing.T) {
	t.Parallel()
	url, folder := redistest.Start(t).URL, t.TempDir()
	in := write(t, "in.jsonl", askMarch+"\n{}\n")
	of := func(r result) (v map[string]any) {
		t.Helper()
		require.Equal(t, exitOK, r.code, r.stderr)
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &v), r.stdout)
		return v
	}
	require.Equal(t, result{}, ingot(t, "", "run", in, "-o", filepath.Join(folder, "a.jsonl"), "--model", tinyLlama, "-q"))
	got := of(ingot(t, "", "run", in, "-o", filepath.Join(folder, "b.csv"), "--model", tinyLlama, "--json"))
	require.Equal(t, []any{1.0, 1.0, 0.0, map[string]any{"missing_field": 1.0}}, []any{got["answered"], got["failed"], got["kept"], got["errors"]})
	require.Positive(t, got["loading_seconds"])
	r := ingot(t, "", "run", in, "-o", "-", "--model", tinyLlama, "--json")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "--json writes the summary to stdout: give a file as OUT")
	r = ingot(t, "", "run", write(t, "bad.jsonl", "{}\n"), "-o", filepath.Join(folder, "c.jsonl"), "--model", tinyLlama, "-q")
	require.Equal(t, result{exitRows, "", "ingot: the only row failed\n"}, r)

	got = of(ingot(t, "", "enqueue", in, "--batch", "b", "--redis", url, "--json", "-q"))
	require.Equal(t, []any{"b", 2.0, 1.0, 0.0, 1.0}, []any{got["batch"], got["rows"], got["queued"], got["known"], got["rejected"]})
	require.Equal(t, result{stdout: "b\n"}, ingot(t, "", "enqueue", in, "--batch", "b", "--redis", url, "-q"))
	got = of(ingot(t, "", "results", "b", "-o", filepath.Join(folder, "d.jsonl"), "--redis", url, "--json"))
	require.Equal(t, []any{"b", 1.0, 1.0, 1.0, false}, []any{got["batch"], got["rows"], got["new"], got["failed"], got["finished"]})
	require.Equal(t, result{}, ingot(t, "", "results", "b", "-o", filepath.Join(folder, "d.jsonl"), "--redis", url, "-q"))

	quiz := filepath.Join(folder, "quiz.yaml")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "rows.jsonl"), []byte(`{"q":"Which month comes after March?","a":"April."}`+"\n"), 0o600))
	require.NoError(t, os.WriteFile(quiz, []byte("task: quiz\ndata: rows.jsonl\ndoc_to_text: q\ndoc_to_target: a\n"), 0o600))
	run := filepath.Join(folder, "run")
	got = of(ingot(t, "", "eval", "run", quiz, "-o", run, "--model", tinyLlama, "--context", "256", "--json", "-q"))
	require.Contains(t, got, "results")
	r = ingot(t, "", "eval", "gate", run, run, "--json")
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &got), r.stdout)
	require.Contains(t, []any{"pass", "inconclusive"}, got["verdict"])
	require.Empty(t, ingot(t, "", "eval", "gate", run, run, "-q").stdout)
}

// TestCompletionOfValues: shells complete the values of flags, and the names of models and batches.
func TestCompletionOfValues(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	require.Equal(t, exitOK, ingot(t, askMarch, "enqueue", "-", "--batch", "nightly", "--redis", url).code)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "--kv", ""}, "f32\nf16\nq8_0\nq4_0\n"},
		{[]string{"run", "--output-format", ""}, "\njson\n"},
		{[]string{"enqueue", "--priority", ""}, "critical\n"},
		{[]string{"worker", "--model", ""}, "qwen3-4b\t"},
		{[]string{"worker", "--backend", ""}, "cuda\n"},
		{[]string{"run", "--format", ""}, "parquet\t"},
		{[]string{"results", "--redis", url, ""}, "nightly\tin_progress\n"},
		{[]string{"retry", "--redis", url, ""}, "nightly\tin_progress\n"},
	} {
		r := ingot(t, "", append([]string{"__complete"}, c.args...)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Contains(t, r.stdout, c.want, c.args)
	}
}

// TestModelsListsBundledOnes: in a clone, the list has the models that come with it.
func TestModelsListsBundledOnes(t *testing.T) {
	t.Parallel()
	cmd := program(t, "models")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(out), "a toy to try commands with"), "%s", out)
	require.Regexp(t, `(?m)^models/tiny-llama\.q4_0\.gguf +2\.3 MB +Apache-2\.0 +on disk`, string(out))
}
