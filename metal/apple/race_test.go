//go:build race

package apple

// raced reports whether the race detector is on. With the race detector, sync.Pool drops objects.
const raced = true
