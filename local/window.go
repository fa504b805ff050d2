package local

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/rows"
)

// maxWindowBytes is the maximum size of the bodies of the rows in the window.
const maxWindowBytes = 64 << 20

// window limits the rows that are queued, in the engine or waiting to be written, by number and by size.
type window struct {
	room    *semaphore.Weighted
	minRoom int64 // room that a row takes at least; this limits the number of rows

	mu    sync.Mutex
	taken map[int]int64 // room taken, by line
}

// newWindow makes a window large enough that the worker does not wait for rows.
func newWindow(concurrency int) *window {
	rows := int64(max(64, 4*concurrency))
	return &window{room: semaphore.NewWeighted(maxWindowBytes), minRoom: maxWindowBytes / rows, taken: map[int]int64{}}
}

// acquire waits for room for a row and takes it.
func (w *window) acquire(ctx context.Context, row rows.Row) error {
	n := min(max(w.minRoom, int64(len(row.Body))), maxWindowBytes)
	if err := w.room.Acquire(ctx, n); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken[row.Line] = n
	return nil
}

// release frees the room of rows.
func (w *window) release(rows []job.Recording) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range rows {
		w.room.Release(w.taken[r.Line])
		delete(w.taken, r.Line)
	}
}
