//go:build amd64 || arm64

package cpu

// pause tells the processor that the thread waits in a loop, so that another thread on the same core gets the core's units.
func pause()
