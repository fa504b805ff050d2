package bench

import "golang.org/x/sys/unix"

// adviseHuge requests huge pages, as the memory of weights does. If the system refuses, the
// measurement uses small pages.
func adviseHuge(data []byte) { _ = unix.Madvise(data, unix.MADV_HUGEPAGE) }
