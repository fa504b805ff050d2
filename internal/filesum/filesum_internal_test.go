package filesum

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func sumOf(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}

// write makes a file that has not changed for an hour.
func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(path, old, old))
}

// kept replaces all sums in the folder of k, so that a result shows whether it comes from there.
func kept(t *testing.T, k keeper, sum string) {
	t.Helper()
	files, err := os.ReadDir(k.folder)
	require.NoError(t, err)
	for _, f := range files {
		require.NoError(t, os.WriteFile(filepath.Join(k.folder, f.Name()), []byte(sum), 0o600))
	}
}

func TestSums(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	write(t, a, "first")
	write(t, b, "second")
	k := keeper{folder: filepath.Join(t.TempDir(), "ingot", "sums"), smallest: 5}
	sum := func(paths ...string) string {
		s, err := k.sha256(t.Context(), paths)
		require.NoError(t, err)
		return s
	}
	assert.Equal(t, sumOf("firstsecond"), sum(a, b))
	assert.Equal(t, sumOf("first"), sum(a))

	earlier := strings.Repeat("0a", sha256.Size)
	kept(t, k, earlier)
	assert.Equal(t, earlier, sum(a), "the sum of an unchanged file is not computed again")
	assert.Equal(t, earlier, sum(a, b))
	assert.Equal(t, sumOf("secondfirst"), sum(b, a), "other files")

	kept(t, k, earlier)
	write(t, a+".new", "other") // as long as before, and of the same time
	require.NoError(t, os.Rename(a+".new", a))
	assert.Equal(t, sumOf("other"), sum(a))
	assert.Equal(t, sumOf("othersecond"), sum(a, b))

	kept(t, k, "damaged")
	assert.Equal(t, sumOf("other"), sum(a))
	kept(t, k, earlier)
	assert.Equal(t, earlier, sum(a), "a damaged sum is replaced")
}

func TestSumsThatAreNotKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "text")
	blocked := filepath.Join(t.TempDir(), "blocked")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	folder := filepath.Join(t.TempDir(), "sums")
	for name, k := range map[string]keeper{
		"small files":               {folder: folder, smallest: 5},
		"just changed":              {folder: folder, settled: time.Hour},
		"no folder":                 {},
		"folder cannot be made":     {folder: filepath.Join(blocked, "sums")},
		"folder cannot have a file": {folder: blocked},
	} {
		sum, err := k.sha256(t.Context(), []string{file})
		require.NoError(t, err, name)
		assert.Equal(t, sumOf("text"), sum, name)
		assert.NoDirExists(t, folder, name)
	}
}

func TestSumErrors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	_, err := SHA256(t.Context(), missing)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, missing)
	_, err = SHA256(t.Context(), t.TempDir())
	require.Error(t, err)
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "text")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = SHA256(ctx, file)
	require.ErrorIs(t, err, context.Canceled)
}
