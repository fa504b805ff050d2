package enqueue

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/openfiles"
	"github.com/ingot-run/ingot/queue/memqueue"
)

// An input that cannot seek is copied to a file that has no name, and that close closes. One that
// can is read again from where it began.
func TestInputsAreReadTwice(t *testing.T) { //nolint:paralleltest // it sets the folder of temporary files
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	const text = "one\n\ntwo"
	fromStart := strings.NewReader("before" + text)
	_, err := fromStart.Seek(6, io.SeekStart)
	require.NoError(t, err)
	pipe, write, err := os.Pipe() // it has a Seek that fails
	require.NoError(t, err)
	defer pipe.Close()
	_, err = write.WriteString(text)
	require.NoError(t, errors.Join(err, write.Close()))
	for _, r := range []io.Reader{io.MultiReader(strings.NewReader(text)), fromStart, pipe} {
		in, err := readTwice(t.Context(), r, rows.SurveyOptions{})
		require.NoError(t, err)
		require.Equal(t, 3, in.lines)
		again, err := io.ReadAll(in)
		require.NoError(t, err)
		require.Equal(t, text, string(again))
		names, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, names)
		in.close()
		if _, seeks := r.(io.Seeker); !seeks {
			_, err = in.Read(make([]byte, 1))
			require.ErrorIs(t, err, os.ErrClosed)
		}
	}
}

// An input that cannot be copied is not read.
func TestNoPlaceForACopy(t *testing.T) { //nolint:paralleltest // it sets the folder of temporary files
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	_, err := readTwice(t.Context(), io.MultiReader(strings.NewReader("one")), rows.SurveyOptions{})
	require.ErrorContains(t, err, "copy the input to a temporary file: open ")
}

// The copy of a pipe is closed, and thereby deleted, when its rows are queued or cannot be read.
func TestCopiesOfPipesAreDeleted(t *testing.T) { //nolint:paralleltest // it sets the folder of temporary files
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	broken := errors.New("broken")
	for failure, fails := range map[error]bool{io.EOF: false, broken: true} {
		_, err := Enqueue(t.Context(), memqueue.New(), io.MultiReader(strings.NewReader("{\"prompt\":\"a\"}\n"), iotest.ErrReader(failure)), Options{Batch: "b"})
		require.Equal(t, fails, errors.Is(err, broken))
		openfiles.Require(t, 0, dir)
	}
}
