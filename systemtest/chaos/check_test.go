package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	firstLine = `{"id":"batch_req_b-1-f","custom_id":"row-1","response":{"body":{"id":"x","seed":7,"choices":[{"index":0,"text":"one"}],` +
		`"usage":{"prompt_tokens":3,"completion_tokens":2}}},"error":null,"stats":{"attempts":1,"worker":"w:1"}}`
	secondLine = `{"id":"batch_req_b-2-f","custom_id":"row-2","response":null,"error":{"code":"invalid_value","message":"line 2"},"stats":{}}`
)

func read(t *testing.T, text string) (output, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return readOutput(path, "b")
}

func TestCheck(t *testing.T) {
	whole := firstLine + "\n" + secondLine + "\n"
	undisturbed, err := read(t, whole)
	require.NoError(t, err)
	right := counts{Total: 2, Done: 1, Failed: 1, PromptTokens: 3, CompletionTokens: 2}
	require.Equal(t, right, undisturbed.counts)

	for _, c := range []struct {
		name, text string
		status     func(*counts)
		err        string // empty for none
	}{
		{"the same", whole, nil, ""},
		{"another order", secondLine + "\n" + firstLine + "\n", nil, ""},
		{"another worker and attempt", strings.NewReplacer("w:1", "w:2", `"attempts":1`, `"attempts":3`, `"id":"x"`, `"id":"y"`).Replace(whole), nil, ""},
		{"a missing row", secondLine + "\n", nil, "1 rows are missing, such as row-1"},
		{"another text", strings.Replace(whole, "one", "two", 1), nil, "1 rows have other answers, such as row-1"},
		{"another seed", strings.Replace(whole, `"seed":7`, `"seed":8`, 1), nil, "1 rows have other answers"},
		{"another error", strings.Replace(whole, "line 2", "line 3", 1), nil, "1 rows have other answers, such as row-2"},
		{"another row", strings.Replace(whole, "row-1", "row-3", 1), nil, "1 rows are not in the input, such as row-3"},
		{"other tokens", strings.Replace(whole, `"completion_tokens":2`, `"completion_tokens":3`, 1), nil, "the output has the counts {"},
		{"a row counted twice", whole, func(c *counts) { c.Done++ }, "the status shows the counts {"},
		{"tokens counted twice", whole, func(c *counts) { c.CompletionTokens += 2 }, "the status shows the counts {"},
		{"a row that runs", whole, func(c *counts) { c.Running++ }, "the status shows the counts {"},
		{"a lost row", whole, func(c *counts) { c.Lost++ }, "the status shows the counts {"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := read(t, c.text)
			require.NoError(t, err)
			status := right
			if c.status != nil {
				c.status(&status)
			}
			err = check(undisturbed, got, status)
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.err)
			}
		})
	}
}

func TestReadOutputRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, err string }{
		{"a row that comes twice", firstLine + "\n" + firstLine + "\n", `"row-1" is in an earlier line too`},
		{"a cut line", firstLine + "\n" + secondLine[:40], "EOF"},
		{"a row of another batch", strings.Replace(firstLine, "_b-", "_c-", 1) + "\n", `id "batch_req_c-1-f" is not of batch b`},
		{"a line that is no result", "answer\n", "invalid character"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := read(t, c.text)
			require.ErrorContains(t, err, c.err)
		})
	}
}
