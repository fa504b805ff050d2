//go:build !race

package metal_test

// raced reports whether the race detector is on, which allocates.
const raced = false
