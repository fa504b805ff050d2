package modeltest

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// unpacked returns a folder with the files of an archive, which tests must not change. It is in the
// user's cache folder, named by the archive's bytes, since many tests of several packages read the
// same archives and it takes seconds to unpack them.
func unpacked(tb testing.TB, archive string) string {
	tb.Helper()
	data, err := os.ReadFile(archive)
	require.NoError(tb, err)
	cache, err := os.UserCacheDir()
	require.NoError(tb, err)
	cache = filepath.Join(cache, "ingot", "references")
	sum := sha256.Sum256(data)
	dir := filepath.Join(cache, hex.EncodeToString(sum[:16]))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	require.NoError(tb, os.MkdirAll(cache, 0o700))
	work, err := os.MkdirTemp(cache, "new-*") //nolint:usetesting // renamed into the cache, so it must be on the same file system
	require.NoError(tb, err)
	defer os.RemoveAll(work) //nolint:errcheck // fails after a success, since the folder was renamed
	out, err := exec.CommandContext(tb.Context(), "tar", "-xf", archive, "-C", work).CombinedOutput()
	require.NoError(tb, err, "unpack %s: %s", archive, out)
	if err := os.Rename(work, dir); err != nil {
		require.DirExists(tb, dir, "rename %s: %v", work, err) // another process has unpacked the archive meanwhile
	}
	return dir
}
