//go:build race

package apple

// raced reports whether the race detector is on, under which sync.Pool drops objects.
const raced = true
