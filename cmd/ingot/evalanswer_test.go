package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/serve"
)

// startServer serves the bundled Llama model over HTTP, with a key, and returns the address of its
// API.
func startServer(t *testing.T, key string) string {
	t.Helper()
	be, err := cpu.New(1)
	require.NoError(t, err)
	eng, err := engine.Open(tinyLlama, be, engine.Options{KV: gguf.TypeF16}) // the default of --kv
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, eng.Close()) })
	alone, err := serve.NewAlone(map[string]*engine.Engine{"llama": eng}, "test")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte(key+"\n"), 0o600))
	keys, err := serve.ReadKeys(path)
	require.NoError(t, err)
	server := serve.New(serve.Options{Answerer: alone, Keys: keys, Logger: slog.New(slog.DiscardHandler)})
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener, nil) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	return fmt.Sprintf("http://%s/v1", listener.Addr())
}

// TestEvalByServer checks that a server's scores of generated answers, choices and texts equal
// those of a local run.
func TestEvalByServer(t *testing.T) {
	const variable = "INGOT_TEST_EVAL_KEY"
	url, folder := startServer(t, "sk-of-a-test"), t.TempDir()
	tasks := []string{quiz(t), filepath.Join("..", "..", "models", "tasks", "choices.yaml"), filepath.Join("..", "..", "models", "tasks", "texts.yaml")}
	alone, server := filepath.Join(folder, "alone"), filepath.Join(folder, "server")
	command := func(out string, flags ...string) []string {
		return append(append([]string{"eval", "run", "-o", out, "--limit", "10"}, tasks...), flags...)
	}
	r := ingot(t, "", command(alone, "--model", tinyLlama)...)
	require.Equal(t, exitOK, r.code, r.stderr)
	r = ingot(t, "", command(server, "--base-url", url, "--api-key-env", variable)...)
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "the server answers 401")
	require.Contains(t, r.stderr, "the API key is read from the variable "+variable)
	t.Setenv(variable, "sk-of-a-test")
	r = ingot(t, "", command(server, "--base-url", url, "--api-key-env", variable)...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "60 rows done, ")
	require.NotContains(t, r.stderr+r.stdout, "sk-of-a-test")
	r = ingot(t, "", command(server, "--base-url", url, "--api-key-env", variable)...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "0 rows done, 60 kept, ", "nothing is asked twice")
	r = ingot(t, "", "eval", "compare", alone, server)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `(?m)^quiz .* 10 +0 +0 +0 .* pass$`, r.stdout, "no answer differs")
	require.Regexp(t, `(?m)^choices +acc .* 10 +0 +0 +0 .* pass$`, r.stdout)
	require.Regexp(t, `(?m)^texts +bits_per_byte .* 10 +0 +0 +0 .* pass$`, r.stdout)
}

// TestEvalCache checks that a run reuses the cached answers of another run to the same requests,
// and that another model's answers are not reused.
func TestEvalCache(t *testing.T) {
	t.Parallel()
	task, folder := quiz(t), t.TempDir()
	command := func(out, model string, limit int, more ...string) result {
		return ingot(t, "", append([]string{"eval", "run", task, "-o", filepath.Join(folder, out), "--backend", "cpu", "--model", model,
			"--limit", strconv.Itoa(limit), "--cache", filepath.Join(folder, "cache")}, more...)...)
	}
	first := command("first", tinyLlama, 4)
	require.Equal(t, exitOK, first.code, first.stderr)
	require.Contains(t, first.stderr, "0 rows from the cache")
	again := command("again", tinyLlama, 6)
	require.Equal(t, exitOK, again.code, again.stderr)
	require.Contains(t, again.stderr, "4 rows from the cache")
	require.Contains(t, again.stderr, "2 rows done, 4 kept")
	same := command("same", tinyLlama, 6)
	require.Contains(t, same.stderr, "0 rows done, 6 kept")
	require.Equal(t, again.stdout, same.stdout)
	r := ingot(t, "", "eval", "gate", filepath.Join(folder, "again"), filepath.Join(folder, "same"))
	require.Equal(t, exitOK, r.code, r.stderr)
	other := command("other", filepath.Join("..", "..", "models", "tiny-glm.q8_0.gguf"), 4)
	require.Contains(t, other.stderr, "0 rows from the cache")
	fast := command("fast", tinyLlama, 4, "--precision", "fast")
	require.Contains(t, fast.stderr, "0 rows from the cache", "answers of another precision are not reused")
	r = command("fast", tinyLlama, 4)
	require.Contains(t, r.stderr, "answers of another model, or of other settings", "a run has one precision")
	r = ingot(t, "", "eval", "run", task, "-o", filepath.Join(folder, "fleet"), "--redis", "redis://127.0.0.1:9/0", "--cache", folder)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "--cache is for --model and --base-url")
}

// TestEvalByServerWithoutEcho checks a server that does not return the log-probabilities of
// prompts. It is used for tasks that need none, and refused for the others.
func TestEvalByServerWithoutEcho(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		io.WriteString(w, `{"choices": [{"message": {"content": "Helsinki."}, "finish_reason": "stop"}]}`) //nolint:errcheck // the client reports it
	}))
	t.Cleanup(server.Close)
	folder := t.TempDir()
	r := ingot(t, "", "eval", "run", filepath.Join("..", "..", "models", "tasks", "choices.yaml"), "-o", filepath.Join(folder, "a"), "--base-url", server.URL+"/v1", "--server-model", "m")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "does not return the log-probabilities of a prompt (completions with echo and logprobs); tasks of type multiple_choice need the log-probabilities of prompts")
	require.Len(t, asked, 1)
	r = ingot(t, "", "eval", "run", quiz(t), "-o", filepath.Join(folder, "b"), "--base-url", server.URL+"/v1", "--server-model", "m", "--limit", "4")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `(?m)^quiz +exact_match +none +0\.2500 `, r.stdout)
	require.Len(t, asked, 5)
}
