package cpu

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages, which save most address translations when a step reads all weights.
func adviseHuge(b []byte) {
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // a failure only costs speed
}
