//go:build race

package cpu_test

// raced tells that the race detector is on, which makes arithmetic some twenty times slower.
const raced = true
