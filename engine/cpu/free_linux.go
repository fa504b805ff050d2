package cpu

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Free implements compute.Backend. It returns the kernel's estimate of the memory that is available
// without swapping. If the limit of the control group leaves less memory, it returns that amount.
func (b *Backend) Free() (int64, error) {
	free, err := memAvailable()
	if err != nil {
		return 0, err
	}
	limit, errLimit := readBytes("/sys/fs/cgroup/memory.max")
	used, errUsed := readBytes("/sys/fs/cgroup/memory.current")
	if errLimit == nil && errUsed == nil {
		free = min(free, max(0, limit-used))
	}
	return free, nil
}

func memAvailable() (int64, error) {
	const path = "/proc/meminfo"
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // the file was only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(text, "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("read %s: MemAvailable is missing", path)
}

// readBytes reads a number from a file. It fails if the file has the text "max", which means no
// limit.
func readBytes(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}
