package schedule

import "time"

// figures are the times and counts that the loop records about a request.
type figures struct {
	admitted    time.Time // admission of its first sequence
	first, last time.Time // times of its first and last generated tokens
	lastStep    uint64    // number of the last step with rows of the request
	steps       int
	batchSizes  int // sum of the numbers of sequences in these steps
	cached      int // prompt tokens that the first choice found in the cache
}

// step records that the request took part in step number n, whose batch has the given number of sequences.
func (f *figures) step(n uint64, sequences int) {
	if f.lastStep == n {
		return
	}
	f.lastStep = n
	f.steps++
	f.batchSizes += sequences
}

// token records that a token was generated.
func (f *figures) token(now time.Time) {
	if f.first.IsZero() {
		f.first = now
	}
	f.last = now
}
