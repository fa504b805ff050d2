package table

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

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
