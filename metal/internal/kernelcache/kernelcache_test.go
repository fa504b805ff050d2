package kernelcache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const planted, compiled = "planted", "compiled"

func compile(path string) error { return os.WriteFile(path, []byte(compiled), 0o600) }

func mustNotCompile(string) error { return errors.New("compiled although the file is in the cache") }

// folder returns a folder that only this user can write to.
func folder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "kernels")
	require.NoError(t, os.Mkdir(dir, 0o700))
	return dir
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.Chmod(path, mode))
	t.Cleanup(func() { os.Chmod(path, 0o700) }) //nolint:errcheck // the mode only matters for removing the folder
}

func TestAFileIsCompiledOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folder(t), "made")
	path, err := File(dir, "k.so", compile)
	require.NoError(t, err)
	again, err := File(dir, "k.so", mustNotCompile)
	require.NoError(t, err)
	require.Equal(t, path, again)
	for p, mode := range map[string]os.FileMode{dir: 0o700, path: 0o600} {
		info, err := os.Stat(p)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), p)
	}
}

// A process that is stopped while it compiles does not stop others.
func TestALockIsNotAwaitedForEver(t *testing.T) {
	t.Parallel()
	path := filepath.Join(folder(t), "k.so.lock")
	unlock, err := lock(path, 0)
	require.NoError(t, err)
	second, err := lock(path, time.Millisecond)
	require.NoError(t, err)
	second()
	require.FileExists(t, path, "the first process still has the lock")
	unlock()
	require.NoFileExists(t, path)
}

// Files get a mode with which only the user can write. The mode that a compiler gives them depends
// on the umask.
func TestTheModeOfACompiledFileIsSet(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	_, err := File(dir, "k.so", func(path string) error {
		require.NoError(t, compile(path))
		return os.Chmod(path, 0o775)
	})
	require.NoError(t, err)
	_, err = File(dir, "k.so", mustNotCompile)
	require.NoError(t, err)
}

// A file that another user could have written is replaced, not loaded.
func TestAPlantedFileIsReplaced(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(t *testing.T, path string){
		"group can write": func(t *testing.T, path string) {
			t.Helper()
			require.NoError(t, os.WriteFile(path, []byte(planted), 0o600))
			chmod(t, path, 0o660)
		},
		"all can write": func(t *testing.T, path string) {
			t.Helper()
			require.NoError(t, os.WriteFile(path, []byte(planted), 0o600))
			chmod(t, path, 0o602)
		},
		"link": func(t *testing.T, path string) {
			t.Helper()
			target := filepath.Join(t.TempDir(), "planted")
			require.NoError(t, os.WriteFile(target, []byte(planted), 0o600))
			require.NoError(t, os.Symlink(target, path))
		},
		"of another user": func(t *testing.T, path string) {
			t.Helper()
			if os.Getuid() != rootUID {
				t.Skip("a file of another user is not tested: making one needs root")
			}
			require.NoError(t, os.WriteFile(path, []byte(planted), 0o600))
			require.NoError(t, os.Chown(path, 12345, 12345))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t)
			plant(t, filepath.Join(dir, "k.so"))
			path, err := File(dir, "k.so", compile)
			require.NoError(t, err)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, compiled, string(text))
		})
	}
}

// A folder to which other users can write, or which they can replace, is refused, even if its files
// are safe.
func TestAFolderOfOthersIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		share  func(t *testing.T, above, dir string)
		refuse bool
	}{
		"own":                    {func(*testing.T, string, string) {}, false},
		"group can write":        {func(t *testing.T, _, dir string) { t.Helper(); chmod(t, dir, 0o770) }, true},
		"all can write":          {func(t *testing.T, _, dir string) { t.Helper(); chmod(t, dir, 0o777) }, true},
		"all can write, sticky":  {func(t *testing.T, _, dir string) { t.Helper(); chmod(t, dir, 0o777|os.ModeSticky) }, true},
		"above: all can write":   {func(t *testing.T, above, _ string) { t.Helper(); chmod(t, above, 0o777) }, true},
		"above: group can write": {func(t *testing.T, above, _ string) { t.Helper(); chmod(t, above, 0o770) }, true},
		"above: sticky":          {func(t *testing.T, above, _ string) { t.Helper(); chmod(t, above, 0o777|os.ModeSticky) }, false},
		"of another user": {func(t *testing.T, _, dir string) {
			t.Helper()
			if os.Getuid() != rootUID {
				t.Skip("a folder of another user is not tested: making one needs root")
			}
			require.NoError(t, os.Chown(dir, 12345, 12345))
		}, true},
		"above: of another user": {func(t *testing.T, above, _ string) {
			t.Helper()
			if os.Getuid() != rootUID {
				t.Skip("a folder of another user is not tested: making one needs root")
			}
			require.NoError(t, os.Chown(above, 12345, 12345))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			above := filepath.Join(t.TempDir(), "above")
			dir := filepath.Join(above, "kernels")
			require.NoError(t, os.MkdirAll(dir, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "k.so"), []byte(compiled), 0o600))
			c.share(t, above, dir)
			_, err := File(dir, "k.so", mustNotCompile)
			if c.refuse {
				require.ErrorContains(t, err, "does not belong to this user alone")
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestTheDefaultFolderIsOfThisUserAlone(t *testing.T) {
	cache, temp := t.TempDir(), t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	t.Setenv("TMPDIR", temp)
	user, err := os.UserCacheDir()
	require.NoError(t, err)
	own := filepath.Join(user, "ingot", "kernels")
	dir, err := Folder()
	require.NoError(t, err)
	require.Equal(t, own, dir)

	chmod(t, own, 0o777) // the folder as another user could have made it before
	dir, err = Folder()
	require.NoError(t, err)
	fallback := filepath.Join(temp, fmt.Sprintf("ingot-kernels-%d", os.Getuid()))
	require.Equal(t, fallback, dir)

	chmod(t, fallback, 0o777)
	_, err = Folder()
	require.ErrorContains(t, err, "does not belong to this user alone")
}
