package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// recipe returns the commands below a paragraph of README's recipes that begins with a title.
func recipe(t *testing.T, title string) string {
	t.Helper()
	_, text, found := strings.Cut(readFile(t, "../../README.md"), "\n**"+title)
	require.True(t, found, title)
	_, text, found = strings.Cut(text, "\n```sh\n")
	require.True(t, found)
	text, _, found = strings.Cut(text, "\n```\n")
	require.True(t, found)
	return text
}

// follow runs the commands of a recipe as they stand in a folder that has bin/ingot, model.gguf and the given files. It returns
// their output.
func follow(t *testing.T, title string, files map[string]string) (dir, stdout string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	program := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asProgram, os.Args[0])
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", "ingot"), []byte(program), 0o700))
	model, err := filepath.Abs(tinyLlama)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(model, filepath.Join(dir, "model.gguf")))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	shell := exec.CommandContext(t.Context(), "sh", "-e")
	shell.Dir, shell.Stdin = dir, strings.NewReader(recipe(t, title))
	var stderr strings.Builder
	shell.Stderr = &stderr
	out, err := shell.Output()
	require.NoError(t, err, stderr.String())
	return dir, string(out)
}

func TestRecipeTranslateATable(t *testing.T) {
	t.Parallel()
	dir, stdout := follow(t, "Translate a column of a table.", map[string]string{
		"reviews.csv": "id,lang,text\n1,de,\"Sehr gut,\nimmer wieder.\"\n2,en,Good.\n3,fr,\"Il dit \"\"non\"\".\"\n4,de,\"{{.id}}\"\n5,de,Gut\n",
	})
	require.Equal(t, 3, strings.Count(stdout, "\n"), "three requests are printed")
	require.Contains(t, stdout, `"content":"Translate to English: Sehr gut,\nimmer wieder."`)
	require.Contains(t, stdout, `"content":"Translate to English: {{.id}}"`)
	rows, err := csv.NewReader(strings.NewReader(readFile(t, filepath.Join(dir, "translated.csv")))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"id", "lang", "text"}, rows[0][:3])
	var ids []string
	for _, row := range rows[1:] {
		ids = append(ids, row[0])
	}
	require.Equal(t, []string{"1", "3", "4", "5"}, ids)
	require.Equal(t, []string{"1", "de", "Sehr gut,\nimmer wieder."}, rows[1][:3])
	require.Greater(t, len(rows[0]), 3, "and the answers")
}
