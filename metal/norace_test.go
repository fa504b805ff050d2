//go:build !race

package metal_test

// raced reports whether the race detector is on. The race detector allocates memory.
const raced = false
