package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue/redistest"
)

const people = "\ufeffid,text,lang\r\n" +
	"a,\"Name the capital of\nFinland.\",en\r\n" +
	"b,Which month comes after March?,fr\r\n" +
	"c,bad\r\n" +
	"d,{{.lang}} & <b>,de\r\n"

// TestRunAnswersATable: each record is a row, a record with too few columns becomes an error line,
// and a second run continues.
func TestRunAnswersATable(t *testing.T) {
	t.Parallel()
	in := write(t, "in.csv", people)
	out := filepath.Join(t.TempDir(), "out.jsonl")
	args := []string{"run", in, "-o", out, "--model", tinyLlama, "--prompt", "{{.text}}", "--temperature", "0", "--max-tokens", "20"}
	r := ingot(t, "", args...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "4 rows done (1 failed), ")
	got := readAnswers(t, readFile(t, out))
	require.Equal(t, "April.", got["b"].Response.Body.Choices[0].Message.Content)
	require.Contains(t, got["b"].ID, "-2-")
	require.Equal(t, "invalid_record", got["line-3"].Error.Code)
	require.Equal(t, "line 3: the header has 3 columns, and this record has 2 (line 5 of "+in+")", got["line-3"].Error.Message)

	r = ingot(t, "", args...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "0 rows done, 4 kept (1 failed)")

	args[7] = "{{.text}}!"
	r = ingot(t, "", args...)
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "3 of 3 answers in "+out+" are of other rows than those of this command: the input is the same, but a template")
	require.Contains(t, r.stderr, ": choose another OUT (-o), or give --overwrite to answer these rows again\n")
}

// TestRunRefusesATableWithoutUsableTemplates: a table without usable templates is refused before
// the model is loaded.
func TestRunRefusesATableWithoutUsableTemplates(t *testing.T) {
	t.Parallel()
	in := write(t, "in.csv", people)
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{nil, `the columns are "id", "text", "lang", but a prompt is missing: give --prompt, such as --prompt 'Translate: {{.text}}'`},
		{[]string{"--prompt", "Say {{.txt}}"}, `there is no column "txt": the columns are "id", "text", "lang"`},
		{[]string{"--prompt", "Say {{.text"}, `--prompt:1: "{{" is not closed: write "}}" behind the column's name`},
		{[]string{"--prompt", "{{.text}}", "--max-tokens", "-1"}, `--max-tokens: "max_tokens" must be at least 1, not -1`},
		{[]string{"--prompt", "{{.text}}", "--temperature", "warm"}, `"warm" is not a number`},
	} {
		r := ingot(t, "", append([]string{"run", in, "-o", "-", "--model", "nowhere.gguf"}, c.flags...)...)
		require.NotEqual(t, exitOK, r.code)
		require.Contains(t, r.stderr, c.want)
		require.Empty(t, r.stdout)
	}
}

// TestDefaultsFillWhatRowsLeaveOut checks row defaults for JSON Lines and for text.
func TestDefaultsFillWhatRowsLeaveOut(t *testing.T) {
	t.Parallel()
	rows := strings.Join([]string{
		askMarch,
		`{"custom_id":"own","body":{"messages":[{"role":"user","content":"Which month comes after March?"}],"max_completion_tokens":2}}`,
		`{"id":"text","prompt":"Which","max_tokens":null}`,
		`{"id":"bad"`,
	}, "\n")
	for name, in := range map[string]string{"in.jsonl": rows, "in.txt": "Which month comes after March?\n"} {
		r := ingot(t, "", "run", write(t, name, in), "-o", "-", "--model", tinyLlama, "--max-tokens", "1", "--ignore-eos", "--temperature", "0")
		require.Equal(t, exitOK, r.code, r.stderr)
		for id, a := range readAnswers(t, r.stdout) {
			switch id {
			case "own":
				require.Equal(t, 2, a.Stats.CompletionTokens)
			case "line-4":
				require.Equal(t, "invalid_json", a.Error.Code)
			default:
				require.Nil(t, a.Error, id)
				require.Equal(t, 1, a.Stats.CompletionTokens, id)
			}
		}
	}
}

// TestEnqueueQueuesATable: the rows of a table are answered through Redis. Queueing the table again
// adds nothing, another template makes it another input, and a failed row can be retried.
func TestEnqueueQueuesATable(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "1.csv"), []byte(people), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "2.csv"), []byte("lang,id,text\nde,e,Which month comes after March?\n"), 0o600))
	enqueue := func(flags ...string) result {
		return ingot(t, "", append([]string{"enqueue", filepath.Join(dir, "*.csv"), "--redis", url, "--batch", "b", "--temperature", "0", "--max-tokens", "20"}, flags...)...)
	}
	r := enqueue("--prompt", "{{.text}}")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "5 rows: 4 queued, 1 cannot be used")
	r = enqueue("--prompt", "{{.text}}")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "5 rows: 0 queued, 5 already in the batch")
	r = enqueue("--prompt", "{{.text}}!")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "batch b was made from a different input file")
	require.Contains(t, r.stderr, "the rows depend on the input, on templates and on flags such as --max-tokens and --schema")

	startWorker(t, url, "default")
	r = ingot(t, "", "results", "b", "--redis", url, "-o", "-", "--follow")
	require.Equal(t, exitOK, r.code, r.stderr)
	got := readAnswers(t, r.stdout)
	require.Len(t, got, 5)
	require.Equal(t, "April.", got["b"].Response.Body.Choices[0].Message.Content)
	require.Equal(t, "April.", got["e"].Response.Body.Choices[0].Message.Content)
	require.Contains(t, got["e"].ID, "batch_req_b-5-", "numbers go on")
	require.Contains(t, got["line-3"].Error.Message, "line 3: the header has 3 columns, and this record has 2 (line 5 of "+dir+"/1.csv)")
	r = ingot(t, "", "retry", "b", "--redis", url)
	require.Equal(t, exitOK, r.code, r.stderr)
}

// TestRunContinuesASelection: after a run of some rows, a run of all rows answers the others.
func TestRunContinuesASelection(t *testing.T) {
	t.Parallel()
	in := write(t, "in.csv", people)
	out := filepath.Join(t.TempDir(), "out.jsonl")
	args := []string{"run", in, "-o", out, "--model", tinyLlama, "--prompt", "{{.text}}", "--max-tokens", "3"}
	r := ingot(t, "", append(args, "--where", `lang != "en"`, "--limit", "1")...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "1 row done, ")
	r = ingot(t, "", args...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "3 rows done (1 failed), 1 kept, ")
}

// TestStdinIsATable answers the rows of a table on stdin, all of them and a sample.
func TestStdinIsATable(t *testing.T) {
	t.Parallel()
	args := []string{"run", "-", "-o", "-", "--model", tinyLlama, "--format", "csv", "--prompt", "{{.text}}", "--max-tokens", "3"}
	r := ingot(t, people, args...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Len(t, readAnswers(t, r.stdout), 4)
	r = ingot(t, people, append(args, "--sample", "2", "--seed", "5")...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Len(t, readAnswers(t, r.stdout), 2)
	r = ingot(t, people, "run", "-", "-o", "-", "--model", tinyLlama, "--format", "csv")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, `the columns are "id", "text", "lang", but a prompt is missing`)
}
