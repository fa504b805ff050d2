package local

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/queue"
)

// The window holds a limited number of rows, and fewer rows if they are large. A row that is larger
// than the window is alone in it.
func TestWindow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		concurrency, size int
		memory            int64 // for rows
		rows              int
	}{
		{"small rows", 4, 10, 512 << 20, 64},
		{"small rows, many at once", 32, 10, 512 << 20, 128},
		{"rows of a share of the window", 16, 1 << 20, 512 << 20, 64},
		{"rows of 2 MiB", 16, 2 << 20, 512 << 20, 32},
		{"rows of 2 MiB, many at once", 64, 2 << 20, 512 << 20, 32},
		{"rows of 2 MiB in little memory", 64, 2 << 20, 20 << 20, 2},
		{"small rows in little memory", 32, 10, 20 << 20, 128},
		{"huge rows", 16, maxWindowBytes + 1, 512 << 20, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, body := newWindow(c.concurrency, c.memory), make([]byte, c.size)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for line := range c.rows {
				require.NoError(t, w.acquire(ctx, rows.Row{Line: line, Body: body}))
			}
			require.False(t, w.room.TryAcquire(1), "the window is full")
			w.release([]queue.Recording{{Line: 0}})
			require.NoError(t, w.acquire(ctx, rows.Row{Line: c.rows, Body: body}))
			require.False(t, w.room.TryAcquire(1))
		})
	}
}

// After a row that fills the window, no row is read until that row is written.
func TestALargeRowIsAlone(t *testing.T) {
	t.Parallel()
	w := newWindow(16, 20<<20)
	large, small := rows.Row{Line: 1, Body: make([]byte, 4<<20)}, rows.Row{Line: 2, Body: make([]byte, 100)}
	require.NoError(t, w.acquire(t.Context(), small))
	require.NoError(t, w.drain(t.Context(), len(small.Body)))
	w.release([]queue.Recording{{Line: 2}})
	require.NoError(t, w.acquire(t.Context(), large))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.drain(ctx, len(large.Body)), context.Canceled)
	w.release([]queue.Recording{{Line: 1}})
	require.NoError(t, w.drain(t.Context(), len(large.Body)))
}
