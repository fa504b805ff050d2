package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/enginetest"
	"github.com/ingot-run/ingot/internal/bounded"
)

// asProgram is the environment variable that makes the test binary run as ingot, for tests that
// need a separate process.
const asProgram = "INGOT_TEST_AS_PROGRAM"

// memoryLimit is the environment variable with the limit of Go's heap. Without it, every command
// limits the heap to what it needs itself. Commands that run in the process of the tests would set
// each other's limit, and the garbage collector would run all the time.
const memoryLimit = "GOMEMLIMIT"

func TestMain(m *testing.M) {
	enginetest.GiveCosts()
	version = "v0.0.0-test" // as if the linker had set it
	if os.Getenv(asProgram) != "" {
		if err := os.Unsetenv(memoryLimit); err != nil { // the program limits its heap, as it does outside of tests
			panic(err)
		}
		main()
	}
	if err := errors.Join(forgetSettings(), os.Setenv(memoryLimit, "off")); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// forgetSettings removes the user's settings, so that tests do not depend on them, and chooses the
// CPU, so that they do not depend on the machine's GPU either.
func forgetSettings() error {
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "INGOT_") && !strings.HasPrefix(name, "HF_") && name != "OLLAMA_MODELS" || name == "INGOT_VECTORS" || name == "INGOT_MODELS" || name == "INGOT_LONG" {
			continue
		}
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	return errors.Join(os.Setenv("INGOT_BACKEND", "cpu"), os.Setenv("XDG_CONFIG_HOME", filepath.Join(os.DevNull, "none")), os.Setenv("HF_HOME", filepath.Join(os.DevNull, "none")))
}

// result is the outcome of a command line.
type result struct {
	code           int
	stdout, stderr string
}

// ingot runs a command line in this process.
func ingot(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), bounded.Limit)
	defer cancel()
	code := run(ctx, args, strings.NewReader(stdin), &stdout, &stderr)
	require.NoError(t, ctx.Err(), "the command did not end by itself")
	return result{code, stdout.String(), stderr.String()}
}

// withRedis returns a function that runs a command with --redis URL and the given stdin. The
// command must end with an exit code.
func withRedis(t *testing.T, url, stdin string) func(code int, args ...string) result {
	return func(code int, args ...string) result {
		t.Helper()
		r := ingot(t, stdin, append(args, "--redis", url)...)
		require.Equal(t, code, r.code, r.stderr)
		return r
	}
}

// program returns a command line in its own process, which is killed if it does not end. Its stderr
// is logged if the test fails.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := bounded.Command(t, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("ingot %s: %s", strings.Join(args, " "), stderr.String())
		}
	})
	return cmd
}

// vectors returns the folder of public test data.
func vectors(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("INGOT_VECTORS")
	if dir == "" {
		t.Skip("commands are not tested on public tokenizers and templates: set INGOT_VECTORS to the folder that holds them")
	}
	return dir
}

// The bundled models.
const (
	tinyGLM   = "../../models/tiny-glm.q8_0.gguf"
	tinyLlama = "../../models/tiny-llama.q4_0.gguf"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
