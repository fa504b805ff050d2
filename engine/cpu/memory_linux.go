package cpu

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages, which spare a stream over the weights most of its address translations.
func adviseHuge(b []byte) {
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // without them it is only slower
}
