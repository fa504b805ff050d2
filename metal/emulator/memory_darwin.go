package emulator

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// physical is the bytes of memory that the machine has.
func physical() (int, error) {
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0, fmt.Errorf("read hw.memsize: %w", err)
	}
	return int(total), nil
}
