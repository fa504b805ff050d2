//go:build !(darwin && arm64)

package apple

// systemLibraries are none: this system has no Metal that the driver knows the calling convention of.
var systemLibraries []string
