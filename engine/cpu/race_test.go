//go:build race

package cpu_test

// raced reports whether the race detector is on, which makes arithmetic about 20 times slower.
const raced = true
