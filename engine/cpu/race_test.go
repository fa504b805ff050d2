//go:build race

package cpu_test

// raced reports whether the race detector is on. The race detector makes arithmetic about 20 times
// slower.
const raced = true
