package hub

import (
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// disk mounts a small disk and returns its folder.
func disk(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("pulling to a full disk is not tested: mounting a small disk needs root: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// TestTooSmallADisk: a model that does not fit on the disk is refused before its first byte is
// downloaded.
func TestTooSmallADisk(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.env.Cache = filepath.Join(disk(t, "size=2m"), "hub")
	_, err := b.pull(t, modelName)
	require.ErrorContains(t, err, "the download to "+b.env.Cache+" needs 2.1 MB, and 67 MB more must stay free, but the disk has 2.1 MB free; make room")
	for _, r := range b.Requests() {
		require.False(t, r.CDN)
	}
}

// TestFullDisk: the disk becomes full during a download. The next pull, with free space again,
// continues from the downloaded part.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dir := disk(t, "size=67m") // spareBytes and the size of the model
	b.env.Cache = filepath.Join(dir, "hub")
	other := filepath.Join(dir, "other")
	var once sync.Once
	b.Bytes = func(_ http.ResponseWriter, r *http.Request) bool {
		if first, _ := rangeOf(r, 0); first > 0 {
			once.Do(func() {
				f, err := os.Create(other)
				require.NoError(t, err)
				for err == nil {
					_, err = f.Write(make([]byte, 1<<16))
				}
				require.ErrorIs(t, err, unix.ENOSPC)
				require.NoError(t, f.Close())
			})
		}
		return false
	}
	_, err := b.pull(t, modelName)
	require.ErrorContains(t, err, "is full; make room, and pull again to continue, or set HF_HUB_CACHE to a folder on another disk if the model is from Hugging Face")
	require.NoError(t, os.Remove(other))
	got, err := b.pull(t, modelName)
	require.NoError(t, err)
	b.requireModel(t, got, b.model)
	require.Less(t, got.Moved, got.Bytes, "the second pull continued the first")
}

// TestReadOnlyDisk: the error names the folder that cannot be written.
func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dir := disk(t, "size=100m")
	require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	b.env.Cache = filepath.Join(dir, "hub")
	_, err := b.pull(t, modelName)
	require.ErrorContains(t, err, "pull "+modelName+": model-Q4_K_M.gguf: mkdir "+b.env.Cache+": read-only file system")
}
