package cpu

import "golang.org/x/sys/unix"

// adviseHuge requests huge pages for b. With huge pages, a step that reads all weights needs far
// fewer address translations.
func adviseHuge(b []byte) {
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // a failure only costs speed
}
