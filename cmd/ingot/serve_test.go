package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestServeUsage: mistakes in the settings are reported before a model is loaded.
func TestServeUsage(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte("sk-12345678 rate=none\n"), 0o600))
	good := filepath.Join(t.TempDir(), "good-keys")
	require.NoError(t, os.WriteFile(good, []byte("sk-12345678\n"), 0o600))
	const beyond = "give --api-key-file FILE, so that only requests with a key in FILE are answered, or --allow-anyone"
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "a model is missing"},
		{[]string{"--model", "none.gguf", "--redis", "redis://localhost:1/0"}, 2, "--model and --redis cannot be combined"},
		{[]string{"--model", "a/x.gguf", "--model", "b/x.gguf"}, 2, `two models have the alias "x"`},
		{[]string{"--model", "none.gguf", "--tls-cert", "cert.pem"}, 2, "one of --tls-cert and --tls-key is missing"},
		{[]string{"--model", "none.gguf", "--api-key-file", keys}, 1, `keys:1: a limit must be a whole number of at least 1, not "none"`},
		{[]string{"--model", "none.gguf", "--listen", "8080"}, 2, "listen"},
		{[]string{"--model", "none.gguf"}, 1, "none.gguf"},
		{[]string{"--model", "none.gguf", "--listen", ":0"}, 2, beyond},
		{[]string{"--model", "none.gguf", "--listen", "0.0.0.0:0"}, 2, beyond},
		{[]string{"--model", "none.gguf", "--listen", "[::]:0"}, 2, beyond},
		{[]string{"--redis", "redis://localhost:1/0", "--listen", ":0"}, 2, beyond},
		{[]string{"--model", "none.gguf", "--listen", ":0", "--allow-anyone"}, 1, "none.gguf"},
		{[]string{"--model", "none.gguf", "--listen", ":0", "--api-key-file", good}, 1, "none.gguf"},
		{[]string{"--model", "none.gguf", "--listen", "localhost:0"}, 1, "none.gguf"},
		{[]string{"--model", "none.gguf", "--listen", "127.0.0.2:0"}, 1, "none.gguf"},
		{[]string{"--model", "none.gguf", "--allow-anyone", "--api-key-file", good}, 2, "--allow-anyone and --api-key-file cannot be combined"},
	} {
		args := append([]string{"serve", "--listen", "127.0.0.1:0"}, c.args...)
		r := ingot(t, "", args...)
		require.Equal(t, c.code, r.code, "%v: %s", c.args, r.stderr)
		require.Contains(t, r.stderr, c.want)
	}
}

// TestAFlagChoosesTheSource: machines of a fleet have settings of Redis and of a model in their
// environment, and a flag decides which of the two a command uses.
func TestAFlagChoosesTheSource(t *testing.T) { // not parallel, since it sets variables
	const away = "redis://127.0.0.1:1/0"
	folder := t.TempDir()
	quiz := filepath.Join(folder, "quiz.yaml")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "rows.jsonl"), []byte(`{"q":"a","a":"b"}`+"\n"), 0o600))
	require.NoError(t, os.WriteFile(quiz, []byte("task: quiz\ndata: rows.jsonl\ndoc_to_text: q\ndoc_to_target: a\n"), 0o600))
	for _, c := range []struct {
		model, redis string
		args         []string
		code         int
		want         string
	}{
		{"", away, []string{"serve", "--model", "none.gguf"}, 1, "none.gguf"},
		{"none.gguf", "", []string{"serve", "--redis", away}, 1, "127.0.0.1:1"},
		{"none.gguf", away, []string{"serve"}, 2, "--model and --redis cannot be combined: give --model to load models here, or --redis to send requests to a fleet (a flag overrides INGOT_MODEL and INGOT_REDIS)"},
		{"none.gguf", away, []string{"serve", "--model", "none.gguf", "--redis", away}, 2, "--model and --redis cannot be combined"},
		{"none.gguf", "", []string{"eval", "run", quiz, "--redis", away}, 1, "127.0.0.1:1"},
		{"", away, []string{"eval", "run", quiz, "--model", "none.gguf"}, 1, "none.gguf"},
		{"", "", []string{"eval", "run", quiz, "--model", "none.gguf", "--redis", away}, 2, "--model and --redis cannot be combined"},
	} {
		t.Setenv("INGOT_MODEL", c.model)
		t.Setenv("INGOT_REDIS", c.redis)
		args := append([]string{}, c.args...)
		if args[0] == "serve" {
			args = append(args, "--listen", "127.0.0.1:0")
		} else {
			args = append(args, "-o", filepath.Join(t.TempDir(), "run"))
		}
		r := ingot(t, "", args...)
		require.Equal(t, c.code, r.code, "%v: %s", c.args, r.stderr)
		require.Contains(t, r.stderr, c.want, c.args)
	}
}
