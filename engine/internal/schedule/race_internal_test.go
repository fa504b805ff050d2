//go:build race

package schedule

// raced reports whether the race detector is on. The race detector allocates memory itself.
const raced = true
