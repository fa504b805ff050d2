package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/bounded"
)

// answer is a line of an output file, with the fields that tests check.
type answer struct {
	ID       string `json:"id"`
	CustomID string `json:"custom_id"`
	Response *struct {
		StatusCode int `json:"status_code"`
		Body       struct {
			Object  string `json:"object"`
			Choices []struct {
				Text    string `json:"text"`
				Message struct {
					Content string `json:"content"`
				} `json:"message"`
				FinishReason string `json:"finish_reason"`
			} `json:"choices"`
		} `json:"body"`
	} `json:"response"`
	Error *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Stats struct {
		PromptTokens     int    `json:"prompt_tokens"`
		CompletionTokens int    `json:"completion_tokens"`
		Backend          string `json:"backend"`
		Device           string `json:"device"`
		Model            string `json:"model"`
		SHA              string `json:"model_sha256"`
		Version          string `json:"version"`
	} `json:"stats"`
}

// readAnswers parses the lines of an output and returns them by custom_id. Each custom_id must be
// unique.
func readAnswers(t *testing.T, text string) map[string]answer {
	t.Helper()
	byID := map[string]answer{}
	require.True(t, text == "" || strings.HasSuffix(text, "\n"), "the last line is whole")
	for line := range strings.Lines(text) {
		var a answer
		require.NoError(t, json.Unmarshal([]byte(line), &a), line)
		require.NotContains(t, byID, a.CustomID)
		byID[a.CustomID] = a
	}
	return byID
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// The bundled models know the answers to these questions.
const (
	askFinland = `{"messages":[{"role":"user","content":"Name the capital of Finland."}],"temperature":0}`
	askMarch   = `{"messages":[{"role":"user","content":"Which month comes after March?"}],"temperature":0,"id":"march"}`
)

func TestRunAnswersEveryRowFormat(t *testing.T) {
	t.Parallel()
	in := write(t, "in.jsonl", strings.Join([]string{
		`{"custom_id":"batch-chat","method":"POST","url":"/v1/chat/completions","body":` + askFinland + `}`,
		`{"custom_id":"batch-text","method":"POST","url":"/v1/completions","body":{"prompt":"[gMASK]<sop><|user|>8 * 1 = ?<|assistant|></think>","temperature":0}}`,
		askMarch,
		``,
		`{"prompt":[0,1,2],"max_tokens":3,"temperature":0,"ignore_eos":true,"custom_id":"ids"}`,
		`{"messages":"Hi"}`,
		`{"messages":`,
		askMarch,
	}, "\n"))
	out := filepath.Join(t.TempDir(), "out.jsonl")
	r := ingot(t, "", "run", in, "-o", out, "--model", tinyLlama)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Empty(t, r.stdout)
	require.Contains(t, r.stderr, "7 rows done (3 failed), ")
	require.Regexp(t, `^7 rows done \(3 failed\), .*; the model was loaded in [^ ]+s\nerrors: duplicate_custom_id 1 \(line 8: .*\)\n`+
		`errors: invalid_json 1 \(line 7: .*\)\nerrors: invalid_type 1 \(line 6: "messages" must be an array, not a string\)\n$`, r.stderr, "nothing but the summary")

	text := readFile(t, out)
	require.Equal(t, 7, strings.Count(text, "\n"))
	// The second row with the id march is an error line with that id.
	text = strings.Replace(text, `"custom_id":"march","response":null`, `"custom_id":"march again","response":null`, 1)
	got := readAnswers(t, text)

	require.Equal(t, "Helsinki.", got["batch-chat"].Response.Body.Choices[0].Message.Content)
	require.Equal(t, "chat.completion", got["batch-chat"].Response.Body.Object)
	require.Equal(t, "stop", got["batch-chat"].Response.Body.Choices[0].FinishReason)
	require.Equal(t, "April.", got["march"].Response.Body.Choices[0].Message.Content)
	require.Equal(t, "8", got["batch-text"].Response.Body.Choices[0].Text)
	require.Equal(t, "text_completion", got["batch-text"].Response.Body.Object)
	require.Equal(t, 3, got["ids"].Stats.CompletionTokens)
	require.Equal(t, "length", got["ids"].Response.Body.Choices[0].FinishReason)

	for id, message := range map[string]string{"line-6": "line 6: ", "line-7": "line 7: ", "march again": "line 8: "} {
		require.NotNil(t, got[id].Error, id)
		require.Contains(t, got[id].Error.Message, message)
	}
	stats := got["march"].Stats
	require.Equal(t, "cpu", stats.Backend)
	require.Equal(t, "tiny-llama", stats.Model)
	require.Equal(t, "8e227e38c18a31dbe3a9281d96dd31910690c610a8d3c0afff65ad7a6bdcb38d", stats.SHA)
	require.Equal(t, programVersion(), stats.Version)
}

func TestRunAnswersPlainText(t *testing.T) {
	t.Parallel()
	in := write(t, "in.txt", "Name the capital of Finland.\n\n{not JSON}\n")
	call := func() map[string]answer {
		r := ingot(t, "", "run", in, "-o", "-", "--model", tinyLlama, "--format", "text", "--threads", "1")
		require.Equal(t, exitOK, r.code, r.stderr)
		return readAnswers(t, r.stdout)
	}
	got := call()
	require.Len(t, got, 2)
	for _, id := range []string{"line-1", "line-3"} {
		require.Equal(t, 200, got[id].Response.StatusCode)
		require.Equal(t, got[id].Response, call()[id].Response, "drawn at temperature 1, and the same each time")
	}
}

// TestRunTakesNoPromptsFromAJSONLFile: in a .jsonl file, a line that is not JSON is an error, not a
// prompt.
func TestRunTakesNoPromptsFromAJSONLFile(t *testing.T) {
	t.Parallel()
	in := write(t, "in.jsonl", "cut off\"}\n"+askMarch+"\n")
	r := ingot(t, "", "run", in, "-o", "-", "--model", tinyLlama)
	require.Equal(t, exitOK, r.code, r.stderr)
	got := readAnswers(t, r.stdout)
	require.Equal(t, "invalid_json", got["line-1"].Error.Code)
	require.Equal(t, "April.", got["march"].Response.Body.Choices[0].Message.Content)
}

// TestRunPassesRowsThroughAPipe: from stdin to stdout, each answer is written before the next row
// is read. An interrupt then ends the program, and the output has only whole lines.
func TestRunPassesRowsThroughAPipe(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(bounded.Context(t))
	defer interrupt()
	stdin, ask := io.Pipe()
	listen, stdout := io.Pipe()
	var stderr bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"run", "-", "-o", "-", "--model", tinyGLM}, stdin, stdout, &stderr)
		stdout.Close()
	}()
	lines := bufio.NewReader(listen)
	for _, question := range []string{askMarch, askFinland} {
		_, err := fmt.Fprintln(ask, question)
		require.NoError(t, err)
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		for _, a := range readAnswers(t, line) {
			require.Contains(t, []string{"April.", "Helsinki."}, a.Response.Body.Choices[0].Message.Content)
		}
	}
	interrupt()
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.Equal(t, exitFailure, <-code)
	require.Contains(t, stderr.String(), "2 rows done, ")
	require.Contains(t, stderr.String(), "ingot: stopped before the end: run the same command again to continue\n")
}

// someRows returns n JSON lines of rows that take a while to answer. Row i has the id r<i>.
func someRows(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"custom_id":"r%d","prompt":"Tell me a story about %d toads.","max_tokens":48,"ignore_eos":true}`+"\n", i, i)
	}
	return lines
}

// waitForAnswers returns when the file has a few answers.
func waitForAnswers(t *testing.T, path string) {
	t.Helper()
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(path)
		return err == nil && bytes.Count(text, []byte("\n")) >= 5
	}, time.Minute, time.Millisecond)
}

// halfway starts the program with the first half of the rows, and returns when it has written a few
// answers. The program then waits for the other half.
func halfway(t *testing.T, lines []string, out string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := program(t, append([]string{"run", "-", "-o", out}, args...)...)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.WriteString(stdin, strings.Join(lines[:len(lines)/2], ""))
	require.NoError(t, err)
	waitForAnswers(t, out)
	return cmd
}

// TestRunContinuesAfterAKill kills the program with SIGKILL while it works, cuts the last output
// line in half, and runs the command again. Each row is then in the output once, and the earlier
// lines are unchanged.
func TestRunContinuesAfterAKill(t *testing.T) {
	t.Parallel()
	const n = 60
	lines := someRows(n)
	out := filepath.Join(t.TempDir(), "out.jsonl")
	args := []string{"--model", tinyLlama, "--concurrency", "2"}
	cmd := halfway(t, lines, out, args...)
	require.NoError(t, cmd.Process.Kill())
	require.ErrorContains(t, cmd.Wait(), "signal: killed")

	text := readFile(t, out)
	whole := text[:strings.LastIndex(text, "\n")+1]
	before := readAnswers(t, whole)
	kept := whole[:strings.LastIndex(whole[:len(whole)-1], "\n")+1]
	cut := whole[len(kept):]
	require.NoError(t, os.WriteFile(out, []byte(kept+cut[:len(cut)/2]), 0o600))

	args = append([]string{"run", write(t, "in.jsonl", strings.Join(lines, "")), "-o", out}, args...)
	r := ingot(t, "", args...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, fmt.Sprintf("%d rows done, %d kept, ", n-len(before)+1, len(before)-1))
	after := readFile(t, out)
	require.True(t, strings.HasPrefix(after, kept), "lines from before are unchanged")
	got := readAnswers(t, after)
	require.Len(t, got, n)
	for id, a := range before {
		require.Equal(t, a.Response, got[id].Response, "the row that was cut is answered as before")
	}

	r = ingot(t, "", args...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, fmt.Sprintf("0 rows done, %d kept, ", n))
	require.Equal(t, after, readFile(t, out))
}

// TestRunStopsOnSignals: the first signal ends the program quickly. The output has only whole
// lines, and the error says how to continue.
func TestRunStopsOnSignals(t *testing.T) {
	t.Parallel()
	// A child process inherits from nohup that SIGHUP is ignored. While this process catches
	// SIGHUP, its children do not ignore it.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "out.jsonl")
			cmd := halfway(t, someRows(60), out, "--model", tinyLlama, "--concurrency", "2")
			require.NoError(t, cmd.Process.Signal(sig))
			require.ErrorContains(t, cmd.Wait(), "exit status 1")
			stderr := cmd.Stderr.(*bytes.Buffer).String()
			require.Contains(t, stderr, "ingot: stopped before the end: run the same command again to continue\n")
			require.Contains(t, stderr, fmt.Sprintf("%d rows done, ", len(readAnswers(t, readFile(t, out)))))
		})
	}
}

// TestRunRefusesAnotherModel: an output with answers of a different model file, even of the same
// name, is continued only with --mix-models.
func TestRunRefusesAnotherModel(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out.jsonl")
	rows := askFinland
	call := func(model string, more ...string) string {
		r := ingot(t, rows, append([]string{"run", "-", "-o", out, "--model", model}, more...)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		return r.stderr
	}
	call(tinyLlama)
	rows += "\n" + askMarch + "\n{}"
	before := readFile(t, out)
	r := ingot(t, rows, "run", "-", "-o", out, "--model", tinyGLM)
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "the output has answers of another model (1), and the model of this run has the SHA-256 ")
	require.Contains(t, r.stderr, "choose another output, or give --mix-models")
	require.Equal(t, before, readFile(t, out))

	require.Contains(t, call(tinyGLM, "--mix-models"), "2 rows done (1 failed), 1 kept (1 by another model), ")
	rows += "\n" + strings.Replace(askMarch, "march", "again", 1)
	require.Contains(t, call(tinyLlama, "--mix-models"), "1 row done, 3 kept (1 failed) (1 by another model), ")
}

// full is a writer that fails because the disk is full.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestRunEndsIfItCannotWrite: the program ends on an error of writing, even while it waits for more
// rows.
func TestRunEndsIfItCannotWrite(t *testing.T) {
	t.Parallel()
	stdin, rows := io.Pipe()
	defer rows.Close()
	go fmt.Fprintln(rows, askMarch) //nolint:errcheck // the test waits for the answer
	var stderr bytes.Buffer
	require.Equal(t, exitFailure, run(bounded.Context(t), []string{"run", "-", "-o", "-", "--model", tinyLlama}, stdin, full{}, &stderr))
	require.Equal(t, "ingot: run -: write results: no space left on device\n", stderr.String())
}

// TestRunRefusesAnotherFileAsOutput: an output file with other content stays unchanged.
func TestRunRefusesAnotherFileAsOutput(t *testing.T) {
	t.Parallel()
	in := write(t, "in.jsonl", askMarch)
	const precious = "dear diary\n"
	out := write(t, "diary", precious)
	r := ingot(t, "", "run", in, "-o", out, "--model", tinyLlama)
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "choose another output")
	require.Equal(t, precious, readFile(t, out))
}

// TestCheckpoints prints the checkpoints of all layers, and then selected ones.
func TestCheckpoints(t *testing.T) {
	t.Parallel()
	call := func(points string) []string {
		r := ingot(t, `{"prompt":[0],"max_tokens":1}`, "run", "-", "-o", "-", "--model", tinyLlama, "--checkpoints", points)
		require.Equal(t, exitOK, r.code, r.stderr)
		lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
		return lines[:slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "1 row done") })]
	}
	all := call("all")
	for _, want := range []string{"layer -1 embd row 0 sum ", "layer 0 layer_out row 0 sum ", "layer 3 layer_out row 0 sum ", "layer 4 logits row 0 sum "} {
		require.Condition(t, func() bool {
			for _, line := range all {
				if strings.HasPrefix(line, want) {
					return true
				}
			}
			return false
		}, "%s in %v", want, all)
	}
	for _, points := range []string{"99", "1:nowhere", "0,1:logits"} {
		r := ingot(t, `{"prompt":[0],"max_tokens":1}`, "run", "-", "-o", "-", "--model", tinyLlama, "--checkpoints", points)
		require.Equal(t, exitFailure, r.code)
		require.Contains(t, r.stderr, "the layers are -1 to 4, and their stages are among attn, attn_out, embd, layer_out, logits, norm")
	}
	some := call("1:layer_out,3")
	require.NotEmpty(t, some)
	require.Less(t, len(some), len(all))
	for _, line := range some {
		require.Regexp(t, `^layer (1 layer_out|3 \w+) row 0 sum \S+ norm \S+$`, line)
		require.Contains(t, all, line)
	}
}

// TestRunChecksFields: rows may name the model as its file does. Unknown fields are error lines
// unless --unknown-fields ignore is given.
func TestRunChecksFields(t *testing.T) {
	t.Parallel()
	in := strings.Join([]string{
		`{"prompt":"a","max_tokens":1,"model":"` + filepath.Base(tinyGLM) + `"}`, `{"prompt":"b","max_tokens":1,"model":"gpt-4"}`,
		`{"prompt":"c","max_tokens":1,"mirostat":2}`, "",
	}, "\n")
	r := ingot(t, in, "run", "-", "-o", "-", "--model", tinyGLM)
	require.Equal(t, exitRows, r.code, r.stderr)
	answers := readAnswers(t, r.stdout)
	require.NotNil(t, answers["line-1"].Response)
	require.Equal(t, "model_not_found", answers["line-2"].Error.Code)
	require.Equal(t, "unsupported_field", answers["line-3"].Error.Code)
	r = ingot(t, in, "run", "-", "-o", "-", "--model", tinyGLM, "--unknown-fields", "ignore")
	require.Equal(t, exitOK, r.code, r.stderr)
	for name, a := range readAnswers(t, r.stdout) {
		require.NotNil(t, a.Response, name)
	}
}
