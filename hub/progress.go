package hub

import (
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/dustin/go-humanize"
)

type progress struct {
	show func(Progress)

	mu                 sync.Mutex
	done, total, moved int64
}

// add increases the counts and reports them. The parameter there is the number of additional bytes
// that are now on the disk. The parameter moved says how many of them were downloaded.
func (p *progress) add(there, moved int64) {
	p.mu.Lock()
	p.done += there
	p.moved += moved
	now := Progress{Done: p.done, Total: p.total, Moved: p.moved}
	p.mu.Unlock()
	p.show(now)
}

// spareBytes is the number of bytes that a download leaves free on a disk, since other programs
// fail on a full disk.
const spareBytes = 64 << 20

// checkSpace returns an error if the disk of a folder has less free space than need plus
// spareBytes, in bytes. If need is not positive, it returns nil.
func checkSpace(dir string, need int64) error {
	if need <= 0 {
		return nil
	}
	free, err := freeBytes(dir)
	if err != nil {
		return err
	}
	if free-spareBytes < need {
		return fmt.Errorf("the download to %s needs %s, and %s more must stay free, but the disk has %s free; make room (\"ingot models list\" lists the models on this machine), or set HF_HUB_CACHE to a folder on another disk if the model is from Hugging Face",
			dir, sizeText(need), sizeText(spareBytes), sizeText(free))
	}
	return nil
}

// allocated returns the number of bytes that a sparse file uses on the disk.
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
