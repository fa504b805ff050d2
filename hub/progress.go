package hub

import (
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/dustin/go-humanize"
)

// progress counts the bytes of a model's files.
type progress struct {
	show func(Progress)

	mu                 sync.Mutex
	done, total, moved int64
}

// add counts bytes that are there now, of which some were downloaded.
func (p *progress) add(there, moved int64) {
	p.mu.Lock()
	p.done += there
	p.moved += moved
	now := Progress{Done: p.done, Total: p.total, Moved: p.moved}
	p.mu.Unlock()
	p.show(now)
}

// spareBytes stay free on a disk: systems misbehave on a full one.
const spareBytes = 64 << 20

// checkSpace returns an error if the disk of a folder has not enough room.
func checkSpace(dir string, need int64) error {
	if need <= 0 {
		return nil
	}
	free, err := freeBytes(dir)
	if err != nil {
		return err
	}
	if free-spareBytes < need {
		return fmt.Errorf("%s are to be downloaded to %s, but its disk has %s free; make room (\"ingot models list\" shows what is there), or set HF_HOME to a folder on another disk",
			sizeText(need), dir, sizeText(free))
	}
	return nil
}

// allocated returns the bytes that a file with holes takes on the disk.
func allocated(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return min(s.Blocks*512, info.Size())
	}
	return 0
}

// sizeText formats bytes in decimal units, as the hub does.
func sizeText(n int64) string { return humanize.Bytes(uint64(max(0, n))) }
