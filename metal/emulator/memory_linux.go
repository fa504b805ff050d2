package emulator

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// physical is the bytes of memory that the machine has, or that its control group may use where that is less.
func physical() (int, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("ask for the size of memory: %w", err)
	}
	total := int(info.Totalram) * int(info.Unit)
	text, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err != nil {
		return total, nil //nolint:nilerr // there is no control group
	}
	if limit, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil { // it says max where there is no limit
		total = min(total, limit)
	}
	return total, nil
}
