package serve

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// room limits the memory of large bodies. A body takes memory while it arrives, so a slow client
// holds only what it has sent. The last part of the room, large enough for any body, is for one
// body at a time. So there is always one that can be read to its end and frees its memory.
type room struct {
	largest int64         // maximum size of a body, in bytes
	wait    time.Duration // maximum time that a body waits for memory

	mu    sync.Mutex
	free  int64         // bytes
	last  *share        // the body that may use the last part; nil if none does
	freed chan struct{} // closed and replaced when memory is freed
}

func newRoom(size, largest int64, wait time.Duration) *room {
	return &room{free: size, largest: largest, wait: wait, freed: make(chan struct{})}
}

// share is the part of a room that a body has taken.
type share struct {
	room *room
	held int64 // bytes
}

func (r *room) share() *share { return &share{room: r} }

// take adds n bytes to a share. It waits until they are free. The error is that of ctx, or tells
// the client to try again later.
func (s *share) take(ctx context.Context, n int64) error {
	ok, freed := s.room.tryTake(s, n)
	if ok {
		return nil
	}
	timeout := time.NewTimer(s.room.wait)
	defer timeout.Stop()
	for !ok {
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout.C:
			return busy("other large requests take all the memory for them")
		}
		ok, freed = s.room.tryTake(s, n)
	}
	return nil
}

// tryTake takes n bytes if they are free. Otherwise freed is closed when a later attempt may
// succeed.
func (r *room) tryTake(s *share, n int64) (ok bool, freed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.free-n < r.largest {
		if r.last != nil && r.last != s || r.free < n {
			return false, r.freed
		}
		r.last = s
	}
	r.free -= n
	s.held += n
	return true, nil
}

// giveBack frees what a share holds.
func (s *share) giveBack() { s.shrink(0) }

// shrink frees what a share holds above size bytes.
func (s *share) shrink(size int64) {
	if s.held == size {
		return
	}
	r := s.room
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += s.held - size
	s.held = size
	if r.free >= r.largest {
		r.last = nil
	}
	close(r.freed)
	r.freed = make(chan struct{})
}

// busy returns the error of a request that the server has no room for.
func busy(reason string) error {
	return failLater(retryLater, http.StatusTooManyRequests, "", "server_busy", "the server is busy: %s; try again later", reason)
}
