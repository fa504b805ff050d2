package export_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/export"
)

// The lines of several files are sorted by row. Those of the same row keep the order of the files.
func TestLinesOfSeveralFiles(t *testing.T) {
	t.Parallel()
	a, b := answer(t, 1, "a", stop("x")), answer(t, 1, "b", stop("x"))
	second, third := answer(t, 2, "c", stop("x")), answer(t, 3, "d", stop("x"))
	var out bytes.Buffer
	require.NoError(t, export.WriteLines(t.Context(), &out, []*export.Answers{open(t, third, a), open(t, b, second)}))
	require.Equal(t, a+"\n"+b+"\n"+second+"\n"+third+"\n", out.String())
}

// A file that cannot be sorted stays as it is, and no other one stays beside it.
func TestOrderThatIsStopped(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "answers.jsonl")
	text := answer(t, 2, "b", stop("x")) + "\n" + answer(t, 1, "a", stop("x")) + "\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, export.Order(stopped, path), context.Canceled)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, text, string(after))
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, left, 1)
}
