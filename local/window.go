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

// bodyCopies is the number of copies of a row's body in memory: in the queue, in the job that was read from the
// queue, and in the request.
const bodyCopies = 5

// window limits the rows that are queued, in the engine or waiting to be written, by number and by size.
type window struct {
	room    *semaphore.Weighted
	bytes   int64 // size of the bodies
	minRoom int64 // minimum room of a row; this limits the number of rows

	mu    sync.Mutex
	taken map[int]int64 // room taken, by line
}

// newWindow makes a window that is large enough for the worker not to wait for rows. If the bodies need more than the memory for
// rows, the window is smaller.
func newWindow(concurrency int, memory int64) *window {
	rows := int64(max(64, 4*concurrency))
	bytes := min(memory/bodyCopies, maxWindowBytes)
	return &window{room: semaphore.NewWeighted(bytes), bytes: bytes, minRoom: max(1, bytes/rows), taken: map[int]int64{}}
}

// acquire waits for room for a row and takes it.
func (w *window) acquire(ctx context.Context, row rows.Row) error {
	n := w.size(len(row.Body))
	if err := w.room.Acquire(ctx, n); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken[row.Line] = n
	return nil
}

// size returns the room that a row with a body of the given size takes.
func (w *window) size(body int) int64 { return min(max(w.minRoom, int64(body)), w.bytes) }

// drain is called after a row with a body of the given size was queued. If that row takes the whole window, drain waits until the
// row has been written. Until then, no further row should be read.
func (w *window) drain(ctx context.Context, body int) error {
	if w.size(body) < w.bytes {
		return nil
	}
	if err := w.room.Acquire(ctx, w.bytes); err != nil {
		return err
	}
	w.room.Release(w.bytes)
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
