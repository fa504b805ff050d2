package bench

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages, as weights have them. Where the system has none to give, small ones do.
func adviseHuge(data []byte) { _ = unix.Madvise(data, unix.MADV_HUGEPAGE) }
