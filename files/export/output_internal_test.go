package export

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A pipe that cannot be closed is reported, with temporary files or without, which are removed.
func TestClosingAPipeThatFails(t *testing.T) {
	t.Parallel()
	for _, temporary := range []bool{false, true} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.NoError(t, w.Close())
		o := &Output{pipe: w}
		if temporary {
			o.temp = filepath.Join(t.TempDir(), "answers")
			require.NoError(t, os.Mkdir(o.temp, 0o700))
		}
		require.ErrorIs(t, o.Close(), os.ErrClosed, "temporary files: %t", temporary)
		require.NoDirExists(t, o.temp)
		require.NoError(t, o.Close(), "it is closed once")
	}
}
