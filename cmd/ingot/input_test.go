package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const people = "\ufeffid,text,lang\r\n" +
	"a,\"Name the capital of\nFinland.\",en\r\n" +
	"b,Which month comes after March?,fr\r\n" +
	"c,bad\r\n" +
	"d,{{.lang}} & <b>,de\r\n"

// TestRunAnswersATable: a row is a record, a ragged record is an error line, and a second run continues.
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
	require.Contains(t, r.stderr, "line 1 of the input is not the row answered in "+out)
	require.Contains(t, r.stderr, "the rows depend on the input, on templates and on defaults such as --max-tokens")
}

// TestRunRefusesATableWhoseUseIsNotSaid: before the model is loaded.
func TestRunRefusesATableWhoseUseIsNotSaid(t *testing.T) {
	t.Parallel()
	in := write(t, "in.csv", people)
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{nil, `the columns are "id", "text", "lang", and nothing says what to ask about them: give --prompt, such as --prompt 'Translate: {{.text}}'`},
		{[]string{"--prompt", "Say {{.txt}}"}, `there is no column "txt": the columns are "id", "text", "lang"`},
		{[]string{"--prompt", "Say {{.text"}, `--prompt:1: unclosed action`},
		{[]string{"--prompt", "{{.text}}", "--max-tokens", "-1"}, `--max-tokens: "max_tokens" must be at least 1, not -1`},
		{[]string{"--prompt", "{{.text}}", "--temperature", "warm"}, `"warm" is not a number`},
	} {
		r := ingot(t, "", append([]string{"run", in, "-o", "-", "--model", "nowhere.gguf"}, c.flags...)...)
		require.NotEqual(t, exitOK, r.code)
		require.Contains(t, r.stderr, c.want)
		require.Empty(t, r.stdout)
	}
}

// TestDefaultsFillWhatRowsLeaveOut of JSON Lines and of text.
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
