package openfiles_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/openfiles"
)

func TestOpenFilesAreFound(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	openfiles.Require(t, 0, path)
	f, err := os.Create(path)
	require.NoError(t, err)
	openfiles.Require(t, 1, path)
	require.NoError(t, f.Close())
	openfiles.Require(t, 0, path)
}
