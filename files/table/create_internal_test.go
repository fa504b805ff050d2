package table

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// failing is a compressor that cannot write its end.
type failing struct{ io.Writer }

func (failing) Close() error { return io.ErrShortWrite }

// A file whose compressor fails at the end does not replace the earlier one.
func TestAFileWithoutAnEndIsDiscarded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	f, err := CreateFile(path)
	require.NoError(t, err)
	f.packer = failing{f.out}
	require.ErrorIs(t, f.Commit(), io.ErrShortWrite)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(text))
	names, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, names, 1)
}

// A fault of the disk is an error; that a pipe or a folder cannot be synced is none.
func TestFaultsOfTheDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "a"))
	require.NoError(t, err)
	require.NoError(t, syncFile(f))
	require.NoError(t, f.Close())
	require.ErrorIs(t, syncFile(f), os.ErrClosed)

	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, syncFile(w))
	require.NoError(t, r.Close())
	require.NoError(t, w.Close())

	require.NoError(t, syncFolder(dir))
	require.NoError(t, syncFolder(filepath.Join(dir, "missing")))
}
