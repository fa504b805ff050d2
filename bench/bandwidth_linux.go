package bench

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages, which weights use as well. Without them the measurement uses small pages.
func adviseHuge(data []byte) { _ = unix.Madvise(data, unix.MADV_HUGEPAGE) }
