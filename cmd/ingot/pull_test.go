package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/hub/hubtest"
	"github.com/ingot-run/ingot/internal/bounded"
)

// machine is a hub, and a user's home folder with an empty cache.
type machine struct {
	*hubtest.Server
	home string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	return &machine{hubtest.New(t), t.TempDir()}
}

// command returns a command line that runs in its own process, with the home folder and the hub of
// m.
func (m *machine) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := program(t, args...)
	cmd.Env = append(cmd.Env, "HOME="+m.home, "XDG_CACHE_HOME=", "OLLAMA_MODELS=", "HF_HOME="+filepath.Join(m.home, "hf"), "HF_ENDPOINT="+m.URL)
	return cmd
}

// ingot runs a command line with the home folder and the hub of m.
func (m *machine) ingot(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	cmd := m.command(t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	_ = cmd.Run() // the test checks the exit code
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func (m *machine) addTinyLlama(t *testing.T) []byte {
	t.Helper()
	model, err := os.ReadFile(tinyLlama)
	require.NoError(t, err)
	m.Add("maker/tiny-GGUF", &hubtest.Repo{Files: map[string][]byte{"tiny-Q4_0.gguf": model, "tiny-Q8_0.gguf": []byte("another")}})
	return model
}

// TestPullAndRun: a model is pulled by its name. Commands then find it by this name without a
// request.
func TestPullAndRun(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	model := m.addTinyLlama(t)
	const name = "maker/tiny-GGUF:q4_0"

	r := m.ingot(t, "", "tokenize", "--model", name)
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "the model is not on this machine: "+name+"; download it with: ingot pull "+name)

	r = m.ingot(t, "", "pull", name)
	require.Equal(t, exitOK, r.code, r.stderr)
	path := strings.TrimSpace(r.stdout)
	require.Equal(t, "tiny-Q4_0.gguf", filepath.Base(path))
	require.Contains(t, r.stderr, "SHA-256 matches the hub's")
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, model, got)

	asked := len(m.Requests())
	rows := write(t, "rows.jsonl", `{"prompt":"What is the capital of Kenya?","max_tokens":4}`+"\n")
	byName, byFile := filepath.Join(m.home, "name.jsonl"), filepath.Join(m.home, "file.jsonl")
	r = m.ingot(t, "", "run", rows, "-o", byName, "--model", name, "--backend", "cpu")
	require.Equal(t, exitOK, r.code, r.stderr)
	r = m.ingot(t, "", "run", rows, "-o", byFile, "--model", path, "--backend", "cpu")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Equal(t, textsOf(t, byFile), textsOf(t, byName))
	want := ingot(t, `"Hi"`, "tokenize", "--model", tinyLlama).stdout
	require.Equal(t, want, m.ingot(t, `"Hi"`, "tokenize", "--model", name).stdout)
	for _, args := range [][]string{{"model", "info", name}, {"doctor", "--model", name, "--backend", "cpu"}} {
		r = m.ingot(t, "", args...)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Contains(t, r.stdout, path)
	}
	require.Len(t, m.Requests(), asked, "no other command asks the hub")

	r = m.ingot(t, "", "pull", name)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "is on this machine already")
}

// textsOf returns the texts of an output's answers.
func textsOf(t *testing.T, path string) (texts []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var answer struct {
			Response struct {
				Body struct{ Choices []struct{ Text string } }
			}
		}
		require.NoError(t, json.Unmarshal([]byte(line), &answer))
		require.NotEmpty(t, answer.Response.Body.Choices)
		texts = append(texts, answer.Response.Body.Choices[0].Text)
	}
	require.NotEmpty(t, texts)
	return texts
}

// TestPullErrors: each error is one line that says what to do.
func TestPullErrors(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.addTinyLlama(t)
	m.Add("maker/gated-GGUF", &hubtest.Repo{Gated: true, Files: map[string][]byte{"a-Q4_K_M.gguf": []byte("a")}})
	for _, c := range []struct {
		name, want string
		code       int
	}{
		{"no-such-model", `there is no such file; give a file, user/repo, user/repo:Q4_K_M, an https:// address, or a name that "ingot models" lists`, exitUsage},
		{"maker/none-GGUF", "does not exist or is private: check the name at https://huggingface.co/maker/none-GGUF; a private model needs HF_TOKEN", exitFailure},
		{"maker/tiny-GGUF:Q5_K_M", `no model matches "Q5_K_M"; found: maker/tiny-GGUF:Q4_0, maker/tiny-GGUF:Q8_0`, exitFailure},
		{"maker/tiny-GGUF@v9", `the repository has no branch, tag or commit "v9"`, exitFailure},
		{"maker/gated-GGUF", "accept its licence at https://huggingface.co/maker/gated-GGUF", exitFailure},
	} {
		r := m.ingot(t, "", "pull", c.name)
		require.Equal(t, c.code, r.code, r.stderr)
		require.Contains(t, r.stderr, c.want)
		require.Empty(t, r.stdout)
	}
}

// connections is the number of simultaneous requests of a pull.
const connections = 6

// TestPullContinues: after a pull that was killed or interrupted, the next pull requests only the
// missing blocks.
func TestPullContinues(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{syscall.SIGKILL, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			const mib, there = 1 << 20, 6
			m := newMachine(t)
			model := hubtest.Random(3, 12*mib+77)
			var waiting atomic.Int32
			all := make(chan struct{})
			m.Bytes = func(_ http.ResponseWriter, r *http.Request) bool {
				var first int
				_, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &first)
				if err != nil || first < there*mib {
					return false
				}
				if waiting.Add(1) == connections { // the blocks requested before are written then
					close(all)
				}
				<-r.Context().Done()
				return true
			}
			m.Add("maker/big-GGUF", &hubtest.Repo{Files: map[string][]byte{"big-Q8_0.gguf": model}})
			cmd := m.command(t, "pull", "maker/big-GGUF")
			require.NoError(t, cmd.Start())
			bounded.Receive(t, all)
			require.NoError(t, cmd.Process.Signal(signal))
			require.Error(t, cmd.Wait())
			if signal == syscall.SIGINT {
				require.Contains(t, cmd.Stderr.(*bytes.Buffer).String(), "interrupted; pull again to continue")
			}
			m.Heal()
			before := len(m.Requests())
			r := m.ingot(t, "", "pull", "maker/big-GGUF")
			require.Equal(t, exitOK, r.code, r.stderr)
			got, err := os.ReadFile(strings.TrimSpace(r.stdout))
			require.NoError(t, err)
			require.Equal(t, hubtest.SHA256(model), hubtest.SHA256(got))
			require.Equal(t, len(model)-there*mib, bytesAsked(t, m.Requests()[before:]))
		})
	}
}

// bytesAsked returns the number of bytes that requests to the CDN ask for.
func bytesAsked(t *testing.T, requests []hubtest.Request) (sum int) {
	t.Helper()
	for _, r := range requests {
		if r.CDN {
			var first, last int
			_, err := fmt.Sscanf(r.Range, "bytes=%d-%d", &first, &last)
			require.NoError(t, err)
			sum += last - first + 1
		}
	}
	return sum
}

// TestTwoPulls: two processes pull the same model at the same time, and the model is downloaded
// once.
func TestTwoPulls(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	begun, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	m.Bytes = func(http.ResponseWriter, *http.Request) bool {
		once.Do(func() { close(begun) })
		<-release
		return false
	}
	model := m.addTinyLlama(t)
	first := m.command(t, "pull", "maker/tiny-GGUF:Q4_0")
	var firstOut bytes.Buffer
	first.Stdout = &firstOut
	require.NoError(t, first.Start())
	bounded.Receive(t, begun)
	second := m.command(t, "pull", "maker/tiny-GGUF:Q4_0")
	var secondOut bytes.Buffer
	second.Stdout, second.Stderr = &secondOut, nil
	report, err := second.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, second.Start())
	lines := bufio.NewScanner(report)
	for lines.Scan() && !strings.Contains(lines.Text(), "another process downloads") { //nolint:revive // reads until the line is found
	}
	close(release)
	for lines.Scan() {
	}
	require.NoError(t, first.Wait())
	require.NoError(t, second.Wait())
	require.Equal(t, firstOut.String(), secondOut.String())
	got, err := os.ReadFile(strings.TrimSpace(firstOut.String()))
	require.NoError(t, err)
	require.Equal(t, model, got)
	require.Equal(t, len(model), bytesAsked(t, m.Requests()))
}
