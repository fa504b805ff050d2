package eval

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReplaceFile: a file is replaced as a whole, others can read it, and no other file is left.
func TestReplaceFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	for _, content := range []string{"long content", "short"} {
		require.NoError(t, replaceFile(path, []byte(content)))
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(text))
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode())
	require.Error(t, replaceFile(filepath.Join(folder, "none", "file"), nil))
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "full", "inner"), 0o755))
	require.Error(t, replaceFile(filepath.Join(folder, "full"), nil))
	require.Error(t, writeJSON(path, math.NaN()))
	require.NoError(t, writeJSON(path, map[string]int{"a": 1}))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "{\n  \"a\": 1\n}\n", string(text))
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, left, 2)
}

// TestLinesOfFiles: lines are read as they were written, except a last one without an end.
func TestLinesOfFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lines")
	long := strings.Repeat("x", 3<<20)
	require.NoError(t, writeLines(path, []string{"a", long, "<c>"}))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`"cut`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	var got []string
	require.NoError(t, readLines(path, func(line []byte) error { got = append(got, string(line)); return nil }))
	require.Equal(t, []string{"\"a\"\n", "\"" + long + "\"\n", "\"<c>\"\n"}, got)
	failed := errors.New("not a number")
	n := 0
	err = readLines(path, func([]byte) error {
		if n++; n == 2 {
			return failed
		}
		return nil
	})
	require.ErrorIs(t, err, failed)
	require.ErrorContains(t, err, path+": line 2: not a number")
	require.ErrorIs(t, readLines(filepath.Join(t.TempDir(), "none"), nil), os.ErrNotExist)
	require.Error(t, writeLines(filepath.Join(t.TempDir(), "none", "lines"), []string{"a"}))
	require.Error(t, writeLines(path, []float64{math.NaN()}))
	_, err = fileSum(filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "read a run: ")
}

// TestStoredID: a run has one id for its requests and one for the judge's, each made once.
func TestStoredID(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	n := 0
	fresh := func() string { n++; return string(rune('a'-1+n)) + "\n" }
	for _, c := range []struct{ file, want string }{{AnswersFile, "a"}, {AnswersFile, "a"}, {JudgeAnswersFile, "b"}, {JudgeAnswersFile, "b"}, {AnswersFile, "a"}} {
		id, err := StoredID(filepath.Join(folder, c.file), fresh)
		require.NoError(t, err)
		require.Equal(t, c.want, strings.TrimSpace(id))
	}
	require.Equal(t, 2, n)
	info, err := os.Stat(filepath.Join(folder, batchFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode())
	_, err = StoredID(filepath.Join(folder, "none", AnswersFile), fresh)
	require.ErrorContains(t, err, "read or store the id of the run's batch: ")
	require.NoError(t, os.Remove(filepath.Join(folder, batchFile)))
	require.NoError(t, os.Mkdir(filepath.Join(folder, batchFile), 0o755))
	_, err = StoredID(filepath.Join(folder, AnswersFile), fresh)
	require.Error(t, err)
}
