package enqueue

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/rows"
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
	for _, r := range []io.Reader{io.MultiReader(strings.NewReader(text)), fromStart} {
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
