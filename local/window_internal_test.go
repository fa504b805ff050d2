package local

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/rows"
)

// The window holds rows up to its number, or up to its size if they are large. A row larger than the window has it to itself.
func TestWindow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		concurrency, size int
		rows              int
	}{
		{"small rows", 4, 10, 64},
		{"small rows, many at once", 32, 10, 128},
		{"rows of a share of the window", 16, 1 << 20, 64},
		{"rows of 2 MiB", 16, 2 << 20, 32},
		{"rows of 2 MiB, many at once", 64, 2 << 20, 32},
		{"huge rows", 16, maxWindowBytes + 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, body := newWindow(c.concurrency), make([]byte, c.size)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for line := range c.rows {
				require.NoError(t, w.acquire(ctx, rows.Row{Line: line, Body: body}))
			}
			require.False(t, w.room.TryAcquire(1), "it is full")
			w.release([]job.Recording{{Line: 0}})
			require.NoError(t, w.acquire(ctx, rows.Row{Line: c.rows, Body: body}))
			require.False(t, w.room.TryAcquire(1))
		})
	}
}
