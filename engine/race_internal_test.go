//go:build race

package engine

// raced tells that the race detector is on, which allocates by itself.
const raced = true
