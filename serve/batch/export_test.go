package batch

import "time"

// WithInterval sets the interval between two searches for lost rows.
func (f *Fleet) WithInterval(d time.Duration) *Fleet {
	f.interval = d
	return f
}
