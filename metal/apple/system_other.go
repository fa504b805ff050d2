//go:build !(darwin && arm64)

package apple

// systemLibraries is empty: the driver supports the calling convention of darwin/arm64 only.
var systemLibraries []string
