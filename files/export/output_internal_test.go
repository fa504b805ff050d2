package export

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

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

// What a write returns within the wait counts, also after the command was stopped. A write that
// does not return is given up.
func TestUntilStopped(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		ctx, cancel := context.WithCancel(t.Context())
		n, err := untilStopped(ctx, time.Hour, func() (int, error) { return 7, want })
		require.Equal(t, 7, n)
		require.Equal(t, want, err)
		cancel()
		for range 20 {
			begun, stopped := context.WithCancel(t.Context())
			n, err = untilStopped(begun, time.Hour, func() (int, error) {
				stopped()
				return 8, want
			})
			require.Equal(t, 8, n)
			require.Equal(t, want, err)
			end := make(chan struct{})
			n, err = untilStopped(ctx, 0, func() (int, error) { <-end; return 9, want })
			close(end)
			require.Zero(t, n)
			require.ErrorIs(t, err, context.Canceled)
		}
	}
}
