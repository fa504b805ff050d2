package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRunRefusesOtherArithmetic: an output is continued under other settings that can change its
// answers only with --mix-models. An output of an earlier version, which does not name them, is
// continued.
func TestRunRefusesOtherArithmetic(t *testing.T) {
	t.Parallel()
	const long = `{"custom_id":"long","prompt":"Once upon a time","max_tokens":100,"ignore_eos":true}`
	for name, c := range map[string]struct {
		row           string
		first, second []string
		refusal       string // empty if the second run continues
	}{
		"another type of KV cache": {
			askFinland, []string{"--kv", "f16"}, []string{"--kv", "q4_0"},
			"the output has answers with --kv f16; this run has --kv q4_0 (answers: 1): repeat the run with the same settings, choose another output, or give --mix-models",
		},
		"a context that ended an answer": {
			long, []string{"--context", "64"}, []string{"--context", "128"},
			"the output has answers that ended at the end of a context of 64; this run has a context of 128 (answers: 1): repeat the run",
		},
		"a context that ended no answer": {askFinland, []string{"--context", "128"}, []string{"--context", "256"}, ""},
		"more threads":                   {askFinland, []string{"--threads", "1"}, []string{"--threads", "2"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "out.jsonl")
			run := func(flags ...string) result {
				return ingot(t, c.row, append([]string{"run", "-", "-o", out, "--model", tinyLlama}, flags...)...)
			}
			first := run(c.first...)
			require.Equal(t, exitOK, first.code, first.stderr)
			before := readFile(t, out)
			second := run(c.second...)
			if c.refusal == "" {
				require.Equal(t, exitOK, second.code, second.stderr)
				require.Contains(t, second.stderr, "1 kept")
				return
			}
			require.Equal(t, exitFailure, second.code, second.stderr)
			require.Contains(t, second.stderr, c.refusal)
			require.Equal(t, before, readFile(t, out))
			require.Equal(t, exitOK, run(c.first...).code)
			require.Equal(t, exitOK, run(append(c.second, "--mix-models")...).code)

			require.NoError(t, os.WriteFile(out, []byte(regexp.MustCompile(`"arithmetic":"[^"]*","context":\d+,`).ReplaceAllString(before, "")), 0o600))
			require.NotEqual(t, before, readFile(t, out))
			earlier := run(c.second...)
			require.Equal(t, exitOK, earlier.code, earlier.stderr)
			require.Contains(t, earlier.stderr, "1 kept")
		})
	}
}

// TestEvalIdentity: a run is continued with other drafts and another context, which change no
// answer. Prompts that were too long are tried again. Another type of KV cache is another run.
func TestEvalIdentity(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	task, run := filepath.Join(folder, "task.yaml"), filepath.Join(folder, "run")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "rows.jsonl"), []byte(`{"q":"Once","a":"x"}`+"\n"+`{"q":"`+strings.Repeat("Once upon a time ", 12)+`","a":"x"}`+"\n"), 0o600))
	require.NoError(t, os.WriteFile(task, []byte("task: a\ndata: rows.jsonl\ndoc_to_text: q\ndoc_to_target: a\ngeneration_kwargs: {max_gen_toks: 4, until: []}\n"), 0o600))
	evaluate := func(flags ...string) result {
		return ingot(t, "", append([]string{"eval", "run", task, "-o", run, "--model", tinyLlama}, flags...)...)
	}
	answers := func() string { return readFile(t, filepath.Join(run, "answers.jsonl")) }
	r := evaluate("--context", "32", "--draft", "off")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Equal(t, 1, strings.Count(answers(), "context_length_exceeded"))
	before := answers()
	r = evaluate("--context", "32", "--draft", "ngram")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "0 rows done")
	require.Equal(t, before, answers())
	r = evaluate("--context", "128", "--draft", "off")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `1 row done, 1 kept`, r.stderr)
	require.NotContains(t, answers(), "context_length_exceeded")
	require.Regexp(t, `(?m)^a +exact_match .* 2 +0 `, r.stdout)
	before = answers()
	r = evaluate("--context", "128", "--kv", "q4_0")
	require.Equal(t, exitFailure, r.code, r.stdout)
	require.Contains(t, r.stderr, "answers of another model, or of other settings")
	require.Equal(t, before, answers())
}

// Results and fingerprints name the arithmetic and the context.
func TestResultsNameTheArithmetic(t *testing.T) {
	t.Parallel()
	r := ingot(t, askFinland, "run", "-", "-o", "-", "--model", tinyLlama, "--kv", "q8_0", "--context", "128")
	require.Equal(t, exitOK, r.code, r.stderr)
	var line struct {
		Response struct {
			Body struct {
				Fingerprint string `json:"system_fingerprint"`
			} `json:"body"`
		} `json:"response"`
		Stats struct {
			SHA        string `json:"model_sha256"`
			Arithmetic string `json:"arithmetic"`
			Context    int    `json:"context"`
		} `json:"stats"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &line))
	require.Regexp(t, `^4/cpu(-neon|-portable)?/q8_0$`, line.Stats.Arithmetic)
	require.Equal(t, 128, line.Stats.Context)
	require.Regexp(t, `^fp_`+line.Stats.SHA[:12]+`_4-cpu(-neon|-portable)?-q8_0-128$`, line.Response.Body.Fingerprint)
}
