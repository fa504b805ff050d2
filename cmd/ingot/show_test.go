package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
)

const figures = `    \d+ prompt tokens at \d+/s, \d+ generated at \d+/s, first after \d+ ms, all after \d+ ms, \d+\.\d sequences per step` + "\n"

func TestShow(t *testing.T) {
	t.Parallel()
	in := write(t, "in.jsonl", askMarch+"\n"+`{"messages":"Hi"}`+"\n"+`{"prompt":[0,1,2],"max_tokens":1,"temperature":0}`+"\n"+askFinland+"\n")
	out := filepath.Join(t.TempDir(), "out.jsonl")
	r := ingot(t, "", "run", in, "-o", out, "--model", tinyLlama)
	require.Equal(t, exitOK, r.code, r.stderr)

	r = ingot(t, "", "show", out, "--input", in)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `^\nmarch\n  \? Which month comes after March\?\n  > April\.\n`+figures+
		`\nline-2\n  ! invalid_type: line 2: "messages" must be an array, not a string\n`+
		`\nline-3\n  \? 3 token ids\n  > .*\n`+figures+
		`\nline-4\n  \? Name the capital of Finland\.\n  > Helsinki\.\n`+figures+`$`, r.stdout)

	r = ingot(t, readFile(t, out), "show", "-")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `\nmarch\n  > April\.\n`+figures, r.stdout)
	require.NotContains(t, r.stdout, "  ? ")

	// The output of a killed run may end with half a line.
	text := readFile(t, out)
	require.NoError(t, os.WriteFile(out, []byte(text[:len(text)/2]), 0o600))
	r = ingot(t, "", "show", out, "--input", in)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "    no answer yet\n")
	require.Equal(t, 4, strings.Count(r.stdout, "\n\n")+1, r.stdout)
}

// TestShowEscapesControlCharacters: texts from files cannot control the terminal.
func TestShowEscapesControlCharacters(t *testing.T) {
	t.Parallel()
	id := openai.ResultID("b", 1, "0badcafe")
	answers := `{"id":"` + id + `","custom_id":"a\u001b[2J\nb","response":{"body":{"choices":[{"message":{"content":"é 👩‍🚀\tx\r\n\u009b31m\u202e\n\ny\n"}}]}}}` + "\n" +
		`{"id":"` + id + `","custom_id":"c","error":{"code":"\u0007","message":"no\u001b]0;title\u0007"}}`
	r := ingot(t, answers, "show", "-")
	require.Equal(t, exitOK, r.code, r.stderr)
	shown, failure, _ := strings.Cut(r.stdout, "    0 prompt tokens")
	require.Equal(t, "\n"+`a\x1b[2J\nb`+"\n  > é 👩‍🚀\tx\n"+`    \u009b31m\u202e`+"\n    \n    y\n", shown)
	require.Contains(t, failure, `  ! \a: no\x1b]0;title\a`+"\n")
}

func TestShowRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	line := func(n, sum string) string { return `{"id":"batch_req_b-` + n + `-` + sum + `","custom_id":"a"}` + "\n" }
	in := write(t, "in.txt", "hello\n")
	for _, c := range []struct{ name, answers, want string }{
		{"rows", askMarch + "\n", ":1: the line is not a result of ingot"},
		{"text", line("1", "2cf24dba") + "hello\n", ":2: the line is not a result of ingot"},
		{"another row", line("1", "0badcafe"), "line 1 of ROWS is not the row that was answered"},
		{"a row too many", line("1", "2cf24dba") + line("2", "2cf24dba"), "ROWS has no row on line 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := ingot(t, "", "show", write(t, "out.jsonl", c.answers), "--input", in)
			require.Equal(t, exitFailure, r.code)
			require.Contains(t, r.stderr, c.want)
		})
	}
}
