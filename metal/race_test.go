//go:build race

package metal_test

// raced tells that the race detector is on, which makes allocations of its own.
const raced = true
