package redisqueue

import "time"

const (
	// maxPause is the maximum time for which a result waits for other results, so that they are
	// recorded together.
	maxPause = 50 * time.Millisecond
	// A worker takes some rows ahead: they wait in its engine until a running row ends. It takes as
	// many rows ahead as its engine computes in prefetchTime. These are few if rows take long, so
	// that no other worker is without rows for long at the end of a batch.
	prefetchTime = 100 * time.Millisecond
	// minPrefetchShare sets the minimum number of rows ahead: the number of rows that the engine
	// computes at once, divided by minPrefetchShare.
	minPrefetchShare = 4
	// maxGroup is the maximum number of results, and the maximum number of tasks, in one round
	// trip.
	maxGroup = 128
)

// capacity decides how many rows a feed takes, from how many it has and how long they take.
type capacity struct {
	running  int           // maximum number of rows that the engine computes at once
	prefetch int           // maximum number of further rows that wait in the engine
	held     int           // rows that were taken and whose handlers have not returned
	ending   int           // held rows with results, whose handlers will soon be free
	mean     time.Duration // mean time that a handler needs for a result; 0 until a row has ended
}

// room returns the number of rows to take now: for handlers that are free or will soon be free, and
// for the reserve.
func (c capacity) room() int { return max(c.limit()+c.reserved()-c.held+c.ending, 0) }

// limit returns the number of rows that may run or wait in the engine at a time.
func (c capacity) limit() int { return c.running + c.prefetched() }

// prefetched returns the number of rows to take ahead.
func (c capacity) prefetched() int {
	n := min(c.prefetch, c.running/minPrefetchShare)
	if c.mean > 0 {
		n = max(n, int(min(time.Duration(c.prefetch), time.Duration(c.running)*prefetchTime/c.mean)))
	}
	return n
}

// group returns how many results are enough to record them without waiting for other results: three
// quarters of the rows ahead. While they are recorded and more rows are taken, the engine still has
// the last quarter to compute.
func (c capacity) group() int { return min(max(1, c.prefetched()*3/4), maxGroup) }

// reserved returns how many rows to hold in reserve: as many as results are recorded together.
// These rows begin in the round trip that records the results. Without a reserve, they would need a
// second one. While rows take long, none are taken for the reserve, since other workers could run
// them meanwhile.
func (c capacity) reserved() int {
	if c.prefetch == 0 || c.mean == 0 {
		return 0
	}
	return min(c.group(), int(time.Duration(c.limit())*maxPause/c.mean)) // the second number is how many results are expected in maxPause
}

// free returns the number of handlers that are free or will soon be free. The rows of the reserve
// have no handlers.
func (c capacity) free(reserve int) int { return c.limit() - (c.held - c.ending - reserve) }

// isShort reports whether the engine lacks more than a quarter of the rows ahead. If it lacks
// fewer, it still has enough rows when the next group of results is recorded.
func (c capacity) isShort(reserve int) bool { return c.free(reserve) > c.prefetched()/4 }

// pause returns how long results wait for others: the time in which a group of results is expected.
func (c capacity) pause() time.Duration {
	return min(c.mean*time.Duration(c.group())/time.Duration(c.limit()), maxPause)
}
