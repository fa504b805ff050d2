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

const finlandPrompt = `{"id":"a","prompt":"Name the capital of Finland.","temperature":0,"max_tokens":3}` + "\n"

// continuedRows is the beginning of the warning of rows that a model for chats continues.
const continuedRows = ` with "prompt": the model has a chat template, but continues such rows as text. To send them as chats, give --shape prompt`

// TestRunWarnsOfContinuedPrompts: rows with "prompt" are texts to continue, which somebody who asks
// a model for chats does not expect. The warning's flag makes chats of them.
func TestRunWarnsOfContinuedPrompts(t *testing.T) {
	t.Parallel()
	in := write(t, "in.jsonl", finlandPrompt+`{"messages":[{"role":"user","content":"Hi"}],"max_tokens":1}`+"\n"+
		`{"custom_id":"b","body":{"prompt":"Name the capital of Finland.","max_tokens":2,"temperature":0}}`+"\n")
	args := []string{"run", in, "-o", "-", "--model", tinyLlama}
	r := ingot(t, "", args...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Equal(t, 1, strings.Count(r.stderr, "2 rows"+continuedRows), r.stderr)
	require.Equal(t, "text_completion", readAnswers(t, r.stdout)["a"].Response.Body.Object)

	piped := ingot(t, readFile(t, in), "run", "-", "-o", "-", "--model", tinyLlama)
	require.Equal(t, exitOK, piped.code, piped.stderr)
	require.Equal(t, 1, strings.Count(piped.stderr, "2 rows"+continuedRows), piped.stderr)

	prompts := write(t, "prompts.jsonl", finlandPrompt+`{"custom_id":"b","body":{"prompt":"Name the capital of Finland.","max_tokens":2,"temperature":0}}`+"\n")
	args[1] = prompts
	r = ingot(t, "", append(args, "--shape", "prompt")...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.NotContains(t, r.stderr, "chat template")
	got := readAnswers(t, r.stdout)
	require.Equal(t, "Helsinki.", got["a"].Response.Body.Choices[0].Message.Content)
	require.Equal(t, 2, got["b"].Stats.CompletionTokens, "the row's max_tokens counts")

	r = ingot(t, "", "run", write(t, "texts.jsonl", finlandPrompt), "-o", "-", "--model", tinyLlama, "--shape", "completion")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.NotContains(t, r.stderr, "chat template")
	named := strings.Replace(finlandPrompt, `{"id":"a",`, `{"custom_id":"a","method":"POST","url":"/v1/completions","body":{`, 1)
	r = ingot(t, "", "run", write(t, "batch.jsonl", strings.TrimSpace(named)+"}\n"), "-o", "-", "--model", tinyLlama)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.NotContains(t, r.stderr, "chat template", "the line asks for a completion")
}

// TestRunWarnsOfEmptyAnswers counts the answers without text if they are many.
func TestRunWarnsOfEmptyAnswers(t *testing.T) {
	t.Parallel()
	ask := func(stop string) string {
		return `{"messages":[{"role":"user","content":"Name the capital of Finland."}],"temperature":0,"stop":"` + stop + `"}` + "\n"
	}
	r := ingot(t, ask("H")+ask("x"), "run", "-", "-o", "-", "--model", tinyLlama)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "empty answers: 1 of 2; ")
	r = ingot(t, ask("H")+strings.Repeat(ask("x"), 4), "run", "-", "-o", "-", "--model", tinyLlama)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.NotContains(t, r.stderr, "empty answers")
}

// modelNames returns the names of the model in the lines of an output: that of the answer, and that
// in the statistics.
func modelNames(t *testing.T, text string) (answers, stats []string) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l struct {
			Response struct{ Body struct{ Model string } }
			Stats    struct{ Model string }
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		answers, stats = append(answers, l.Response.Body.Model), append(stats, l.Stats.Model)
	}
	return answers, stats
}

// TestAnswersNameTheModelAsItsUserDoes: the name is the alias, else that of the file. An output
// with names of earlier versions is continued.
func TestAnswersNameTheModelAsItsUserDoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := write(t, "in.jsonl", finlandPrompt+strings.Replace(finlandPrompt, `"id":"a"`, `"id":"b"`, 1))
	out := filepath.Join(dir, "out.jsonl")
	r := ingot(t, "", "run", in, "-o", out, "--model", tinyLlama)
	require.Equal(t, exitOK, r.code, r.stderr)
	names, stats := modelNames(t, readFile(t, out))
	require.Equal(t, []string{"tiny-llama.q4_0", "tiny-llama.q4_0"}, names)
	require.Equal(t, []string{"tiny-llama", "tiny-llama"}, stats, "the name in the file")

	old, _, _ := strings.Cut(strings.ReplaceAll(readFile(t, out), `"model":"tiny-llama.q4_0"`, `"model":"tiny-llama"`), "\n")
	require.NoError(t, os.WriteFile(out, []byte(old+"\n"), 0o600))
	r = ingot(t, "", "run", in, "-o", out, "--model", tinyLlama)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "1 row done, 1 kept")

	table := filepath.Join(dir, "out.csv")
	r = ingot(t, "", "run", in, "-o", table, "--model", "small="+tinyLlama, "--model", "other="+tinyLlama)
	require.Equal(t, exitOK, r.code, r.stderr)
	names, stats = modelNames(t, readFile(t, table+".small.answers.jsonl"))
	require.Equal(t, []string{"small", "small"}, names)
	require.Equal(t, []string{"tiny-llama", "tiny-llama"}, stats)
}

// TestQueuedAnswersNameTheAlias is the same for rows in Redis, with the warning of enqueue.
func TestQueuedAnswersNameTheAlias(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	redis := withRedis(t, url, "")
	in := write(t, "in.jsonl", finlandPrompt)
	named := write(t, "named.jsonl", strings.Replace(finlandPrompt, `"id":"a"`, `"id":"a","model":"default"`, 1))
	for _, c := range []struct{ alias, in, want string }{
		{"tiny", in, "tiny"}, {"default", in, "tiny-llama.q4_0"}, {"default", named, "default"},
	} {
		w := startWorker(t, url, c.alias)
		r := redis(exitOK, "enqueue", c.in, "--alias", c.alias)
		require.Equal(t, 1, strings.Count(r.stderr, "1 row"+continuedRows), r.stderr)
		r = redis(exitOK, "results", strings.TrimSpace(r.stdout), "-o", "-", "--follow")
		w.stop(t)
		names, stats := modelNames(t, r.stdout)
		require.Equal(t, []string{c.want}, names)
		require.Equal(t, []string{"tiny-llama"}, stats)
	}
}
