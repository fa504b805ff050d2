//go:build amd64 && !linux

package kernels

// permitTiles reports whether AMX can be used. It was not tried on systems other than Linux.
func permitTiles() bool { return false }
