package local

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/rows"
)

// windowBytes is the most that the bodies of the rows in the window take.
const windowBytes = 64 << 20

// window bounds the rows that are in the queue or in the engine or wait to be written, by their number and by their size.
type window struct {
	room  *semaphore.Weighted
	least int64 // of room that a row takes, by which the number of rows is bounded

	mu    sync.Mutex
	taken map[int]int64 // room by line
}

// newWindow lets in enough rows for the worker not to wait for the next one.
func newWindow(concurrency int) *window {
	rows := int64(max(64, 4*concurrency))
	return &window{room: semaphore.NewWeighted(windowBytes), least: windowBytes / rows, taken: map[int]int64{}}
}

// enter waits until there is room for a row.
func (w *window) enter(ctx context.Context, row rows.Row) error {
	n := min(max(w.least, int64(len(row.Body))), windowBytes)
	if err := w.room.Acquire(ctx, n); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken[row.Line] = n
	return nil
}

// leave gives the room of rows back.
func (w *window) leave(rows []job.Recording) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range rows {
		w.room.Release(w.taken[r.Line])
		delete(w.taken, r.Line)
	}
}
