package rows

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/internal/openfiles"
	"github.com/ingot-run/ingot/openai"
)

// An output has one file open, also after its file was replaced, and none after an error or Close.
func TestOpenFilesOfAnOutput(t *testing.T) {
	t.Parallel()
	o, path, err := openWith(t, lines(answer(1), failure(2), answer(3)))
	require.NoError(t, err)
	folder := filepath.Dir(path)
	openfiles.Require(t, 1, folder+"/")
	before, err := os.Stat(path)
	require.NoError(t, err)
	n, err := o.Retract(sums(failure(3), answer(1)))
	require.NoError(t, err)
	require.Zero(t, n)
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after), "a file from which nothing is removed is not copied")
	_, err = o.Retract(sums(failure(2)))
	require.NoError(t, err)
	require.NoError(t, o.Drop(func(r Result) bool { return r.Line == 1 }))
	require.NoError(t, o.Sync())
	openfiles.Require(t, 1, folder+"/")
	_, err = OpenOutput(path, "b")
	require.ErrorContains(t, err, "in use")
	openfiles.Require(t, 1, folder+"/")
	require.NoError(t, o.Close())
	openfiles.Require(t, 0, folder+"/")
	_, err = OpenOutput(path, "another")
	require.Error(t, err)
	openfiles.Require(t, 0, folder+"/")
	o, err = OpenOutput(filepath.Join(folder, "new"), "b")
	require.NoError(t, err)
	require.NoError(t, o.Abandon())
	openfiles.Require(t, 0, folder+"/")
	require.NoFileExists(t, filepath.Join(folder, "new"))
}

// Every operation on a file that fails reports it, and the output knows the same results as before.
func TestAFileThatFails(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(o *Output) error{
		"Flush":   (*Output).Flush,
		"Sync":    (*Output).Sync,
		"Close":   (*Output).Close,
		"Abandon": (*Output).Abandon,
		"Drop":    func(o *Output) error { return o.Drop(func(Result) bool { return true }) },
		"Record":  func(o *Output) error { _, err := o.Record(1); return err },
		"Retract": func(o *Output) error { _, err := o.Retract(sums(failure(2))); return err },
	} {
		o, path, err := openWith(t, lines(answer(1), failure(2)))
		require.NoError(t, err)
		require.NoError(t, o.file.Close())
		require.ErrorIs(t, act(o), os.ErrClosed, name)
		results, failed := o.Counts()
		require.Equal(t, []int{2, 1, 2}, []int{results, failed, o.Kept()}, name)
		require.Equal(t, lines(answer(1), failure(2)), content(t, path), name)
		require.True(t, o.HasError(sums(failure(2))[0]), name)
	}
}

// A copy that cannot take the place of the file leaves an output that can be written and synced.
func TestACopyThatCannotReplaceTheFile(t *testing.T) {
	t.Parallel()
	o, path, err := openWith(t, lines(answer(1), failure(2)))
	require.NoError(t, err)
	moved := path + ".moved"
	err = o.rewrite(func([]byte) bool { // a folder takes the place of the file meanwhile
		if _, err := os.Stat(moved); err != nil {
			require.NoError(t, os.Rename(path, moved))
			require.NoError(t, os.Mkdir(path, 0o700))
		}
		return true
	})
	require.ErrorIs(t, err, unix.EEXIST)
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Rename(moved, path))
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1)
	write(t, o, answer(3))
	require.NoError(t, o.Sync(), "the file has the size of what was written")
	require.NoError(t, o.Close())
	require.Equal(t, lines(answer(1), failure(2), answer(3)), content(t, path))
}

const onFullDisk = "INGOT_TEST_FULL_DISK"

// A disk that becomes full while the file is copied leaves the file as it was. The test runs in a
// process of its own, since it limits the sizes of all files of its process.
func TestCopiesOnAFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getenv(onFullDisk) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCopiesOnAFullDisk$")
		cmd.Env = append(os.Environ(), onFullDisk+"=1")
		text, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", text)
		return
	}
	signal.Ignore(unix.SIGXFSZ)
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &before))
	long := func(line int) result { // longer than the buffer of a copy
		return newResult(line, openai.OutputLine{Error: &openai.Error{Code: openai.CodeFailed, Message: strings.Repeat("x", 1<<20)}})
	}
	for _, rest := range [][]result{{answer(1), answer(3)}, {long(3)}} {
		sizes := []int{0, len(lines(rest...)) - 1}
		if len(rest) == 1 {
			sizes = sizes[1:] // copying is slow
		}
		whole := lines(append([]result{failure(2)}, rest...)...)
		for _, act := range []func(o *Output) error{
			func(o *Output) error { _, err := o.Retract(sums(failure(2))); return err },
			func(o *Output) error { return o.Drop(func(r Result) bool { return r.Line == 2 }) },
		} {
			for _, size := range sizes {
				o, path, err := openWith(t, whole)
				require.NoError(t, err)
				require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(size), Max: before.Max}))
				err = act(o)
				require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &before))
				require.ErrorIs(t, err, unix.EFBIG)
				require.ErrorContains(t, err, "remove ")
				require.Equal(t, whole, content(t, path))
				left, err := os.ReadDir(filepath.Dir(path))
				require.NoError(t, err)
				require.Len(t, left, 1)
				openfiles.Require(t, 1, filepath.Dir(path)+"/")
				require.True(t, o.Has(2))
				require.NoError(t, act(o), "there is room again")
				require.False(t, o.Has(2))
				write(t, o, answer(9))
				require.NoError(t, o.Close())
				require.Equal(t, lines(append(rest, answer(9))...), content(t, path))
			}
		}
	}
}
