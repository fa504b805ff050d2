//go:build amd64 || arm64

package cpu

// pause is the processor's hint for waiting in a loop. It lets another thread on the same core use
// the core's units.
func pause()
