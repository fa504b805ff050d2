package local

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/queue"
)

const maxWindowBytes = 64 << 20

// bodyCopies is the assumed memory that a row in the window takes, as a multiple of the size of its
// request body: the body itself, and what is parsed from it.
const bodyCopies = 5

type window struct {
	room    *semaphore.Weighted
	bytes   int64 // maximum total size of the bodies
	minRoom int64 // room that even a small row takes, in bytes, which limits the number of rows

	mu    sync.Mutex
	taken map[int]int64 // room that each row takes, in bytes, by line number
}

// newWindow makes a window for about max(64, 4*concurrency) small rows, which is enough to keep the
// worker busy. memory is the maximum memory for the rows, in bytes.
func newWindow(concurrency int, memory int64) *window {
	rows := int64(max(64, 4*concurrency))
	bytes := min(memory/bodyCopies, maxWindowBytes)
	return &window{room: semaphore.NewWeighted(bytes), bytes: bytes, minRoom: max(1, bytes/rows), taken: map[int]int64{}}
}

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

func (w *window) size(body int) int64 { return min(max(w.minRoom, int64(body)), w.bytes) }

// drain must be called after a row was queued. body is the size of the row's body in bytes. If the
// row takes the whole window, drain waits until the row has been written, so that no other row is
// read before.
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

func (w *window) release(rows []queue.Recording) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range rows {
		w.room.Release(w.taken[r.Line])
		delete(w.taken, r.Line)
	}
}
