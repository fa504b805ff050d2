package cpu

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Free implements compute.Backend. It computes the free memory from the percentage that the system
// reports, which includes memory that the system can reclaim.
func (b *Backend) Free() (int64, error) {
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0, fmt.Errorf("read hw.memsize: %w", err)
	}
	percent, err := unix.SysctlUint32("kern.memorystatus_level")
	if err != nil {
		return 0, fmt.Errorf("read kern.memorystatus_level: %w", err)
	}
	return int64(total) / 100 * int64(percent), nil
}
