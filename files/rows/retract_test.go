package rows

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
)

// timeout returns a row's error that differs from failure.
func timeout(line int) result {
	return newResult(line, openai.OutputLine{Error: &openai.Error{Code: openai.CodeTimeout, Message: "late"}})
}

func errorSumText(text []byte) string { return fmt.Sprintf("%016x", errorSum(text)) }

func sums(results ...result) (all []string) {
	for _, r := range results {
		all = append(all, errorSumText(r.text))
	}
	return all
}

// A code that no row has any more is not among the codes.
func TestCodesAfterARetraction(t *testing.T) {
	t.Parallel()
	o, _, err := openWith(t, lines(failure(1), timeout(2)))
	require.NoError(t, err)
	_, err = o.Retract(sums(failure(1)))
	require.NoError(t, err)
	require.Equal(t, map[string]Failures{openai.CodeTimeout: {1, "late"}}, o.Codes())
}

func TestRetract(t *testing.T) {
	t.Parallel()
	before := lines(failure(1), answer(2), failure(3), timeout(4), answer(100))
	o, path, err := openWith(t, before)
	require.NoError(t, err)
	write(t, o, failure(5))

	// An answer, an error line with another text, and a row without a result are not removed.
	n, err := o.Retract(append(sums(answer(2), timeout(3), failure(9)), "x"))
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, o.Flush())
	require.Equal(t, before+lines(failure(5)), content(t, path))

	require.True(t, o.HasError(errorSumText(failure(1).text)))
	require.False(t, o.HasError(errorSumText(timeout(1).text)))

	// One error line was in the file when it was opened, and this run wrote the other.
	require.NoError(t, os.Chmod(path, 0o640))
	n, err = o.Retract(sums(failure(1), failure(5), failure(9)))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, lines(answer(2), failure(3), timeout(4), answer(100)), content(t, path))
	require.False(t, o.Has(1))
	require.True(t, o.Has(2))
	results, failed := o.Counts()
	require.Equal(t, []int{4, 2, 4}, []int{results, failed, o.Kept()})
	require.Equal(t, map[string]Failures{openai.CodeFailed: {1, "no"}, openai.CodeTimeout: {1, "late"}}, o.Codes())
	_, err = OpenOutput(path, "b")
	require.ErrorContains(t, err, "is in use by another process", "the new file is locked as well")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm())

	write(t, o, answer(1), timeout(5), answer(2))
	n, err = o.Retract(sums(failure(5)))
	require.NoError(t, err)
	require.Zero(t, n, "a newer error of the row stays")
	require.NoError(t, o.Close())
	after := lines(answer(2), failure(3), timeout(4), answer(100), answer(1), timeout(5))
	require.Equal(t, after, content(t, path))
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1, "no temporary file is left")

	o, err = OpenOutput(path, "b")
	require.NoError(t, err)
	n, err = o.Retract(sums(timeout(5)))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, o.Close())
	require.Equal(t, lines(answer(2), failure(3), timeout(4), answer(100), answer(1)), content(t, path))
}

// The link stays, and the file that it points to is replaced.
func TestRetractThroughALink(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(lines(failure(1), answer(2))), 0o600))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(path, link))
	o, err := OpenOutput(link, "b")
	require.NoError(t, err)
	_, err = o.Retract(sums(failure(1)))
	require.NoError(t, err)
	write(t, o, answer(3))
	require.NoError(t, o.Close())
	require.Equal(t, lines(answer(2), answer(3)), content(t, path))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)
}

// A line that was written to a pipe cannot be removed. The next result of the row follows it.
func TestRetractFromAWriter(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	o := NewOutput(&b, "b")
	write(t, o, failure(1))
	n, err := o.Retract(sums(failure(1)))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	write(t, o, answer(1))
	require.NoError(t, o.Close())
	require.Equal(t, lines(failure(1), answer(1)), b.String())
}

// If the copy cannot be made, the file stays unchanged.
func TestRetractNeedsItsFolder(t *testing.T) {
	t.Parallel()
	o, path, err := openWith(t, lines(failure(1), answer(2)))
	require.NoError(t, err)
	moved := filepath.Join(filepath.Dir(path), "moved")
	require.NoError(t, os.Rename(path, moved))
	_, err = o.Retract(sums(failure(1)))
	require.ErrorContains(t, err, "remove error lines of rows that were queued again")
	require.True(t, o.Has(1))
	require.NoError(t, os.Rename(moved, path))
	write(t, o, answer(3))
	require.NoError(t, o.Close())
	require.Equal(t, lines(failure(1), answer(2), answer(3)), content(t, path))
}

// A folder that was removed meanwhile cannot be synced: the renamed file may be gone after a crash.
func TestSyncOfAFolderThatIsGone(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, syncFolder(filepath.Join(t.TempDir(), "gone")), os.ErrNotExist)
}
