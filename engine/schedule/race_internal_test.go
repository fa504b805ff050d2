//go:build race

package schedule

// raced reports whether the race detector is on, which allocates by itself.
const raced = true
