package redisqueue

import (
	"context"
	"slices"
	"time"
)

const (
	// maxGroupBytes limits the wait for other results: once the results have this total size in
	// bytes, they are recorded.
	maxGroupBytes = 512 << 10
	// maxGroupedResult is the maximum size, in bytes, of a result that is recorded together with
	// other results.
	maxGroupedResult = 64 << 10
)

// waiting is a result that waits to be recorded together with others.
type waiting struct {
	toRecord
	reply chan recorded // with room for the reply
}

func newWaiting(row toRecord) waiting { return waiting{row, make(chan recorded, 1)} }

// recorded is the reply for one result.
type recorded struct {
	first bool
	err   error
}

// record records the result of a row together with other results.
func (f *feed) record(ctx context.Context, h *recorder, row toRecord) (first bool, err error) {
	w := newWaiting(row)
	f.mu.Lock()
	f.results = append(f.results, w)
	f.bytes += w.size()
	if !h.ending {
		h.ending = true
		f.capacity.ending++
		f.capacity.mean += (time.Since(h.since) - f.capacity.mean) / 8
	}
	full := f.isFull()
	f.mu.Unlock()
	signal(f.wake)
	if full {
		signal(f.full)
	}
	select {
	case r := <-w.reply:
		return r.first, r.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// isFull reports whether the results should be recorded now, without waiting for other results. The
// caller holds the mutex.
func (f *feed) isFull() bool {
	return len(f.results) >= f.capacity.group() || f.bytes >= maxGroupBytes || f.capacity.held-f.capacity.ending == 0
}

// wait waits for more results, so that they are recorded together. It returns after a pause, or
// when f.full receives a signal.
func (f *feed) wait() {
	f.mu.Lock()
	pause := f.capacity.pause()
	if f.isFull() {
		pause = 0
	}
	f.mu.Unlock()
	if pause == 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.full:
	}
}

// nextResults removes the results that are recorded in the next round trip. The caller holds the
// mutex.
func (f *feed) nextResults() []waiting {
	select {
	case <-f.full:
	default:
	}
	n := min(len(f.results), maxGroup)
	results := f.results[:n]
	f.results = slices.Clone(f.results[n:])
	if len(f.results) > 0 {
		signal(f.wake)
	}
	f.bytes = 0
	for _, w := range f.results {
		f.bytes += w.size()
	}
	return results
}
