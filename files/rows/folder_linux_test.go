package rows

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A folder that this user may write but not read cannot be synced, and this is no error.
func TestRetractInAFolderThatCannotBeRead(t *testing.T) {
	t.Parallel()
	o, path, err := openWith(t, lines(failure(1), answer(2)))
	require.NoError(t, err)
	folder := filepath.Dir(path)
	require.NoError(t, os.Chmod(folder, 0o333)) //nolint:gosec // another user has to write to it
	t.Cleanup(func() { require.NoError(t, os.Chmod(folder, 0o700)) })
	if os.Getuid() == 0 { // root may read every folder, so the files of this thread become another user's
		require.NoError(t, os.Chmod(filepath.Dir(folder), 0o711)) //nolint:gosec // another user has to enter it
		runtime.LockOSThread()
		require.NoError(t, unix.Setfsuid(12345))
		t.Cleanup(func() { require.NoError(t, unix.Setfsuid(0)) })
		if _, err := os.Stat(path); err != nil {
			t.Skip("the folder for temporary files is not open to other users")
		}
	}
	_, err = os.Open(folder)
	require.ErrorIs(t, err, os.ErrPermission)
	_, err = o.Retract(sums(failure(1)))
	require.NoError(t, err)
	require.Equal(t, lines(answer(2)), content(t, path))
}
