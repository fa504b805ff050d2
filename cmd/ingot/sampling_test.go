package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/bench"
	"github.com/ingot-run/ingot/engine/gguf"
)

// withSettings copies the bundled Llama with recommended settings in its metadata. Under them the
// model's answers hardly vary, and without them they do.
func withSettings(t *testing.T) string {
	t.Helper()
	f, err := gguf.Open(tinyLlama)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	meta := f.Meta()
	meta.Set("general.sampling.temp", float32(0.7))
	meta.Set("general.sampling.top_k", int32(2))
	path := filepath.Join(t.TempDir(), "model.gguf")
	out, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, gguf.Write(out, meta, f.Tensors()))
	require.NoError(t, out.Close())
	return path
}

const unset, set = `{"prompt":"Once upon a time","max_tokens":24,"seed":11}`, `{"prompt":"Once upon a time","max_tokens":24,"seed":11,"temperature":0.7,"top_k":2}`

// TestRecommendedSampling: rows that set no sampling option get the settings in the model's file.
// An output that was begun with other defaults is not continued.
func TestRecommendedSampling(t *testing.T) {
	t.Parallel()
	model := withSettings(t)
	run := func(row, out string, flags ...string) (text, defaults string, r result) {
		t.Helper()
		r = ingot(t, row, append([]string{"run", "-", "-o", out, "--model", model}, flags...)...)
		if r.code != exitOK || out != "-" {
			return "", "", r
		}
		var line struct {
			Response struct {
				Body struct{ Choices []struct{ Text string } }
			}
			Stats struct {
				Sampling string `json:"default_sampling"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &line))
		return line.Response.Body.Choices[0].Text, line.Stats.Sampling, r
	}
	explicit, _, r := run(set, "-", "--sampling", "plain")
	require.Equal(t, exitOK, r.code, r.stderr)
	recommended, defaults, r := run(unset, "-")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Equal(t, explicit, recommended)
	require.Equal(t, "temperature=0.7,top_k=2", defaults)
	plain, defaults, r := run(unset, "-", "--sampling", "plain")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.NotEqual(t, recommended, plain)
	require.Empty(t, defaults)
	one, _, _ := run(`{"prompt":"Once upon a time","max_tokens":24,"seed":11,"temperature":1}`, "-")
	require.Equal(t, plain, one, "a row that sets an option gets the fixed defaults of the others")

	out := filepath.Join(t.TempDir(), "out.jsonl")
	_, _, r = run(unset, out)
	require.Equal(t, exitOK, r.code, r.stderr)
	before := readFile(t, out)
	_, _, r = run(unset, out, "--sampling", "plain")
	require.Equal(t, exitFailure, r.code, r.stderr)
	require.Contains(t, r.stderr, "the output has answers with temperature=0.7,top_k=2 for rows that set no sampling option; this run has --sampling plain (answers: 1)")
	require.Equal(t, before, readFile(t, out))
	_, _, r = run(unset, out)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "1 kept")
}

func TestModelInfoTellsRecommendedSampling(t *testing.T) {
	t.Parallel()
	model := withSettings(t)
	r := ingot(t, "", "models", "info", model)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "recommended sampling  temperature=0.7, top_k=2 (the model's file)")
	r = ingot(t, "", "models", "info", model, "--json")
	var info bench.ModelInfo
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &info))
	require.Equal(t, "temperature=0.7,top_k=2", info.Sampling)
}

// Evaluations have the same answers with and without recommended settings.
func TestEvalIsPlain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "rows.jsonl"), []byte(`{"q":"Once upon a time","a":"there"}`+"\n"), 0o600))
	quiz := filepath.Join(folder, "quiz.yaml")
	require.NoError(t, os.WriteFile(quiz, []byte("task: quiz\ndata: rows.jsonl\ndoc_to_text: q\ndoc_to_target: a\n"), 0o600))
	out := filepath.Join(folder, "out")
	r := ingot(t, "", "eval", "run", quiz, "-o", out, "--model", withSettings(t))
	require.Equal(t, exitOK, r.code, r.stderr)
	answers, err := filepath.Glob(filepath.Join(out, "*answers*.jsonl"))
	require.NoError(t, err)
	require.NotEmpty(t, answers)
	for _, path := range answers {
		require.NotContains(t, readFile(t, path), "default_sampling", path)
	}
}
