package emulator

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// physical returns the bytes of memory of the machine, or the limit of its control group if that is
// less.
func physical() (int, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("read the size of memory: %w", err)
	}
	total := int(info.Totalram) * int(info.Unit)
	text, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err != nil {
		return total, nil //nolint:nilerr // the process has no control group with a limit
	}
	if limit, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil { // if there is no limit, the text is "max"
		total = min(total, limit)
	}
	return total, nil
}
