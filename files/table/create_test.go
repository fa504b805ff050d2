package table_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/files/table"
)

func filesIn(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func TestAFileAppearsWhenItIsComplete(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "out.csv")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o644))
	for _, commit := range []bool{false, true} {
		f, err := table.CreateFile(path)
		require.NoError(t, err)
		_, err = io.WriteString(f, "new")
		require.NoError(t, err)
		require.Equal(t, "old", read(t, path))
		if commit {
			require.NoError(t, f.Commit())
		}
		f.Discard()
	}
	require.Equal(t, "new", read(t, path))
	require.Equal(t, []string{"out.csv"}, filesIn(t, folder), "nothing is left behind")
}

// If the path is a link, the file that it points to is written, and created if there is none.
// Renaming would replace the link.
func TestAFileIsWrittenWhereALinkLeads(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	target := filepath.Join(folder, "target.csv")
	require.NoError(t, os.Symlink(folder, filepath.Join(folder, "folder")))
	for link, to := range map[string]string{"link.csv": target, "second.csv": "link.csv", "third.csv": "folder/second.csv"} {
		require.NoError(t, os.Symlink(to, filepath.Join(folder, link)))
	}
	for _, link := range []string{"link.csv", "second.csv", "third.csv", "folder/third.csv"} {
		for _, text := range []string{"created", "replaced"} {
			f, err := table.CreateFile(filepath.Join(folder, link))
			require.NoError(t, err)
			_, err = io.WriteString(f, text)
			require.NoError(t, err)
			require.NoError(t, f.Commit())
			require.Equal(t, text, read(t, target), link)
		}
		require.NoError(t, os.Remove(target))
	}
	require.NoError(t, os.Symlink("loop.csv", filepath.Join(folder, "loop.csv")))
	_, err := table.CreateFile(filepath.Join(folder, "loop.csv"))
	require.ErrorIs(t, err, unix.ELOOP)
}

// A device is written to directly. Renaming would replace it by a file, if root runs the program.
func TestADeviceIsWrittenTo(t *testing.T) {
	t.Parallel()
	f, err := table.CreateFile(os.DevNull)
	require.NoError(t, err)
	_, err = io.WriteString(f, "new")
	require.NoError(t, err)
	require.NoError(t, f.Commit())
	info, err := os.Stat(os.DevNull)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeDevice)
}

func TestZstandard(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.jsonl.zst")
	f, err := table.CreateFile(path)
	require.NoError(t, err)
	_, err = io.WriteString(f, "some text")
	require.NoError(t, err)
	require.NoError(t, f.Commit())
	packed, err := os.Open(path)
	require.NoError(t, err)
	defer packed.Close()
	r, err := zstd.NewReader(packed)
	require.NoError(t, err)
	defer r.Close()
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "some text", string(text))
}

func TestTrimCompression(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"a.csv.gz": "a.csv", "a.csv.ZST": "a.csv", "a.GZ": "a", "a.csv": "", "gz": "", "a.gz.csv": "", ".gz": ".gz", "dir.gz/a": "", "": "",
	} {
		rest, compressed := table.TrimCompression(path)
		if path == ".gz" {
			want = ""
			require.True(t, compressed)
		} else {
			require.Equal(t, want != "", compressed, path)
		}
		if compressed {
			require.Equal(t, want, rest, path)
		} else {
			require.Equal(t, path, rest)
		}
	}
}

// TestFilesThatCannotBeCreated: an error names the path, and nothing is left behind.
func TestFilesThatCannotBeCreated(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, err := table.CreateFile(filepath.Join(folder, "none", "out.csv"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = table.CreateFile(folder)
	require.ErrorContains(t, err, "open "+folder+": is a directory")

	path := filepath.Join(folder, "out.csv")
	f, err := table.CreateFile(path)
	require.NoError(t, err)
	require.Len(t, filesIn(t, folder), 1)
	require.NoError(t, os.Mkdir(path, 0o755), "a folder takes the name meanwhile")
	require.Error(t, f.Commit())
	require.Equal(t, []string{"out.csv"}, filesIn(t, folder), "the temporary file is removed")
	f.Discard()
	require.NoError(t, os.Remove(path))

	f, err = table.CreateFile(path)
	require.NoError(t, err)
	_, err = io.WriteString(f, "new")
	require.NoError(t, err)
	f.Discard()
	f.Discard()
	_, err = io.WriteString(f, "more")
	require.ErrorIs(t, err, os.ErrClosed, "Discard closes the file")
	require.Empty(t, filesIn(t, folder))
}

// TestAFullDisk: an error of a write is an error of the file, compressed or not.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skip("this system has no " + full)
	}
	folder := t.TempDir()
	for _, name := range []string{"out.csv", "out.csv.gz", "out.csv.zst"} {
		link := filepath.Join(folder, name)
		require.NoError(t, os.Symlink(full, link))
		f, err := table.CreateFile(link)
		require.NoError(t, err)
		_, err = io.WriteString(f, "text")
		if err == nil {
			err = f.Commit()
		}
		require.ErrorIs(t, err, unix.ENOSPC, name)
		f.Discard()
		require.Len(t, filesIn(t, folder), 1, "a device is not removed")
		require.NoError(t, os.Remove(link))
	}
}

func TestGzip(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.jsonl.GZ")
	f, err := table.CreateFile(path)
	require.NoError(t, err)
	_, err = io.WriteString(f, "some text")
	require.NoError(t, err)
	require.NoError(t, f.Commit())
	packed, err := os.Open(path)
	require.NoError(t, err)
	defer packed.Close()
	r, err := gzip.NewReader(packed)
	require.NoError(t, err)
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "some text", string(text))
}
