package emulator

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func physical() (int, error) {
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0, fmt.Errorf("read hw.memsize: %w", err)
	}
	return int(total), nil
}
